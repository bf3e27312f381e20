// visualizer/page/regressions: recorded runs, and how those that were played from them differ.

import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { formatCost } from '../../../protocol/listing/cost.ts';
import { formatNumber } from '../../../protocol/listing/format-number.ts';
import { describeKind } from '../../../regress/describe-report.ts';
import type { FoundDifference, Paired, Sameness } from '../../../regress/played-run.ts';
import type { Regression, RegressionSums } from '../../../regress/regression.ts';
import { useShortcuts } from '../app/keyboard.ts';
import { setQuery, useTitle } from '../app/router.ts';
import { comparePath, requestServer } from '../data/request.ts';
import { readListPages, useNews, useRead } from '../data/server-watch.ts';
import type { PageSource } from '../data/source.ts';
import { formatCount, joinFacts } from '../render/format.ts';
import { Button } from '../ui/button.tsx';
import { Choice } from '../ui/draft-field.tsx';
import { VirtualList } from '../ui/scrolling.tsx';
import { ProblemText, Safe } from '../ui/text.tsx';

const ROW_HEIGHT = 44;

const PAGE = 200;
const MOST_PAGES = 50;

/** Their words and badges. */
const SAMENESS: Readonly<Record<Sameness, readonly [word: string, look: string]>> = {
  otherEffects: ['other effects', 'is-failed'],
  undecidable: ['undecidable', 'is-waiting'],
  sameEffects: ['same effects', ''],
  same: ['same', 'is-finished'],
};

/** From the parameters of the address; empty for all. */
type Filter = { sameness: string; kind: string; tool: string };

/**
 * A played run. `mark`: its sample, or that it is of the baseline. `shown`: the difference that stands for it; `isNoise`:
 * the baseline shows that as often.
 */
type Row = Regression & { mark: string; shown: FoundDifference | undefined; isNoise: boolean };

/** A recorded run, which counts by its worst sample, and those of its played runs that match the filter. */
type Group = { worst: Sameness | undefined; rows: Row[] };

/** The row that was opened last: it has the focus when the browser goes back. */
let opened = '';

export function RegressionsView({ source, query }: { source: PageSource; query: URLSearchParams }) {
  const of = (name: string): string => query.get(name) ?? '';
  const filter = { sameness: of('sameness'), kind: of('kind'), tool: of('tool') };
  const list = useRead(readAll, []);
  const { answer: sums, ...added } = useRead(() => readSums(filter), Object.values(filter));
  const { answer } = list;
  useNews(source, ['ready', 'summary', 'removed'], async () => {
    await Promise.all([list.again(), added.again()]);
  });
  useTitle('Regressions');
  useShortcuts('Regressions', [
    { keys: ['j', 'ArrowDown'], does: 'Next row', repeats: true, run: () => moveFocus(1) },
    { keys: ['k', 'ArrowUp'], does: 'Previous row', repeats: true, run: () => moveFocus(-1) },
  ]);
  const isRead = answer !== null && sums !== null;
  const { found = [], isMore = false } = isRead ? answer : {};
  const matching = groupsOf(found, sums?.played ?? [], filter);
  const groups = matching.filter(({ worst }) => filter.sameness === '' || worst === filter.sameness);
  const rows = groups.flatMap(group => group.rows);
  const current = useSignal(-1);
  useEffect(() => {
    if (!isRead || opened === '') return;
    current.value = rows.findIndex(({ candidate }) => candidate === opened);
    opened = '';
    requestAnimationFrame(() => {
      document.querySelector<HTMLElement>('.runs a[aria-current]')?.focus();
      current.value = -1;
    });
  }, [isRead]);
  return (
    <main class="regressions">
      <h1 tabIndex={-1}>Regressions</h1>
      <ProblemText text={list.problem || added.problem} />
      {isRead && found.length === 0 && <NoRegressions />}
      {found.length > 0 && (
        <>
          <Filters found={found} matching={matching} filter={filter} />
          {rows.length === 0 && <p class="empty">No played runs match.</p>}
          {rows.length > 0 && sums && <Totals sums={sums} isAll={filter.kind + filter.tool === ''} />}
          {rows.length > 0 && <Heads />}
          <VirtualList
            label="Played runs"
            class="runs"
            count={rows.length}
            rowHeight={ROW_HEIGHT}
            current={current.value}
            row={index => <RegressionRow row={rows[index]} isCurrent={index === current.value} />}
          />
        </>
      )}
      {isMore && <p class="muted count">There are more: these are the newest.</p>}
    </main>
  );
}

