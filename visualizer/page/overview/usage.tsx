import { type Signal, useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { formatCost } from '../../../protocol/listing/cost.ts';
import { formatNumber } from '../../../protocol/listing/format-number.ts';
import type { TotalsRow } from '../../../protocol/listing/totals.ts';
import { setQuery } from '../app/router.ts';
import { type RunSummary, requestServer } from '../data/request.ts';
import { useNews, useRead } from '../data/server-watch.ts';
import type { PageSource } from '../data/source.ts';
import { askTotals, type Sums, sumTotals } from '../data/totals.ts';
import { formatDay } from '../render/format.ts';
import { Choice } from '../ui/draft-field.tsx';
import { ProblemText, Safe } from '../ui/text.tsx';
import { runsSince, startOf } from '../views/run-filter.ts';

const HOUR_MS = 3_600_000;
const AGAIN_MS = 3_000;
const MOST_ROWS = 30;
const UNKNOWN = '–';

/** `stepMs` is the time of one bar. */
export type Range = { name: string; title: string; hours: number; stepMs: number };

export const RANGES: readonly [Range, ...Range[]] = [
  { name: 'day', title: 'Last day', hours: 24, stepMs: HOUR_MS },
  { name: 'week', title: 'Last week', hours: 168, stepMs: 6 * HOUR_MS },
  { name: 'month', title: 'Last month', hours: 720, stepMs: 24 * HOUR_MS },
];

type Step = { at: number; used: Used };

/** A row of totals with the errors among its runs. */
type Used = Sums & { errors: number };

type Figure = {
  title: string;
  of(used: Used): number;
  show(used: Used): string;
  /** What its list has beside the other parameters. */
  list: Readonly<Record<string, string>>;
};

const FIGURES: readonly Figure[] = [
  { title: 'Runs', of: used => used.runs, show: used => formatNumber(used.runs), list: {} },
  {
    title: 'Errors',
    of: used => used.errors,
    show: used => formatNumber(used.errors),
    list: { status: 'failed' },
  },
  {
    title: 'Tokens',
    of: used => used.tokens,
    show: used => formatNumber(used.tokens),
    list: { sort: 'tokens' },
  },
  {
    title: 'Cost',
    of: used => used.cost,
    show: used => (used.cost > 0 ? formatCost(used.cost) : UNKNOWN),
    list: { sort: 'cost' },
  },
  { title: 'From the cache', of: cachePart, show: showCache, list: { sort: 'tokens' } },
];

function cachePart({ cached, cachedOf }: Sums): number {
  return cachedOf === 0 ? 0 : cached / cachedOf;
}

function showCache(used: Sums): string {
  return used.cachedOf === 0 ? UNKNOWN : `${Math.round(100 * cachePart(used))} %`;
}

type UsageProps = { source: PageSource; range: Range; query: URLSearchParams };

/** What the runs of a time did and used, over time and by agent, model or label. */
export function UsageSection({ source, range, query }: UsageProps) {
  const by = query.get('by') ?? 'agent';
  const shown = useSignal<number | null>(null);
  const { answer, problem, again } = useRead(() => readUsage(range, by), [range.name, by]);
  useNews(source, ['ready', 'summary', 'removed'], again, AGAIN_MS);
  if (answer === null || answer.by !== by || answer.range !== range) return <ProblemText text={problem} />;
  const { steps, groups, labels } = answer;
  const all = addUsed(steps.map(({ used }) => used));
  return (
    <>
      <ProblemText text={problem} />
      <section class="figures" aria-label={range.title}>
        {FIGURES.map(figure => (
          <section key={figure.title} class="need" aria-label={figure.title}>
            <h2>{figure.title}</h2>
            <p class="figure">
              <a href={runsSince(range.hours, figure.list)}>{figure.show(all)}</a>
            </p>
            <Bars figure={figure} steps={steps} shown={shown} />
          </section>
        ))}
      </section>
      <details>
        <summary>Over time, as a table</summary>
        <UsageTable
          head="Since"
          rows={steps
            .filter(({ used }) => used.runs > 0)
            .map(({ at, used }) => ({ name: formatDay(at), used }))}
        />
      </details>
      <section class="groups" aria-label="By">
        <p>
          By{' '}
          <Choice
            aria-label="By"
            value={by}
            options={['agent', 'model', ...labels.map(name => [`label:${name}`, `label ${name}`] as const)]}
            onChoose={name => setQuery({ by: name === 'agent' ? null : name })}
          />
        </p>
        <UsageTable
          head={by.replace(/^label:/, '')}
          rows={groups.slice(0, MOST_ROWS).map(({ name, used }) => ({
            name: name ?? 'none',
            used,
            href: (list: Figure['list']) =>
              name === undefined ? undefined : runsSince(range.hours, { ...filterOf(by, name), ...list }),
          }))}
        />
      </section>
    </>
  );
}

type TableRow = { name: string; used: Used; href?(list: Figure['list']): string | undefined };

function UsageTable({ head, rows }: { head: string; rows: readonly TableRow[] }) {
  const most = Math.max(1, ...rows.map(({ used }) => used.runs));
  return (
    <div class="usage-table">
      <table>
        <thead>
          <tr>
            <th scope="col">{head}</th>
            {FIGURES.map(({ title }) => (
              <th key={title} scope="col" class="number">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ name, used, href }) => (
            <tr key={name}>
              <th scope="row">
                <Safe text={name} />
                {href && <Share part={used.runs / most} />}
              </th>
              {FIGURES.map(({ title, show, list }) => (
                <td key={title} class="number">
                  {linkTo(href?.(list), show(used))}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function linkTo(href: string | undefined, text: string): ComponentChildren {
  return href === undefined ? text : <a href={href}>{text}</a>;
}

function Share({ part }: { part: number }) {
  return (
    <svg class="share" viewBox="0 0 100 3" preserveAspectRatio="none" aria-hidden="true">
      <rect width={Math.max(1, 100 * part)} height="3" />
    </svg>
  );
}

/** The parameters of the list that choose one group. */
function filterOf(by: string, name: string): Readonly<Record<string, string>> {
  return by.startsWith('label:') ? { label: `${by.slice(6)}=${name}` } : { [by]: name };
}

async function readUsage(range: Range, by: string) {
  const { hours, stepMs } = range;
  const start = startOf(hours);
  const filter = new URLSearchParams({ since: String(start) });
  const [overTime, byGroup, { runs }] = await Promise.all([
    askTotals(`by=status&every=${stepMs}`, filter),
    askTotals(`by=status&by=${encodeURIComponent(by)}`, filter),
    requestServer<{ runs: RunSummary[] }>('/runs?limit=200'),
  ]);
  const first = Math.floor(start / stepMs);
  const last = Math.floor(Date.now() / stepMs);
  const at = Map.groupBy(overTime, row => (row.at ?? 0) / stepMs);
  const member = by.startsWith('label:') ? 'label' : (by as 'agent' | 'model');
  const groups = [...Map.groupBy(byGroup, row => row[member])].map(([name, rows]) => ({
    name,
    used: usedOf(rows),
  }));
  return {
    range,
    by,
    steps: Array.from({ length: last - first + 1 }, (_, step) => ({
      at: (first + step) * stepMs,
      used: usedOf(at.get(first + step) ?? []),
    })),
    groups: groups.toSorted((one, other) => other.used.runs - one.used.runs),
    labels: [...new Set(runs.flatMap(({ labels }) => Object.keys(labels)))].sort(),
  };
}

function usedOf(rows: readonly TotalsRow[]): Used {
  return { ...sumTotals(rows), errors: sumTotals(rows.filter(({ status }) => status === 'failed')).runs };
}

function addUsed(all: readonly Used[]): Used {
  return { ...sumTotals(all), errors: all.reduce((sum, { errors }) => sum + errors, 0) };
}

const HEIGHT = 32;
const STEP = 10;

type BarsProps = { figure: Figure; steps: readonly Step[]; shown: Signal<number | null> };

/** A figure over time as bars, the largest of them as high as the picture. All pictures show the values of the same step. */
function Bars({ figure: { title, of, show }, steps, shown }: BarsProps) {
  const top = steps.reduce((one, other) => (of(other.used) > of(one.used) ? other : one));
  const last = steps.length - 1;
  const place = Math.min(shown.value ?? last, last);
  const isAtRest = shown.value === null;
  const { at, used } = steps[place] ?? top;
  const value = show(used);
  const leave = (): void => {
    shown.value = null;
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the range in it does the same by keyboard.
    <div
      class="over-time"
      onMouseMove={({ currentTarget, clientX }) => {
        const { left, width } = currentTarget.getBoundingClientRect();
        shown.value = Math.floor(((clientX - left) / width) * steps.length);
      }}
      onMouseLeave={leave}
    >
      <input
        type="range"
        class="spoken"
        aria-label={`${title} over time`}
        aria-valuetext={`${formatHour(at)}: ${value}`}
        max={last}
        value={place}
        onInput={({ currentTarget }) => (shown.value = Number(currentTarget.value))}
        onFocus={() => (shown.value ??= last)}
        onBlur={leave}
      />
      <p>{show(top.used)}</p>
      <svg
        class="bars"
        viewBox={`0 0 ${steps.length * STEP} ${HEIGHT}`}
        preserveAspectRatio="none"
        aria-hidden="true"
      >
        {steps.map(({ used }, index) => {
          const value = of(used);
          const height = value === 0 ? 1 : Math.max(2, (HEIGHT * value) / of(top.used));
          const look = value === 0 ? 'none' : '';
          return (
            <rect
              key={index}
              class={index === shown.value ? 'shown' : look}
              x={index * STEP + 1}
              y={HEIGHT - height}
              width={STEP - 2}
              height={height}
            />
          );
        })}
      </svg>
      <p>
        <time>{formatHour((isAtRest && steps[0]?.at) || at)}</time>
        {isAtRest ? 'now' : <strong>{value}</strong>}
      </p>
    </div>
  );
}

/** `12-01 14:00` */
const formatHour = (at: number): string => formatDay(at).slice(5, 16);
