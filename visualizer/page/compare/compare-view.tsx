// visualizer/page/compare: two runs side by side, aligned where they agree.

import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import type { RunEvent } from '../../../protocol/event.ts';
import { canonicalJson, type JsonValue } from '../../../protocol/json.ts';
import { formatCost } from '../../../protocol/listing/cost.ts';
import { formatDuration } from '../../../protocol/listing/format-duration.ts';
import { formatNumber } from '../../../protocol/listing/format-number.ts';
import type { FoundDifference } from '../../../regress/played-run.ts';
import type { Regression } from '../../../regress/regression.ts';
import { address, setQuery, useTitle } from '../app/router.ts';
import { RequestError, type RunView, requestServer, runPath, type StreamedEvent } from '../data/request.ts';
import { useRead } from '../data/server-watch.ts';
import { type PageSource, readFirstEntries } from '../data/source.ts';
import { describeShownEvent } from '../render/describe-event.ts';
import { type Pair, pairEqual } from '../render/diff-lines.ts';
import { formatCount, roundNumber, showSafe } from '../render/format.ts';
import { Button, StatusBadge } from '../ui/button.tsx';
import { VirtualList } from '../ui/scrolling.tsx';
import { LongText, ProblemText, Safe } from '../ui/text.tsx';

const MOST = 20_000;
const ROW_HEIGHT = 32;

type Side = { view: RunView; events: StreamedEvent[]; nameCall(callId: string): string };
/** `first`: the row of the first difference, or -1. `played`: if the right run was played from the left one. */
type Compared = {
  left: Side;
  right: Side;
  rows: AlignedRow[];
  first: number;
  played: Regression | undefined;
};

export function CompareView({ source, left, right }: { source: PageSource; left: string; right: string }) {
  const { answer: found, problem } = useRead(() => compare(source, left, right), [source, left, right], {
    once: true,
  });
  const current = useSignal(-1);
  useTitle('Compare');
  const asked = Number(address.value.searchParams.get('difference') ?? 0);
  const chosen = Math.max(1, asked) - 1;
  const difference = found?.played?.differences[chosen];
  const first = found && difference ? findRow(found, difference) : (found?.first ?? -1);
  const show = (): void => {
    current.value = -1;
    current.value = first;
    document.querySelector('.aligned')?.scrollIntoView({ block: 'end' });
  };
  useEffect(() => {
    if (asked > 0) show();
    else current.value = first;
  }, [found, asked]);
  return (
    <main class="compare">
      <h1 tabIndex={-1}>Compare runs</h1>
      <ProblemText text={problem} />
      {found && (
        <>
          <Facts left={found.left} right={found.right} />
          {found.played && <Differences of={found.played.differences} chosen={chosen} show={show} />}
          {difference === undefined && (
            <p class="difference">
              {describeDifference(found)}
              {found.first >= 0 && <Button label="Show it" onClick={show} />}
            </p>
          )}
          <VirtualList
            label="Entries of both runs"
            class="aligned"
            count={found.rows.length}
            rowHeight={ROW_HEIGHT}
            current={current.value}
            row={index => <Row found={found} index={index} isFirst={index === first} />}
          />
        </>
      )}
    </main>
  );
}

type DifferencesProps = { of: readonly FoundDifference[]; chosen: number; show(): void };

/** What a played run did differently. The chosen difference is in the address. */
function Differences({ of: differences, chosen, show }: DifferencesProps) {
  return (
    <ol aria-label="What differs">
      {differences.map(({ turn, detail }, at) => (
        <li key={at} class="difference">
          <Button
            label={`Turn ${turn}`}
            aria-pressed={at === chosen}
            onClick={() => (at === chosen ? show() : setQuery({ difference: `${at + 1}` }))}
          />
          <Safe text={detail} />
        </li>
      ))}
    </ol>
  );
}

async function compare(source: PageSource, left: string, right: string): Promise<Compared> {
  const sides = await Promise.all([readSide(source, left), readSide(source, right)]).catch(error => {
    throw error instanceof RequestError && error.status === 404 ? new Error(MISSING) : error;
  });
  const [one, other] = sides;
  return {
    left: one,
    right: other,
    ...alignRuns(one, other),
    played: await readPlayed(one.view, other.view),
  };
}

async function readPlayed({ runId }: RunView, { runId: candidate, labels }: RunView) {
  if (labels.of !== runId || labels.regress === undefined) return undefined;
  const query = new URLSearchParams({ of: runId, side: labels.regress, limit: '200' });
  const { regressions } = await requestServer<{ regressions: Regression[] }>(`/regressions?${query}`);
  return regressions.find(one => one.candidate === candidate);
}

