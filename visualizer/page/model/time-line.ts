/** The activity between two entries. `dead`: no process held the run; `copied`: another run did it, and this is its fork. */
export type ActivityKind = (typeof ACTIVITY_NAMES)[number][0] | 'none';

export const ACTIVITY_NAMES = [
  ['model', 'model'],
  ['tool', 'tool'],
  ['check', 'check of the answer'],
  ['person', 'a person'],
  ['wait', 'waiting'],
  ['doubt', 'in doubt'],
  ['paused', 'paused'],
  ['dead', 'no process'],
  ['copied', 'before the fork'],
] as const;

/** An entry on the time line. `kind` is the activity from this entry to the next. */
type Moment = { seq: number; at: number; kind: ActivityKind };

/** With the state after the entry. */
export type Activity = Moment & { path: string };

const KINDS: Readonly<Record<string, ActivityKind>> = {
  turn: 'model',
  compacting: 'model',
  executingTools: 'tool',
  backingOff: 'wait',
  finishing: 'check',
  resting: 'paused',
  'resting.awaitingApproval': 'person',
  'resting.awaitingReview': 'person',
  'resting.awaitingAnswers': 'person',
  'resting.awaitingSignIn': 'person',
  'resting.awaitingResults': 'wait',
  'resting.inDoubt': 'doubt',
};

export function kindOf(path: string): ActivityKind {
  return KINDS[path] ?? KINDS[path.split('.')[0] ?? ''] ?? 'none';
}

/** How long a run was in each state up to an entry, in ms, by the id of the state; a frame has the time of those in it. */
export function timesAt(activities: readonly Activity[], last: number): Map<string, number> {
  const times = new Map<string, number>();
  for (const [index, { at, path }] of activities.entries()) {
    const next = activities[index + 1];
    if (next === undefined || next.seq > last) break;
    const add = (id: string) => times.set(id, (times.get(id) ?? 0) + Math.max(0, next.at - at));
    add(path);
    if (path.includes('.')) add(path.slice(0, path.indexOf('.')));
  }
  return times;
}

/** A span of the time line. `from` and `to` are fractions of the total, 0 to 1. */
export type Span = { kind: ActivityKind; from: number; to: number };

/** The width of a collapsed rest, as a fraction of all active time. */
const REST = 0.04;
/** The width of what a fork copied, as a fraction of the rest. */
const COPIED = 0.08;
const RESTS: ReadonlySet<ActivityKind> = new Set(['wait', 'person', 'doubt', 'paused', 'dead']);

export class TimeLine {
  readonly #activities: readonly Moment[];
  readonly #places: Float64Array;
  /** The time at work before each entry, in ms. */
  readonly #works: Float64Array;
  readonly spans: Span[] = [];
  readonly restMs: number;
  readonly workMs: number;

  /** Entries up to `copied` are those of the run that this is a fork of. */
  constructor(activities: readonly Moment[], copied = 0) {
    this.#activities = activities.slice();
    const copies = activities.findIndex(({ seq }) => seq > copied);
    let [active, rest] = [0, 0];
    const lengths = activities.map((activity, index) => {
      if (index < copies) return 0;
      const length = Math.max(0, (activities[index + 1]?.at ?? activity.at) - activity.at);
      if (RESTS.has(activity.kind)) rest += length;
      else active += length;
      return length;
    });
    this.restMs = rest;
    this.workMs = active;
    const least = Math.max(active, 1) / Math.max(1, activities.length) / 4;
    const weights = activities.map(({ kind }, index) => {
      if (index < copies) return 0;
      const length = lengths[index] ?? 0;
      if (index === activities.length - 1) return 0;
      if (!RESTS.has(kind)) return Math.max(least, length);
      return length === 0 ? least : Math.max(least, Math.min(length, Math.max(active, 1) * REST));
    });
    const own = weights.reduce((sum, weight) => sum + weight, 0) || 1;
    weights.fill((own * COPIED) / copies, 0, Math.max(0, copies));
    const whole = weights.reduce((sum, weight) => sum + weight, 0) || 1;
    this.#places = new Float64Array(activities.length);
    this.#works = new Float64Array(activities.length);
    let [place, work] = [0, 0];
    activities.forEach(({ kind }, index) => {
      this.#places[index] = place / whole;
      this.#works[index] = work;
      if (!RESTS.has(kind)) work += lengths[index] ?? 0;
      place += weights[index] ?? 0;
      this.#addSpan({
        kind: index < copies ? 'copied' : kind,
        from: this.#places[index] ?? 0,
        to: place / whole,
      });
    });
  }

  #addSpan(span: Span): void {
    const before = this.spans.at(-1);
    if (span.kind === 'none' || span.to === span.from) return;
    if (before?.kind === span.kind && before.to === span.from) before.to = span.to;
    else this.spans.push(span);
  }

  placeOf(seq: number): number {
    const first = this.#activities[0]?.seq ?? 1;
    return this.#places[Math.max(0, Math.min(seq - first, this.#places.length - 1))] ?? 0;
  }

  /** Returns the position of a time, 0 to 1. `at` in ms since the epoch. */
  placeOfTime(at: number): number {
    return this.#placeIn(index => this.#activities[index]?.at ?? 0, at);
  }

  /** Returns the position of a time at work, 0 to 1. `ms` is without rests and what a fork copied. */
  placeOfWork(ms: number): number {
    return this.#placeIn(index => this.#works[index] ?? 0, ms);
  }

  #placeIn(valueAt: (index: number) => number, value: number): number {
    const index = Math.max(0, this.#countUntil(other => valueAt(other) > value) - 1);
    const [from, to] = [valueAt(index), valueAt(index + 1)];
    const place = this.#places[index] ?? 0;
    if (to <= from) return place;
    const part = Math.max(0, (value - from) / (to - from));
    return place + part * ((this.#places[index + 1] ?? place) - place);
  }

  entryAt(place: number): number {
    const found = this.#countUntil(index => (this.#places[index] ?? 0) >= place);
    const index = Math.min(found, this.#places.length - 1);
    const [before, after] = [this.#places[index - 1], this.#places[index] ?? 0];
    const nearest = before !== undefined && place - before < after - place ? index - 1 : index;
    return this.#activities[nearest]?.seq ?? 0;
  }

  /** How many activities there are before the first that `isAfter`; the ones after it are too. */
  #countUntil(isAfter: (index: number) => boolean): number {
    let [low, high] = [0, this.#activities.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isAfter(middle)) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}
