import { findCall } from '../../machines/calls.ts';
import { isOfChart } from '../../machines/fold.ts';
import type { ChartState } from '../../machines/step.ts';
import { EngineError } from '../../protocol/error.ts';
import {
  callsOf,
  type InputEvent,
  type QualifiedCall,
  type ReportEvent,
  type RunEvent,
  type RunStarted,
} from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';
import type { SideEffect } from '../../protocol/tool.ts';
import { beginFold, foldEntry } from '../journal/load-run.ts';
import { readFromStart, type WholeJournal } from '../journal/read-journal.ts';
import { describeOutcome, type Outcome } from './describe-outcome.ts';

/**
 * Recordings: the turns of the model, the results of tools and the inputs of people, in their order, for tests that
 * play a run again.
 *
 * L1 Events that follow from others are left out: reports that are not in `REPORTS`, and cancel requests.
 * L2 A call settles on its first attempt with its final result: retries and crashes are not recorded.
 * L3 A call of a sub-agent is recorded as a client tool, and the child's answer as the client's result.
 * L4 What guardrails changed before a model read it is recorded as changed, without what they spent on it.
 * L5 Of background work, its beginning and its outcome are recorded: a model may be called between them. Its receipt
 *    is recorded as the engine wrote it, also if a guardrail changed that.
 */

type Unmarked<Event> = Event extends ReportEvent ? Omit<Event, 'generation'> : Event;
type LeftOut = RunStarted['type'] | 'run.quarantined' | 'cancel.requested';

const REPORTS = [
  'turn.completed',
  'turn.failed',
  'call.judged',
  'question.asked',
  'tool.suspended',
  'tool.settled',
  'tool.doubted',
  'timer.fired',
  'answer.checked',
  'answer.blocked',
  'review.requested',
  'transcript.compacted',
  'compaction.failed',
] as const;
type RecordedReport = Extract<ReportEvent, { type: (typeof REPORTS)[number] }>;

/** An event of a recording. */
export type RecordedEvent = Unmarked<RecordedReport | Exclude<InputEvent, { type: LeftOut }>>;

/** A tool of a recorded run. `background`: what does its background work, a run of the call or of a sub-agent. */
export type RecordedTool = {
  name: string;
  sideEffect: SideEffect;
  executedBy: 'engine' | 'client';
  background?: 'call' | 'agent';
};

/** A recorded run. */
export type RecordedRun = {
  started: Omit<
    RunStarted,
    'type' | 'format' | 'chart' | 'tools' | 'launch' | 'forkOf' | 'parent' | 'onlyCall'
  >;
  tools: RecordedTool[];
  events: RecordedEvent[];
};

/** The recorded run, preceded by the runs that it continues. */
export type Recording = RecordedRun[];

/** Records a run and the runs that it continues, as `recordJournal` does; also returns its outcome. Throws the errors of `exportRun`. */
export async function recordRun(
  store: Store,
  runId: string,
  options: { raw?: boolean } = {},
): Promise<{ recording: Recording; outcome: Outcome }> {
  const chain = await store.chain(runId);
  const ids = chain.length === 0 ? [runId] : chain.map(record => record.runId);
  const journals = await Promise.all(ids.map(async id => await readFromStart(store, id, 'Export')));
  const runs = journals.map(journal => recordJournal(journal, options));
  const last = runs.at(-1);
  if (last === undefined) throw new Error(`The chain of run ${runId} is empty.`);
  return { recording: runs.map(({ run }) => run), outcome: describeOutcome(last.end) };
}

/**
 * Records a journal; also returns the state at its end. `raw`: without L4, for guardrails that judge it again. Throws `refused`
 * for a run of one call.
 */
export function recordJournal(
  [first, ...rest]: WholeJournal,
  { raw = false } = {},
): { run: RecordedRun; end: ChartState } {
  const { type: _, format, chart, tools: listed, launch, forkOf, parent, onlyCall, ...started } = first.event;
  const { runId } = started;
  if (onlyCall !== undefined) throw workOfCall(runId, parent?.runId);
  const events = rest.map(({ event }) => event);
  const suspended = new Set(namesOf(events, event => event.type === 'tool.suspended' && !isBegun(event)));
  const names = new Map<string, string>();
  const recorded: RecordedEvent[] = [];
  const isResult = ({ callId, answered }: Extract<RunEvent, { type: 'tool.settled' }>) =>
    suspended.has(names.get(callId) ?? '') && !(raw && answered !== undefined);
  let isQuarantined = false;
  let state = beginFold(first.event);
  for (const entry of rest) {
    const { event } = entry;
    state = foldEntry(state, entry, runId);
    for (const { callId, name } of callsOf(event)) names.set(callId, name);
    switch (event.type) {
      case 'cancel.requested':
        break;
      case 'run.quarantined':
        isQuarantined = true;
        break;
      case 'run.unpaused':
        if (!isQuarantined) recorded.push(event);
        isQuarantined = false;
        break;
      case 'tool.interrupted': {
        // The chart itself puts an interrupted `once` call in doubt.
        const { at, callId } = event;
        const { status, doubt = '' } = findCall(state.context, callId) ?? {};
        if (status === 'doubted') recorded.push({ type: 'tool.doubted', at, callId, reason: doubt });
        break;
      }
      case 'tool.settled':
        recorded.push(isResult(event) ? asResult(event) : unmark(event));
        break;
      default:
        if (!isOfChart(event) || (event.type === 'tool.suspended' && !isBegun(event))) break;
        if (!('generation' in event)) recorded.push(event);
        else if (isRecorded(event)) recorded.push(unmark(event));
    }
  }
  const doubted = new Set(namesOf(recorded, ({ type }) => type === 'tool.doubted'));
  const inBackground = new Set(namesOf(recorded, isBegun));
  const byAgent = new Set(
    namesOf(recorded, event => isBegun(event) && event.background?.turns !== undefined),
  );
  const tools = collectTools(events, listed?.map(({ name }) => name) ?? []).map(
    (tool): RecordedTool => ({
      ...tool,
      ...(suspended.has(tool.name) && { executedBy: 'client' }),
      ...(doubted.has(tool.name) && { sideEffect: 'once' }),
      ...(inBackground.has(tool.name) && { background: byAgent.has(tool.name) ? 'agent' : 'call' }),
    }),
  );
  const judged = new Map(raw ? [] : events.flatMap(changedBy));
  const input = started.input.map(item => judged.get(keyOf(item)) ?? item);
  const played = recorded.map(event => asJudged(event, judged));
  return { run: { started: { ...started, input }, tools, events: played }, end: state };
}