async function readAll(): Promise<{ found: Regression[]; isMore: boolean }> {
  const sides = await Promise.all(
    ['candidate', 'baseline'].map(side =>
      readListPages<'regressions', Regression>(
        `/regressions?limit=${PAGE}&side=${side}`,
        MOST_PAGES,
        'regressions',
      ),
    ),
  );
  return {
    found: sides.flatMap(({ found }) => found),
    isMore: sides.some(({ next }) => next !== undefined),
  };
}

function readSums(filter: Filter): Promise<RegressionSums> {
  const given = Object.entries(filter).filter(([, value]) => value !== '');
  return requestServer(`/regressions/sums?${new URLSearchParams(given)}`);
}

const COMMANDS = `agentchart regress --agent MODULE --db SOURCE --out FILE
agentchart serve --db FILE`;

function NoRegressions() {
  return (
    <div class="empty">
      <p>
        There are no regressions in this store. Play recorded runs on the agent as it is now, and open the
        store that they are written to:
      </p>
      <pre>{COMMANDS}</pre>
    </div>
  );
}

/** First the recorded runs that people must see: other effects that cannot be repeated, then the rest, and noise after it. */
function groupsOf(found: readonly Regression[], played: RegressionSums['played'], filter: Filter): Group[] {
  const sums = new Map(played.map(one => [one.candidate, one]));
  const groups = [...Map.groupBy(found, ({ runId }) => runId)].map(([, all]): Group => {
    const rows = all
      .filter(one => one.side === 'candidate' || !one.sameness.startsWith('same'))
      .filter(one => filter.kind + filter.tool === '' || one.differences.some(matches(filter)))
      .map((one): Row => {
        const isBaseline = one.side === 'baseline';
        const isAlone = all.filter(({ side }) => side === one.side).length === 1;
        const words = [isBaseline ? 'baseline' : 'sample', ...(isAlone ? [] : [one.sample])].join(' ');
        const at = one.differences.findIndex(matches(filter));
        const isNoise = sums.get(one.candidate)?.noise.includes(at) === true;
        return { ...one, mark: isAlone && !isBaseline ? '' : words, shown: one.differences[at], isNoise };
      });
    rows.sort((one, other) => placeOf(one) - placeOf(other) || one.sample - other.sample);
    const [first] = rows;
    return { worst: sums.get(first?.candidate ?? '')?.worst ?? first?.sameness, rows };
  });
  return groups
    .filter(({ rows: [first] }) => first?.side === 'candidate')
    .sort((one, other) => placeOf(one.rows[0]) - placeOf(other.rows[0]));
}

const matches =
  ({ kind, tool }: Filter) =>
  (one: FoundDifference): boolean =>
    (kind === '' || one.kind === kind) && (tool === '' || one.tool === tool);

function placeOf(row: Row | undefined): number {
  const words = Object.keys(SAMENESS);
  if (row === undefined || row.side === 'baseline') return words.length;
  const isOnce = !row.isNoise && row.differences.some(({ sideEffect }) => sideEffect === 'once');
  return isOnce ? -1 : words.indexOf(row.sameness) + (row.isNoise ? 0.5 : 0);
}

type FiltersProps = { found: readonly Regression[]; matching: readonly Group[]; filter: Filter };

function Filters({ found, matching, filter }: FiltersProps) {
  const all = found.flatMap(({ differences }) => differences);
  const button = (sameness: string, word: string, count: number) => (
    <Button
      key={word}
      label={`${word} ${formatNumber(count)}`}
      aria-pressed={filter.sameness === sameness}
      onClick={() => setQuery({ sameness: sameness || null })}
    />
  );
  return (
    <search class="filters">
      <fieldset aria-label="Recorded runs">
        {button('', 'all', matching.length)}
        {Object.entries(SAMENESS).map(([sameness, [word]]) =>
          button(sameness, word, matching.filter(({ worst }) => worst === sameness).length),
        )}
      </fieldset>
      <Choice
        aria-label="Kind of difference"
        value={filter.kind}
        options={[['', 'any difference'], ...namesOf(all, 'kind', filter.kind)]}
        onChoose={kind => setQuery({ kind: kind || null })}
      />
      <Choice
        aria-label="Tool"
        value={filter.tool}
        options={[['', 'any tool'], ...namesOf(all, 'tool', filter.tool)]}
        onChoose={tool => setQuery({ tool: tool || null })}
      />
    </search>
  );
}

