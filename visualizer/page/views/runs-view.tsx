import { formatCost } from '../../../protocol/listing/cost.ts';
// visualizer/page/views: the list of runs and the form for a new one.

import { type Signal, useSignal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { omitUndefined } from '../../../protocol/json.ts';
import { NOTES_ID } from '../../../protocol/notes.ts';
import { navigate, setQuery, useTitle } from '../app/router.ts';
import { mayOperate } from '../data/caller.ts';
import {
  type AgentSummary,
  comparePath,
  describeThrown,
  type RunSummary,
  requestServer,
  runPath,
  sessionPath,
  threadPath,
} from '../data/request.ts';
import { problemOf, startRun } from '../data/send-command.ts';
import { readListPages, useNews, useRead } from '../data/server-watch.ts';
import type { PageSource } from '../data/source.ts';
import {
  describeListedAgent,
  formatAgo,
  formatCount,
  formatDay,
  formatDuration,
  formatNumber,
  showSafe,
} from '../render/format.ts';
import { Button, StatusBadge } from '../ui/button.tsx';
import { Choice, DraftField, dropDrafts, useDraft } from '../ui/draft-field.tsx';
import { VirtualList } from '../ui/scrolling.tsx';
import { ProblemText, Safe } from '../ui/text.tsx';
import { ActionButton, Form } from '../ui/two-presses.tsx';

const STATUSES = ['all', 'waiting', 'running', 'finished', 'failed', 'cancelled'] as const;
const TIMES = [
  ['', 'any time'],
  ['1', 'the last hour'],
  ['24', 'the last day'],
  ['168', 'the last week'],
] as const;
const ROW_HEIGHT = 44;
const MOST_AT_ONCE = 100;

export function RunsView({ source, query }: { source: PageSource; query: URLSearchParams }) {
  const filter = readFilter(query);
  const key = JSON.stringify(filter);
  const pages = useMemo(() => ({ read: 1 }), [key]);
  const { answer, problem, again } = useRead(() => readRuns(filter, pages.read), [key]);
  useNews(source, ['ready', 'summary', 'removed'], again);
  const chosen = useSignal<ReadonlySet<string>>(new Set());
  const notice = useSignal('');
  const { waiting = [], others = [], next } = answer ?? {};
  const runs = [...waiting, ...others];
  const rows = rowsOf(runs, filter);
  useTitle('Runs');
  const isRead = answer !== null || problem !== '';
  const readMore = (): Promise<void> => {
    pages.read += 1;
    return again();
  };
  const isMore = next !== undefined;
  return (
    <main class="list">
      <div class="list-main">
        <h1 tabIndex={-1}>Runs</h1>
        <Filters filter={filter} />
        <ProblemText text={problem} />
        <Bulk chosen={chosen} runs={runs} notice={notice} />
        <p class="notice" role="status">
          {showSafe(notice.value)}
        </p>
        {runs.length === 0 && isRead && <p class="empty">{describeEmpty(filter)}</p>}
        {runs.length > 0 && <Heads />}
        {runs.length > 0 && (
          <VirtualList
            label="Runs"
            class="runs"
            count={rows.length}
            rowHeight={ROW_HEIGHT}
            row={index => <Row runs={rows[index]} chosen={chosen} />}
          />
        )}
        <p class="muted count">
          {isRead ? describeCount(waiting.length, runs.length, isMore) : 'Reading…'}{' '}
          {waiting.length > 0 && <a href="/inbox">Decide in the inbox</a>}{' '}
          {isMore && <ActionButton class="quiet" label="Show more" act={readMore} />}
        </p>
      </div>
      {mayOperate() && <NewRun />}
    </main>
  );
}

function describeEmpty({ status, text, agent, label, hours }: RunFilter): string {
  const isAll = status === 'all' && text + agent + label + hours === '';
  return isAll ? 'No runs yet. Start one on this page, or with: agentchart run' : 'No runs match.';
}

function describeCount(waiting: number, shown: number, isMore: boolean): string {
  const more = isMore ? '; there are more' : '';
  return `${formatCount(shown, 'run')}${waiting === 0 ? '' : `, ${formatNumber(waiting)} waiting`}${more}.`;
}

function Filters({ filter }: { filter: RunFilter }) {
  const field = (name: 'text' | 'agent' | 'label', label: string, placeholder: string) => (
    <input
      type="search"
      name={name}
      aria-label={label}
      placeholder={placeholder}
      value={filter[name]}
      onInput={event => setQuery({ [name]: event.currentTarget.value || null })}
    />
  );
  return (
    <search class="filters">
      {field('text', 'Search', 'Search titles')}
      {field('agent', 'Only of agent', 'Agent')}
      {field('label', 'Label', 'Label: name=value')}
      <Choice
        aria-label="Created in"
        value={filter.hours}
        options={TIMES}
        onChoose={hours => setQuery({ hours: hours || null })}
      />
      <fieldset aria-label="Status">
        {STATUSES.map(name => (
          <Button
            key={name}
            label={name}
            aria-pressed={name === filter.status}
            onClick={() => setQuery({ status: name === 'all' ? null : name })}
          />
        ))}
      </fieldset>
    </search>
  );
}

type BulkProps = {
  chosen: Signal<ReadonlySet<string>>;
  runs: readonly RunSummary[];
  notice: Signal<string>;
};

type BulkAnswer = { results: { runId: string; accepted: boolean; message?: string }[] };

function Bulk({ chosen, runs, notice }: BulkProps) {
  const ids = runs.filter(({ runId }) => chosen.value.has(runId)).map(({ runId }) => runId);
  if (ids.length === 0 || !mayOperate()) return null;
  const submit = async (type: 'cancel' | 'resume', done: string): Promise<void> => {
    try {
      const results: BulkAnswer['results'] = [];
      for (let at = 0; at < ids.length; at += MOST_AT_ONCE) {
        const part = ids.slice(at, at + MOST_AT_ONCE);
        results.push(
          ...(await requestServer<BulkAnswer>('/runs/bulk', { runs: part, command: { type } })).results,
        );
      }
      const refused = results.filter(({ accepted }) => !accepted);
      const first = refused[0]?.message ?? '';
      notice.value = `${formatCount(results.length - refused.length, 'run')} ${done}.${refused.length === 0 ? '' : ` ${formatCount(refused.length, 'run')} refused: ${first}`}`;
      chosen.value = new Set();
    } catch (error) {
      notice.value = describeThrown(error);
    }
  };
  return (
    <fieldset class="bulk" aria-label="Chosen runs">
      <span>{formatCount(ids.length, 'run')} chosen</span>
      <ActionButton label="Resume" act={() => submit('resume', 'resumed')} />
      <ActionButton
        label="Cancel"
        class="danger"
        confirm={() => 'Really cancel them?'}
        act={() => submit('cancel', 'cancelled')}
      />
      {ids.length === 2 && <a href={comparePath(ids[0] ?? '', ids[1] ?? '')}>Compare</a>}
      <Button class="quiet" label="Clear" onClick={() => (chosen.value = new Set())} />
    </fieldset>
  );
}

const HEADS = ['Status', 'Title', 'Agent', 'Why', 'At work', 'Cost', 'Tokens', 'Changed'];
const COLUMNS = ['', 'title', 'agent', 'reason', 'number worked', 'number', 'number', 'time'];

/** The names of the columns. A row says the same by its own texts. */
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

/** A row has one run, or those of a session or a thread, newest first, unless the list is of one session. */
function rowsOf(runs: readonly RunSummary[], { label }: RunFilter): RunSummary[][] {
  if (label.startsWith('session=')) return runs.map(run => [run]);
  const rows = Map.groupBy(runs, ({ runId, labels, thread }) => {
    if (thread !== undefined) return `thread ${thread} ${JSON.stringify(labels)}`;
    return labels.session === undefined ? runId : `session ${labels.session}`;
  });
  return [...rows.values()].map(row => row.toSorted((one, other) => other.createdAt - one.createdAt));
}

function Row({ runs = [], chosen }: { runs: RunSummary[] | undefined; chosen: Signal<ReadonlySet<string>> }) {
  const [newest] = runs;
  if (newest === undefined) return null;
  const main = runs.filter(({ labels }) => labels.thread === undefined);
  const [{ status, agent, updatedAt }, begun] = [main[0] ?? newest, main.at(-1) ?? newest];
  const { kind, path } = groupOf(runs, newest);
  const title = showSafe(begun.title || begun.runId);
  const sum = (of: (run: RunSummary) => number) => runs.reduce((total, run) => total + of(run), 0);
  const [cost, tokens] = [sum(run => run.cost), sum(run => run.tokens)];
  const toggle = (isOn: boolean): void => {
    const ids = new Set(chosen.peek());
    for (const { runId } of runs) {
      if (isOn) ids.add(runId);
      else ids.delete(runId);
    }
    chosen.value = ids;
  };
  return (
    <div class="row">
      <input
        type="checkbox"
        aria-label={`Choose ${title}`}
        checked={runs.every(({ runId }) => chosen.value.has(runId))}
        onChange={event => toggle(event.currentTarget.checked)}
      />
      <a class="cells" href={path}>
        {newest.runId.startsWith(NOTES_ID) ? (
          <span class="status is-cancelled">notes</span>
        ) : (
          <StatusBadge status={status} />
        )}
        <Safe text={title} class="title" />
        <Safe text={agent} class="agent" />
        <Safe
          text={kind === null ? describeState(newest) : `${kind} of ${formatCount(runs.length, 'run')}`}
          class="reason"
        />
        <span class="number worked">{formatDuration(sum(run => run.activeMs))}</span>
        <span class="number">{cost > 0 ? formatCost(cost) : ''}</span>
        <span class="number">{tokens > 0 ? `${formatNumber(tokens)} tokens` : ''}</span>
        <time title={`Started ${formatDay(begun.createdAt)}`}>{formatAgo(updatedAt, Date.now())}</time>
      </a>
    </div>
  );
}

/** What the runs of a row are together, and the address of its view. */
function groupOf(runs: readonly RunSummary[], { runId, labels, thread }: RunSummary) {
  const named = Object.entries(labels).map(([name, value]) => `${name}=${value}`);
  const { session } = labels;
  if (runs.length > 1 && thread !== undefined) return { kind: 'thread', path: threadPath(thread, named) };
  if (runs.length > 1 && session !== undefined) return { kind: 'session', path: sessionPath(session) };
  return { kind: null, path: runPath(runId) };
}

function describeState({ status, waitsFor, errorCode, incomplete, state }: RunSummary): string {
  if (status === 'failed') return errorCode ?? '';
  if (status === 'finished') return incomplete === undefined ? '' : `incomplete: ${incomplete.reason}`;
  if (status !== 'waiting') return status === 'running' ? state : '';
  const calls = (waitsFor ?? []).map(({ type, name }) => `${WAITS[type]} ${name}`);
  return calls.length === 0 ? state.replace('resting.', '') : [...new Set(calls)].join(', ');
}

const WAITS = {
  approval: 'approve',
  result: 'result of',
  doubt: 'in doubt:',
  question: 'answer',
  review: 'review',
  'sign-in': 'sign in at',
} as const;

const DRAFT = 'new-run';

function NewRun() {
  const chosen = useSignal<string | undefined>(undefined);
  const input = useDraft(DRAFT);
  const { answer, problem } = useRead(() => requestServer<{ agents: AgentSummary[] }>('/agents'), [], {
    once: true,
  });
  const agents = answer?.agents ?? [];
  const agent = agents.find(({ name }) => name === chosen.value) ?? agents[0];
  const start = async (): Promise<void> => {
    const run = await startRun({ input: input.value, ...omitUndefined({ agent: agent?.name }) });
    dropDrafts(DRAFT);
    navigate(runPath(run.runId));
  };
  return (
    <Form class="new-run" label="Start" run={() => problemOf(start)}>
      <h2>New run</h2>
      <div class="field">
        <label for="agent">Agent</label>
        <Choice
          id="agent"
          name="agent"
          value={agent?.name ?? ''}
          options={agents.map(({ name }) => name)}
          onChoose={name => (chosen.value = name)}
        />
        <p class="muted hint">{agent && describeListedAgent(agent)}</p>
      </div>
      <DraftField label="Input" draft={input} draftKey={DRAFT} rows={4} required />
      <ProblemText text={problem} />
    </Form>
  );
}

const PAGE = 200;

/** From the parameters of the address; empty for all. `label`: `NAME=VALUE`; `hours`: created in the last that many. */
type RunFilter = {
  status: string;
  text: string;
  agent: string;
  label: string;
  hours: string;
};

function readFilter(query: URLSearchParams): RunFilter {
  const of = (name: string): string => query.get(name) ?? '';
  return {
    status: of('status') || 'all',
    text: of('text'),
    agent: of('agent'),
    label: of('label'),
    hours: of('hours'),
  };
}

/** Reads the runs that wait, and some pages of the others; `next` is the cursor of what is left. */
async function readRuns(filter: RunFilter, pages: number) {
  const { status } = filter;
  const takesWaiting = status === 'all' || status === 'waiting';
  const [waiting, { found, next }] = await Promise.all([
    readListed({ ...filter, status: 'waiting' }, takesWaiting ? Number.POSITIVE_INFINITY : 0),
    readListed({ ...filter, status: status === 'all' ? '' : status }, status === 'waiting' ? 0 : pages),
  ]);
  return { waiting: waiting.found, others: found.filter(run => run.status !== 'waiting'), next };
}

async function readListed({ hours, ...filter }: RunFilter, most: number) {
  const since = Number(hours) > 0 ? String(Date.now() - Number(hours) * 3_600_000) : '';
  const chosen = Object.entries({ limit: `${PAGE}`, ...filter, since }).filter(([, value]) => value !== '');
  return await readListPages<'runs', RunSummary>(`/runs?${new URLSearchParams(chosen)}`, most, 'runs');
}