const MISSING = 'One of the two runs is not here. It may have been deleted, or be in another store.';

async function readSide(source: PageSource, runId: string): Promise<Side> {
  const view = await source.view(runId);
  const events = await readFirstEntries(source, runId, MOST);
  const names = new Map(
    events.flatMap(event =>
      event.type === 'turn.completed' ? event.calls.map(({ callId, name }) => [callId, name] as const) : [],
    ),
  );
  return { view, events, nameCall: callId => names.get(callId) ?? callId };
}

function describeDifference({ rows, first }: Compared): string {
  const row = rows[first];
  if (row === undefined) return 'Both runs did the same.';
  const at = row.left?.seq ?? row.right?.seq ?? 0;
  const differing = rows.filter(({ kind }) => kind !== 'same').length;
  return `The first difference is at entry ${at}. ${formatCount(differing, 'entry', 'entries')} of ${formatNumber(rows.length)} differ. `;
}

const FACTS = [
  ['Turns', 'turns', formatNumber],
  ['Calls', 'toolCalls', formatNumber],
  ['Tokens', 'tokens', formatNumber],
  ['Cost', 'cost', formatCost],
  ['At work', 'activeMs', formatDuration],
] as const;

function modelsOf({ events }: Side): string {
  const named = events.flatMap(event => (event.type === 'turn.completed' ? [event.model] : []));
  return [...new Set(named)].join(', ') || '–';
}

function Facts({ left: one, right: other }: { left: Side; right: Side }) {
  const [left, right] = [one.view, other.view];
  const row = (name: string, [before, now]: readonly ComponentChildren[], difference: string) => (
    <tr key={name}>
      <th scope="row">{name}</th>
      <td>{before}</td>
      <td>{now}</td>
      <td>{difference}</td>
    </tr>
  );
  const compared = (before: unknown, now: unknown): string => (before === now ? 'none' : 'differs');
  const models = [modelsOf(one), modelsOf(other)];
  return (
    <table class="facts">
      <thead>
        <tr>
          <td />
          <RunName view={left} />
          <RunName view={right} />
          <th scope="col">Difference</th>
        </tr>
      </thead>
      <tbody>
        {row(
          'Model',
          models.map(text => <Safe key={text} text={text} />),
          compared(models[0], models[1]),
        )}
        {FACTS.filter(([, key]) => key !== 'cost' || left.cost > 0 || right.cost > 0).map(
          ([name, key, format]) =>
            row(name, [format(left[key]), format(right[key])], describeChange(left[key], right[key], format)),
        )}
        {row(
          'Answer',
          [left, right].map(({ runId, answer = '–' }) => (
            // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls has to be reachable by keyboard.
            <div key={runId} class="answer" tabIndex={0}>
              <LongText text={answer} kind="prose" />
            </div>
          )),
          compared(left.answer, right.answer),
        )}
      </tbody>
    </table>
  );
}

function describeChange(before: number, now: number, format: (value: number) => string): string {
  if (roundNumber(before) === roundNumber(now)) return 'none';
  return now > before ? `+${format(now - before)}` : `−${format(before - now)}`;
}

function RunName({ view }: { view: RunView }) {
  const { runId, title, status, forkOf, agent, labels } = view;
  return (
    <th scope="col">
      <a href={runPath(runId)}>
        <Safe text={title || runId} />
      </a>{' '}
      <StatusBadge status={status} />
      <span class="muted">
        <Safe text={agent} /> <span class="mono">{showSafe(runId)}</span>
      </span>
      {labels.of !== undefined && labels.regress !== undefined && (
        <span class="muted">
          {showSafe(labels.regress)}, sample {showSafe(labels.sample ?? '1')}, played from{' '}
          <a href={runPath(labels.of)} class="mono">
            {showSafe(labels.of)}
          </a>
        </span>
      )}
      {forkOf && (
        <span class="muted">
          fork of{' '}
          <a href={`${runPath(forkOf.runId)}?at=${forkOf.at}`} class="mono">
            {showSafe(forkOf.runId)}
          </a>
          {` at entry ${forkOf.at}`}
        </span>
      )}
    </th>
  );
}

function Row({ found, index, isFirst }: { found: Compared; index: number; isFirst: boolean }) {
  const row = found.rows[index];
  if (row === undefined) return null;
  return (
    <div class={`aligned-row is-${row.kind} ${isFirst ? 'is-first' : ''}`}>
      <Entry side={found.left} event={row.left} />
      <Entry side={found.right} event={row.right} />
    </div>
  );
}

