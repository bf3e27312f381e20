/** Labels of a sample: few values each. */
export type MetricLabels = Readonly<Record<string, string>>;

/** Bucket boundaries of durations, in seconds. */
const SECONDS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

/** More label sets than a metric needs: further ones count as `other`. */
const MOST_SETS = 100;

type Histogram = { counts: number[]; sum: number; count: number };

/** A metric family in the text format of Prometheus. Source: https://prometheus.io/docs/instrumenting/exposition_formats/ */
export function describeFamily(
  name: string,
  type: 'gauge' | 'counter',
  help: string,
  samples: Iterable<readonly [MetricLabels, number]>,
): string[] {
  const lines = [...samples].map(([labels, value]) => `${name}${formatLabels(labels)} ${value}`);
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines];
}

class Sets<Value> {
  readonly #sets = new Map<string, readonly [MetricLabels, Value]>();
  readonly #make: () => Value;

  constructor(make: () => Value) {
    this.#make = make;
  }

  at(labels: MetricLabels): Value {
    const isKnown = this.#sets.has(formatLabels(labels)) || this.#sets.size < MOST_SETS;
    const used = isKnown ? labels : Object.fromEntries(Object.keys(labels).map(name => [name, 'other']));
    const key = formatLabels(used);
    const found = this.#sets.get(key)?.[1] ?? this.#make();
    this.#sets.set(key, [used, found]);
    return found;
  }

  all(): (readonly [MetricLabels, Value])[] {
    return [...this.#sets.values()];
  }
}

export class Counter {
  readonly #values = new Sets(() => ({ sum: 0 }));

  add(labels: MetricLabels, amount: number): void {
    this.#values.at(labels).sum += amount;
  }

  describe(name: string, help: string): string[] {
    const samples = this.#values.all().map(([labels, { sum }]) => [labels, sum] as const);
    return describeFamily(name, 'counter', help, samples);
  }
}

export class Durations {
  readonly #values = new Sets<Histogram>(() => ({ counts: SECONDS.map(() => 0), sum: 0, count: 0 }));

  add(labels: MetricLabels, ms: number): void {
    const histogram = this.#values.at(labels);
    const seconds = Math.max(0, ms) / 1_000;
    const bucket = SECONDS.findIndex(boundary => seconds <= boundary);
    if (bucket !== -1) histogram.counts[bucket] = (histogram.counts[bucket] ?? 0) + 1;
    histogram.sum += seconds;
    histogram.count += 1;
  }

  describe(name: string, help: string): string[] {
    const lines = this.#values
      .all()
      .flatMap(([labels, histogram]) => describeHistogram(name, labels, histogram));
    return [`# HELP ${name} ${help}`, `# TYPE ${name} histogram`, ...lines];
  }
}

function describeHistogram(name: string, labels: MetricLabels, { counts, sum, count }: Histogram): string[] {
  let below = 0;
  const buckets = SECONDS.map((boundary, index) => {
    below += counts[index] ?? 0;
    return `${name}_bucket${formatLabels({ ...labels, le: String(boundary) })} ${below}`;
  });
  return [
    ...buckets,
    `${name}_bucket${formatLabels({ ...labels, le: '+Inf' })} ${count}`,
    `${name}_sum${formatLabels(labels)} ${sum}`,
    `${name}_count${formatLabels(labels)} ${count}`,
  ];
}

function formatLabels(labels: MetricLabels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeValue(value)}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

function escapeValue(value: string): string {
  return value.slice(0, 100).replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