function workOfCall(runId: string, parentId = ''): EngineError {
  const message = `Run ${runId} is the work of one call in the background. Record run ${parentId}, which made the call.`;
  return new EngineError('refused', message, { runId, parentId });
}

function changedBy(event: RunEvent): [string, Item][] {
  return event.type === 'items.judged' ? event.changes.map(({ item }) => [keyOf(item), item]) : [];
}

function keyOf(item: Item): string {
  return item.type === 'tool_result' ? `result ${item.callId}` : `item ${item.id ?? ''}`;
}

function asJudged(event: RecordedEvent, judged: ReadonlyMap<string, Item>): RecordedEvent {
  if (event.type === 'message.received')
    return { ...event, items: event.items.map(item => judged.get(keyOf(item)) ?? item) };
  if (event.type !== 'tool.settled' && event.type !== 'result.received') return event;
  const item = judged.get(`result ${event.callId}`);
  if (item?.type !== 'tool_result') return event;
  const { shown: _, blob: __, ...rest } = { shown: undefined, ...event };
  const { output, isError, shown } = item;
  return { ...rest, output, isError, ...(rest.type === 'tool.settled' && omitUndefined({ shown })) };
}

function isRecorded(event: ReportEvent): event is RecordedReport {
  return REPORTS.some(type => type === event.type);
}

function unmark<Event extends ReportEvent>({ generation: _, ...event }: Event): Unmarked<Event> {
  return event as Unmarked<Event>;
}

function asResult({ at, callId, output, isError }: Extract<ReportEvent, { type: 'tool.settled' }>) {
  return { type: 'result.received', at, callId, output, isError } as const;
}

/** Whether the event says that the work of a call has begun in the background. */
function isBegun(
  event: RunEvent | RecordedEvent,
): event is Extract<typeof event, { type: 'tool.suspended' }> {
  return event.type === 'tool.suspended' && event.background !== undefined;
}

/** The names of the tools of whose calls there are such events. */
function namesOf<Event extends RunEvent | RecordedEvent>(
  events: readonly Event[],
  isWanted: (event: Event) => boolean,
): string[] {
  const ids = new Set(events.flatMap(event => ('callId' in event && isWanted(event) ? [event.callId] : [])));
  const calls = events.flatMap(callsOf).filter(({ callId }) => ids.has(callId));
  return calls.map(({ name }) => name);
}

/** The agent's tools, in the order in which a model saw them. Of those never called, only the name is known. */
function collectTools(events: readonly RunEvent[], listed: readonly string[]): RecordedTool[] {
  const calls = events.flatMap(callsOf);
  const lists = calls.map(recordedTools).filter(names => names !== undefined);
  const longest = lists.toSorted((a, b) => b.length - a.length)[0] ?? [];
  const tools = new Map<string, RecordedTool>(
    [...longest, ...listed].map(name => [name, { name, sideEffect: 'once', executedBy: 'engine' }]),
  );
  for (const { name, sideEffect, executedBy, error } of calls)
    if (error === undefined) tools.set(name, { name, sideEffect, executedBy });
  return [...tools.values()];
}

const NO_SUCH_TOOL = 'Not run: There is no tool "';
const THE_TOOLS = '". The tools are: ';
const NO_TOOLS = '". There are no tools.';

/** Returns the tool names of a turn from the error of a call with an unknown tool; otherwise `undefined`. */
export function recordedTools({ error = '' }: Pick<QualifiedCall, 'error'>): string[] | undefined {
  if (!error.startsWith(NO_SUCH_TOOL)) return undefined;
  if (error.endsWith(NO_TOOLS)) return [];
  const list = error.lastIndexOf(THE_TOOLS);
  if (list === -1 || !error.endsWith('.')) return undefined;
  return error.slice(list + THE_TOOLS.length, -1).split(', ');
}
