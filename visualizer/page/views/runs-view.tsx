// visualizer/page/views: the list of runs and the form for a new one.

import { type Signal, useSignal } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo } from 'preact/hooks';
import { omitUndefined } from '../../../protocol/json.ts';
import { nameModels } from '../../describe-event.ts';
import { navigate, setQuery } from '../app/router.ts';
import { mayOperate } from '../data/caller.ts';
import { type AgentSummary, describeThrown, type RunSummary, request, runPath } from '../data/request.ts';
import { startRun } from '../data/send-command.ts';
import type { Source } from '../data/source.ts';
import { formatAgo, formatCost, formatCount, formatDay, formatNumber, formatSpan } from '../render/format.ts';
import { showSafely } from '../render/show-safely.ts';
import { Choice, DraftField, dropDrafts, useDraft } from '../ui/draft-field.tsx';
import { StatusBadge } from '../ui/icon.tsx';
import { VirtualList } from '../ui/scrolling.tsx';
import { Problem, Safe } from '../ui/text.tsx';
import { ActionButton, submitOnEnter } from '../ui/two-presses.tsx';
import { type RunFilter, RunList, readFilter } from './run-list.ts';

const STATUSES = ['all', 'waiting', 'running', 'finished', 'failed', 'cancelled'] as const;
const TIMES = [
  ['', 'any time'],
  ['1', 'the last hour'],
  ['24', 'the last day'],
  ['168', 'the last week'],
] as const;
const ROW_HEIGHT = 44;
/** The most runs of one bulk request. */
const MOST_AT_ONCE = 100;

/** The list of runs: those that wait first, then the newest. */
export function RunsView({ source, query }: { source: Source; query: URLSearchParams }) {
  const filter = readFilter(query);
  const key = JSON.stringify(filter);
  const list = useMemo(() => new RunList(source, filter), [source, key]);
  useLayoutEffect(() => list.follow(), [list]);
  const chosen = useSignal<ReadonlySet<string>>(new Set());
  const notice = useSignal('');
  const waiting = list.waiting.value;
  const runs = [...waiting, ...list.others.value];
  useEffect(() => {
    document.title = waiting.length === 0 ? 'Runs · Agentchart' : `(${waiting.length}) Runs · Agentchart`;
  }, [waiting.length]);
  return (
    <main class="list">
      <div class="list-main">
        <h1 tabIndex={-1}>Runs</h1>
        <Filters filter={filter} />
        <Problem text={list.problem.value} />
        <Bulk chosen={chosen} runs={runs} notice={notice} />
        <p class="notice" role="status">
          {showSafely(notice.value)}
        </p>
        {runs.length === 0 && list.isRead.value ? <p class="empty">{describeEmpty(filter)}</p> : null}
        {runs.length === 0 ? null : <Heads />}
        {runs.length === 0 ? null : (
          <VirtualList
            label="Runs"
            class="runs"
            count={runs.length}
            rowHeight={ROW_HEIGHT}
            row={index => <Row run={runs[index]} chosen={chosen} />}
          />
        )}
        <p class="muted count">
          {list.isRead.value ? describeCount(waiting.length, runs.length, list.next.value) : 'Reading…'}{' '}
          {waiting.length === 0 ? null : <a href="/inbox">Decide in the inbox</a>}{' '}
          {list.next.value === null ? null : (
            <ActionButton class="quiet" act={() => list.readMore()}>
              Show more
            </ActionButton>
          )}
        </p>
      </div>
      {mayOperate() ? <NewRun onStarted={runId => navigate(runPath(runId))} /> : null}
    </main>
  );
}

function describeEmpty({ status, text, agent, label, hours }: RunFilter): string {
  const isAll = status === 'all' && text + agent + label + hours === '';
  return isAll ? 'No runs yet. Start one on this page, or with: agentchart run' : 'No runs match.';
}