/** The kinds or tools to choose from, with the chosen one, which may be none of them. */
function namesOf(all: readonly FoundDifference[], name: 'kind' | 'tool', chosen: string) {
  const names = new Map([
    [chosen, chosen],
    ...all.map(one => [one[name] ?? '', name === 'kind' ? describeKind(one) : (one.tool ?? '')] as const),
  ]);
  names.delete('');
  return [...names].sort();
}

/** Whether the figures are those of a whole run. */
const isWhole = ({ sameness, stopped }: Regression) => sameness !== 'undecidable' && stopped === undefined;

/**
 * What a run used, recorded and played, with the intervals of the difference: means of those that were not stopped. `isAll`:
 * also in how many recorded runs the baseline differs, else in how many in the way of the filter.
 */
function Totals({ sums: { runs, paired, says, baseline }, isAll }: { sums: RegressionSums; isAll: boolean }) {
  const whole = paired.turns.runs;
  return (
    <p class="muted">
      {joinFacts(
        formatCount(runs, 'recorded run'),
        whole > 0 && whole < runs && `means of the ${formatNumber(whole)} that were not stopped`,
        ...says,
        baseline !== undefined &&
          `noise: the baseline ${isAll ? 'differs' : 'differs so'} in ${formatNumber(baseline.differing)} of ${formatCount(baseline.runs, 'run')}`,
      )}
    </p>
  );
}

function pairOf({ recorded, candidate }: Paired, format: (value: number) => string): string {
  const [before, now] = [format(recorded), format(candidate)];
  return before === now ? now : `${before} → ${now}`;
}

const HEADS = ['Effects', 'Recorded run', 'First difference', 'Turns', 'Cost'];
const COLUMNS = ['', 'title', 'reason', 'number', 'number'];

function Heads() {
  return (
    <div class="row-heads cells" aria-hidden="true">
      {HEADS.map((name, place) => (
        <span key={name} class={COLUMNS[place]}>
          {name}
        </span>
      ))}
    </div>
  );
}

function RegressionRow({ row, isCurrent }: { row: Row | undefined; isCurrent: boolean }) {
  if (row === undefined) return null;
  const { runId, candidate, side, sameness, differences, mark, shown, isNoise, title, turns, cost } = row;
  const [word, look] = SAMENESS[sameness];
  const at = shown === undefined ? 0 : differences.indexOf(shown) + 1;
  return (
    <div class="row">
      <a
        class="cells"
        href={`${comparePath(runId, candidate)}${at === 0 ? '' : `?difference=${at}`}`}
        aria-current={isCurrent ? 'true' : undefined}
        onClick={() => (opened = candidate)}
      >
        <span class={`status ${side === 'baseline' ? 'is-cancelled' : look}`}>{word}</span>
        <span class="title">
          {mark !== '' && <span class="mark">{mark}</span>} <Safe text={title || runId} />
        </span>
        <span class="reason">
          {isNoise && <span class="mark">noise</span>} <Safe text={describeShown(row)} />
        </span>
        <span class="number">{isWhole(row) ? pairOf(turns, formatNumber) : row.stopped && 'stopped'}</span>
        <span class="number">{isWhole(row) && pairOf(cost, formatCost)}</span>
      </a>
    </div>
  );
}

function describeShown({ sameness, why = '', shown, differences: { length } }: Row): string {
  if (sameness === 'undecidable') return why;
  if (shown === undefined) return sameness === 'sameEffects' ? 'only the text differs' : '';
  return joinFacts(`turn ${shown.turn}: ${shown.detail}`, length > 1 && `${formatNumber(length - 1)} more`);
}

/** Moves the focus among the rows; the list scrolls with it. */
function moveFocus(by: number): void {
  const links: (Element | null)[] = [...document.querySelectorAll('.runs a')];
  const at = links.indexOf(document.activeElement);
  const next = links[at < 0 ? 0 : at + by];
  if (next instanceof HTMLElement) next.focus();
}