function Entry({ side, event }: { side: Side; event: StreamedEvent | undefined }) {
  if (event === undefined) return <span class="aligned-entry is-missing" />;
  return (
    <a class="aligned-entry" href={`${runPath(side.view.runId)}?at=${event.seq}`}>
      <span class="seq">{event.seq}</span>
      <span class="mono type">{event.type}</span>
      <span class="line">{describeShownEvent(event, side.nameCall)}</span>
    </a>
  );
}

type AlignedRow = {
  kind: 'same' | 'changed' | 'left' | 'right';
  left?: StreamedEvent;
  right?: StreamedEvent;
};

/** Entries about claims differ in every run and say nothing about what the run did. */
const SKIPPED: ReadonlySet<string> = new Set(['run.claimed', 'run.noted', 'run.redacted']);

/**
 * What an entry says that a run did: without times, lineage, models and what they used, which differ between runs that do
 * the same.
 */
function describeContent({ nameCall }: Side, event: StreamedEvent): string {
  const timeless = { ...event, at: 0, ...('startedAt' in event && { startedAt: 0 }) };
  const describe = (shown: RunEvent) => describeShownEvent(shown, nameCall);
  switch (timeless.type) {
    case 'run.started': {
      const { forkOf: _, ...started } = timeless;
      return describe({ ...started, config: { ...started.config, models: [] } });
    }
    case 'turn.completed': {
      const { broken: _, dropped: __, ...turn } = timeless;
      const calls = turn.calls.map(({ name, input }): JsonValue => ({ name, input }));
      return describe({ ...turn, model: '', usage: null }) + canonicalJson(calls);
    }
    case 'tool.settled': {
      const { played: _, ...settled } = timeless;
      return describe(settled);
    }
    default:
      return describe(timeless);
  }
}

/** Pairs equal entries up to the first difference, then those of a type about the same tool. `first`: its row, or -1. */
function alignRuns(left: Side, right: Side): { rows: AlignedRow[]; first: number } {
  const kept = ({ events }: Side) => events.filter(({ type }) => !SKIPPED.has(type));
  const [old, now] = [kept(left), kept(right)];
  const rows: AlignedRow[] = [];
  const isSame = (one: StreamedEvent, other: StreamedEvent): boolean =>
    one.type === other.type && describeContent(left, one) === describeContent(right, other);
  const pair = (one: StreamedEvent, other: StreamedEvent): void => {
    rows.push({ kind: isSame(one, other) ? 'same' : 'changed', left: one, right: other });
  };
  const shapeOf = (event: StreamedEvent): string => {
    const { nameCall } = event.runId === left.view.runId ? left : right;
    return `${event.type} ${'callId' in event ? nameCall(event.callId) : ''}`;
  };
  let common = 0;
  for (; common < Math.min(old.length, now.length); common += 1) {
    const [one, other] = [old[common], now[common]];
    if (one === undefined || other === undefined || !isSame(one, other)) break;
    pair(one, other);
  }
  const [rest, others] = [old.slice(common), now.slice(common)];
  // Too many entries to match with each other are paired by their order.
  const inOrder = Array.from(
    { length: Math.max(rest.length, others.length) },
    (_, at): Pair<StreamedEvent> => [rest[at], others[at]],
  );
  for (const [one, other] of pairEqual(rest, others, shapeOf) ?? inOrder) {
    if (one !== undefined && other !== undefined) pair(one, other);
    else if (one !== undefined) rows.push({ kind: 'left', left: one });
    else if (other !== undefined) rows.push({ kind: 'right', right: other });
  }
  return { rows, first: rows.findIndex(({ kind }) => kind !== 'same') };
}

/** The row where a played run differs: in the round of the difference, the first that is about its tool. */
function findRow({ left, right, rows }: Compared, { kind, turn, tool }: FoundDifference): number {
  const side = kind === 'missing-call' ? 'left' : 'right';
  const turns = rows.flatMap((row, index) => (row[side]?.type === 'turn.completed' ? [index] : []));
  const begin = turns[turn - 1] ?? rows.length - 1;
  const names = ({ nameCall }: Side, event: StreamedEvent | undefined) =>
    event !== undefined && 'callId' in event && nameCall(event.callId) === tool;
  const round = rows.slice(begin, turns[turn] ?? rows.length);
  const at = round.findIndex(
    (row, index) =>
      row.kind !== 'same' &&
      (index === 0 || tool === undefined || names(left, row.left) || names(right, row.right)),
  );
  return begin + Math.max(0, at);
}