function describeCount(waiting: number, shown: number, next: string | null): string {
  const more = next === null ? '' : '; there are more';
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
          <button
            key={name}
            type="button"
            aria-pressed={name === filter.status}
            onClick={() => setQuery({ status: name === 'all' ? null : name })}
          >
            {name}
          </button>
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

/** What can be done with the chosen runs. */
function Bulk({ chosen, runs, notice }: BulkProps) {
  const ids = runs.filter(({ runId }) => chosen.value.has(runId)).map(({ runId }) => runId);
  if (ids.length === 0 || !mayOperate()) return null;
  const submit = async (type: 'cancel' | 'resume', done: string): Promise<void> => {
    try {
      const results: BulkAnswer['results'] = [];
      for (let at = 0; at < ids.length; at += MOST_AT_ONCE) {
        const part = ids.slice(at, at + MOST_AT_ONCE);
        results.push(...(await request<BulkAnswer>('/runs/bulk', { runs: part, command: { type } })).results);
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
      <ActionButton act={() => submit('resume', 'resumed')}>Resume</ActionButton>
      <ActionButton
        class="danger"
        confirm={() => 'Really cancel them?'}
        act={() => submit('cancel', 'cancelled')}
      >
        Cancel
      </ActionButton>
      {ids.length === 2 ? <a href={`/compare/${ids.map(encodeURIComponent).join('..')}`}>Compare</a> : null}
      <button type="button" class="quiet" onClick={() => (chosen.value = new Set())}>
        Clear
      </button>
    </fieldset>
  );
}

/** The names of the columns. A row says the same by its own texts. */
function Heads() {
  return (
    <div class="row-heads cells" aria-hidden="true">
      <span>Status</span>
      <span class="title">Title</span>
      <span class="agent">Agent</span>
      <span class="reason">Why</span>
      <span class="number worked">At work</span>
      <span class="number">Cost</span>
      <span class="number">Tokens</span>
      <span class="time">Changed</span>
    </div>
  );
}

function Row({ run, chosen }: { run: RunSummary | undefined; chosen: Signal<ReadonlySet<string>> }) {
  if (run === undefined) return null;
  const { runId, title, agent, status, activeMs, cost, tokens, updatedAt, createdAt } = run;
  const toggle = (isOn: boolean): void => {
    const ids = new Set(chosen.peek());
    if (isOn) ids.add(runId);
    else ids.delete(runId);
    chosen.value = ids;
  };
  return (
    <div class="row">
      <input
        type="checkbox"
        aria-label={`Choose ${showSafely(title || runId)}`}
        checked={chosen.value.has(runId)}
        onChange={event => toggle(event.currentTarget.checked)}
      />
      <a class="cells" href={runPath(runId)}>
        <StatusBadge status={status} />
        <Safe text={title || runId} class="title" />
        <Safe text={agent} class="agent" />
        <Safe text={describeState(run)} class="reason" />
        <span class="number worked">{formatSpan(activeMs)}</span>
        <span class="number">{cost > 0 ? formatCost(cost) : ''}</span>
        <span class="number">{tokens > 0 ? `${formatNumber(tokens)} tokens` : ''}</span>
        <time title={`Started ${formatDay(createdAt)}`}>{formatAgo(updatedAt, Date.now())}</time>
      </a>
    </div>
  );
}

/** Why a run is where it is: what it waits for, how it failed, or its state. */
function describeState({ status, waitsFor, errorCode, incomplete, state }: RunSummary): string {
  if (status === 'failed') return errorCode ?? '';
  if (status === 'finished') return incomplete === undefined ? '' : `incomplete: ${incomplete.reason}`;
  if (status !== 'waiting') return status === 'running' ? state : '';
  const calls = (waitsFor ?? []).map(({ type, name }) => `${WAITS[type]} ${name}`);
  return calls.length === 0 ? state.replace('resting.', '') : [...new Set(calls)].join(', ');
}

const WAITS = { approval: 'approve', result: 'result of', doubt: 'in doubt:' } as const;

const DRAFT = 'new-run';

/** The form that starts a run. `onStarted` gets its id. */
function NewRun({ onStarted }: { onStarted(runId: string): void }) {
  const agents = useSignal<AgentSummary[]>([]);
  const chosen = useSignal('');
  const input = useDraft(DRAFT);
  const problem = useSignal('');
  const busy = useSignal(false);
  const report = (error: unknown) => (problem.value = describeThrown(error));
  useEffect(() => {
    request<{ agents: AgentSummary[] }>('/agents').then(({ agents: served }) => {
      agents.value = served;
      chosen.value = served[0]?.name ?? '';
    }, report);
  }, []);
  const start = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (busy.peek()) return;
    busy.value = true;
    problem.value = '';
    try {
      const agent = omitUndefined({ agent: chosen.value || undefined });
      const run = await startRun({ input: input.value, ...agent });
      dropDrafts(DRAFT);
      onStarted(run.runId);
    } catch (error) {
      report(error);
    }
    busy.value = false;
  };
  const agent = agents.value.find(({ name }) => name === chosen.value);
  return (
    <form class="new-run" onSubmit={event => void start(event)} onKeyDown={submitOnEnter}>
      <h2>New run</h2>
      <div class="field">
        <label for="agent">Agent</label>
        <Choice
          id="agent"
          name="agent"
          value={chosen.value}
          options={agents.value.map(({ name }) => name)}
          onChoose={name => (chosen.value = name)}
        />
        <p class="muted hint">{agent === undefined ? '' : describeAgent(agent)}</p>
      </div>
      <DraftField label="Input" draft={input} draftKey={DRAFT} rows={4} required />
      <button type="submit" class="primary" aria-busy={busy.value}>
        Start
      </button>
      <Problem text={problem.value} />
    </form>
  );
}

function describeAgent({ version, models, tools }: AgentSummary): string {
  return [
    ...(version === undefined ? [] : [`version ${version}`]),
    nameModels(models) || 'no model',
    ...(tools === undefined ? [] : [tools === 1 ? '1 tool' : `${tools} tools`]),
  ].join(' · ');
}
