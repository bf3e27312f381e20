// visualizer/page/regressions: recorded runs, and how those that were played from them differ.

import { formatCost } from '../../../protocol/listing/cost.ts';
import type { DifferenceKind, FoundDifference, Sameness } from '../../../regress/played-run.ts';
import type { Regression } from '../../../regress/regression.ts';
import { useShortcuts } from '../app/keyboard.ts';
import { setQuery, useTitle } from '../app/router.ts';
import { comparePath } from '../data/request.ts';
import { readListPages, useNews, useRead } from '../data/server-watch.ts';
import type { PageSource } from '../data/source.ts';
import { formatCount, formatNumber, joinFacts } from '../render/format.ts';
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

const KINDS: Readonly<Record<DifferenceKind, string>> = {
  'new-call': 'new call',
  'missing-call': 'missing call',
  input: 'other input',
  decision: 'other decision',
  outcome: 'other outcome',
  end: 'other end',
  output: 'other output',
  score: 'other score',
};

/** From the parameters of the address; empty for all. */
type Filter = { sameness: string; kind: string; tool: string };

/** A played run with its place among those of its recording, and the difference that is shown of it. */
type Row = Regression & { place: string; shown: FoundDifference | undefined; isNoise: boolean };

export function RegressionsView({ source, query }: { source: PageSource; query: URLSearchParams }) {
  const { answer, problem, again } = useRead(readAll, []);
  useNews(source, ['ready', 'summary', 'removed'], again);
  useTitle('Regressions');
  useShortcuts('Regressions', [
    { keys: ['j', 'ArrowDown'], does: 'Next row', repeats: true, run: () => moveFocus(1) },
    { keys: ['k', 'ArrowUp'], does: 'Previous row', repeats: true, run: () => moveFocus(-1) },
  ]);
  const of = (name: string): string => query.get(name) ?? '';
  const filter = { sameness: of('sameness'), kind: of('kind'), tool: of('tool') };
  const { found = [], isMore = false } = answer ?? {};
  const matching = rowsOf(found, filter);
  const rows = matching.filter(
    ({ side, sameness }) =>
      (filter.sameness === '' || sameness === filter.sameness) &&
      (side === 'candidate' || !sameness.startsWith('same')),
  );
  return (
    <main class="regressions">
      <h1 tabIndex={-1}>Regressions</h1>
      <ProblemText text={problem} />
      {answer !== null && found.length === 0 && <NoRegressions />}
      {found.length > 0 && (
        <>
          <Filters found={found} matching={matching} filter={filter} />
          {rows.length === 0 && <p class="empty">No played runs match.</p>}
          {rows.length > 0 && <Totals rows={rows} noise={describeNoise(found, matching, filter)} />}
          {rows.length > 0 && <Heads />}
          <VirtualList
            label="Played runs"
            class="runs"
            count={rows.length}
            rowHeight={ROW_HEIGHT}
            row={index => <RegressionRow row={rows[index]} />}
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

/** The played runs with a difference of the kind and tool: first those that people must see, the runs of a recording together. */
function rowsOf(found: readonly Regression[], { kind, tool }: Filter): Row[] {
  const groups = Map.groupBy(found, ({ runId }) => runId);
  const matches = (one: FoundDifference) =>
    (kind === '' || one.kind === kind) && (tool === '' || one.tool === tool);
  const shown = [...groups.values()].map(group => {
    const baselines = group.filter(({ side }) => side === 'baseline');
    const samples = group.length - baselines.length;
    const isIn = (difference: FoundDifference | undefined) => (one: FoundDifference) =>
      one.kind === difference?.kind && one.tool === difference.tool;
    return group
      .filter(({ differences }) => (kind === '' && tool === '') || differences.some(matches))
      .map((one): Row => {
        const isBaseline = one.side === 'baseline';
        const number = (isBaseline ? baselines.length : samples) > 1 ? ` ${one.sample}` : '';
        const named = isBaseline ? 'baseline' : 'sample';
        const place = isBaseline || number !== '' ? named + number : '';
        const difference = one.differences.find(matches);
        const isNoise = !isBaseline && baselines.some(other => other.differences.some(isIn(difference)));
        return { ...one, place, shown: difference, isNoise };
      })
      .toSorted((one, other) => placeOf(one) - placeOf(other) || one.sample - other.sample);
  });
  return shown.toSorted(([one], [other]) => placeOf(one) - placeOf(other)).flat();
}

/** The place of a row: new effects that cannot be repeated are first, and the baseline is last. */
function placeOf(row: Row | undefined): number {
  const words = Object.keys(SAMENESS);
  if (row === undefined || row.side === 'baseline') return words.length;
  const isOnce = !row.isNoise && row.differences.some(({ sideEffect }) => sideEffect === 'once');
  return isOnce ? -1 : words.indexOf(row.sameness);
}

type FiltersProps = { found: readonly Regression[]; matching: readonly Row[]; filter: Filter };

function Filters({ found, matching, filter }: FiltersProps) {
  const all = found.flatMap(({ differences }) => differences);
  const counted = matching.filter(({ side }) => side === 'candidate');
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
      <fieldset aria-label="Compared with the recording">
        {button('', 'all', counted.length)}
        {Object.entries(SAMENESS).map(([sameness, [word]]) =>
          button(sameness, word, counted.filter(one => one.sameness === sameness).length),
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

/** The kinds or tools to choose from, with the chosen one. */
function namesOf(all: readonly FoundDifference[], name: 'kind' | 'tool', chosen: string) {
  const values = new Set([chosen, ...all.map(one => one[name] ?? '')]);
  values.delete('');
  return [...values].sort().map(value => [value, KINDS[value as DifferenceKind] ?? value] as const);
}

/** Whether the figures of a row are those of a whole run. */
const isWhole = ({ sameness, stopped }: Regression) => sameness !== 'undecidable' && stopped === undefined;

/** What the played runs used, beside their recordings. */
function Totals({ rows, noise }: { rows: readonly Row[]; noise: string | false }) {
  const candidates = rows.filter(row => row.side === 'candidate' && isWhole(row));
  const stopped = rows.filter(row => row.side === 'candidate' && row.stopped).length;
  const pair = (name: 'turns' | 'tokens' | 'cost', format: (value: number) => string) => {
    const sum = (of: 'recorded' | 'candidate') => candidates.reduce((total, row) => total + row[name][of], 0);
    return pairOf({ recorded: sum('recorded'), candidate: sum('candidate') }, format);
  };
  return (
    <p class="muted">
      {joinFacts(
        formatCount(new Set(rows.map(({ runId }) => runId)).size, 'recorded run'),
        `turns ${pair('turns', formatNumber)}`,
        `tokens ${pair('tokens', formatNumber)}`,
        `cost ${pair('cost', formatCost)}`,
        stopped > 0 && `without ${formatCount(stopped, 'run')} that stopped early`,
        noise,
      )}
    </p>
  );
}

/** How often the baseline differs from its own recordings in the same way. */
function describeNoise(found: readonly Regression[], matching: readonly Row[], { kind, tool }: Filter) {
  const isBaseline = ({ side }: Regression) => side === 'baseline';
  const all = found.filter(isBaseline).length;
  const others = matching.filter(one => isBaseline(one) && one.sameness === 'otherEffects').length;
  const what = kind + tool === '' ? 'other effects' : 'this difference too';
  return all > 0 && `noise: ${formatNumber(others)} of ${formatCount(all, 'baseline run')} with ${what}`;
}

function pairOf(
  { recorded, candidate }: { recorded: number; candidate: number },
  format: (value: number) => string,
): string {
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

function RegressionRow({ row }: { row: Row | undefined }) {
  if (row === undefined) return null;
  const { runId, candidate, side, sameness, differences, place, shown, title, turns, cost } = row;
  const [word, look] = SAMENESS[sameness];
  const at = shown === undefined ? 0 : differences.indexOf(shown) + 1;
  return (
    <div class="row">
      <a class="cells" href={`${comparePath(runId, candidate)}${at === 0 ? '' : `?difference=${at}`}`}>
        <span class={`status ${side === 'baseline' ? 'is-cancelled' : look}`}>{word}</span>
        <span class="title">
          {place !== '' && <span class="mark">{place}</span>} <Safe text={title || runId} />
        </span>
        <Safe text={describeShown(row)} class="reason" />
        <span class="number">{isWhole(row) && pairOf(turns, formatNumber)}</span>
        <span class="number">{isWhole(row) && pairOf(cost, formatCost)}</span>
      </a>
    </div>
  );
}

function describeShown({ sameness, why = '', stopped, shown, differences, isNoise }: Row): string {
  if (sameness === 'undecidable') return why;
  if (shown === undefined) return sameness === 'sameEffects' ? 'only the text differs' : '';
  const others = differences.length - 1;
  return joinFacts(
    `turn ${shown.turn}: ${shown.detail}`,
    stopped === true && 'stopped there',
    others > 0 && `${formatNumber(others)} more`,
    isNoise && 'also in the baseline',
  );
}

/** Moves the focus among the rows; the list scrolls with it. */
function moveFocus(by: number): void {
  const links: (Element | null)[] = [...document.querySelectorAll('.runs a')];
  const at = links.indexOf(document.activeElement);
  const next = links[at < 0 ? 0 : at + by];
  if (next instanceof HTMLElement) next.focus();
}
