import { beginFold, foldEntry } from '../../../engine/journal/load-run.ts';
import { readJournal } from '../../../engine/journal/read-journal.ts';
import type { ChartState } from '../../../machines/step.ts';
import type { JournalEntry, RunEvent } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import { listAll, type Store } from '../../../protocol/store.ts';
import type { UsedTurn } from '../../access/usage-ledger.ts';
import { CallTools } from '../agents/call-tools.ts';
import { itemIdOf, responseIdOf } from '../answer/wire-ids.ts';
import {
  isAnswered,
  RESPONSES,
  type ResponseHead,
  type ResponseSpec,
  readNote,
  readSpec,
} from './response-spec.ts';

/** One response: a part of its run's journal. */
export type Span = ResponseHead & {
  /** The `seq` of the entry with its request. */
  seq: number;
  /** The `seq` of its first entry, directly after the previous response. */
  from: number;
  /** The `seq` of its last entry; `null` while it is in progress. */
  to: number | null;
  deleted: boolean;
};

type Turn = Extract<RunEvent, { type: 'turn.completed' }>;

/** A run's journal, divided into its responses in order. */
export type RunResponses = {
  runId: string;
  entries: readonly JournalEntry[];
  state: ChartState;
  spans: readonly Span[];
  /** The completed turns, in order, each with the number of failed attempts before it. */
  turns: readonly (Turn & { retries: number })[];
  tools: CallTools;
};

/** Divides a journal into responses; `undefined` if the gateway did not start the run. */
export function divideJournal(runId: string, entries: readonly JournalEntry[]): RunResponses | undefined {
  const [first, ...rest] = entries;
  if (first?.event.type !== 'run.started' || first.event.agent.name !== RESPONSES) return undefined;
  const { launch, forkOf, at } = first.event;
  const spec = readSpec(launch?.request);
  if (spec === undefined) return undefined;
  const spans: Span[] = [];
  const deleted = new Set<string>();
  const turns: (Turn & { retries: number })[] = [];
  let retries = 0;
  const tools = new CallTools();
  tools.take(first.event);
  let state = beginFold(first.event);
  let end = 0;
  let current: Span | null = null;
  const open = (seq: number, createdAt: number, asked: ResponseSpec): Span => {
    const id = responseIdOf(runId, seq);
    return { id, createdAt, spec: asked, seq, from: end + 1, to: null, deleted: false };
  };
  const close = (seq: number) => {
    if (current !== null) spans.push({ ...current, to: seq });
    current = null;
    end = seq;
  };
  if (forkOf === undefined) current = open(1, at, spec);
  else end = forkedEnd(entries);
  for (const entry of rest) {
    state = foldEntry(state, entry, runId);
    const { event, seq } = entry;
    tools.take(event);
    if (event.type === 'turn.failed' || event.type === 'run.quarantined') retries += 1;
    if (event.type === 'turn.completed') {
      turns.push({ ...event, retries });
      retries = 0;
    }
    const note = event.type === 'run.noted' && event.by === RESPONSES ? readNote(event.note) : undefined;
    if (note?.type === 'asked') {
      if (current !== null) close(seq - 1);
      current = open(seq, event.at, note.spec);
    }
    if (note?.type === 'deleted') deleted.add(note.responseId);
    if (current !== null && isAnswered(state, current.spec)) close(seq);
  }
  if (current !== null) spans.push(current);
  const marked = spans.map(span => (deleted.has(span.id) ? { ...span, deleted: true } : span));
  return { runId, entries, state, spans: marked, turns, tools };
}

/** The last entry that a fork copied: it belongs to responses of the original run. */
function forkedEnd(entries: readonly JournalEntry[]): number {
  const note = entries.find(({ event }) => event.type === 'run.noted');
  return note === undefined ? entries.length : note.seq - 1;
}

/** The input items of a response, without decisions and results of calls. */
export function inputOf({ entries }: RunResponses, { seq, to, spec }: Span): Item[] {
  if (seq === 1) {
    const started = entries[0]?.event;
    const input = started?.type === 'run.started' ? started.input : [];
    return input.filter(({ id = '' }) => !spec.lists.includes(id));
  }
  const messages = new Set(spec.messages);
  return entries
    .slice(seq, to ?? undefined)
    .flatMap(({ event }) =>
      event.type === 'message.received' && event.by === RESPONSES
        ? event.items.filter(({ id = '' }) => messages.has(id))
        : [],
    );
}

/** The item id of a call's approval request, as clients see it. */
export function requestIdOf(run: RunResponses, callId: string): string {
  let turn = 0;
  for (const { event } of run.entries) {
    if (event.type !== 'turn.completed') continue;
    turn += 1;
    const place = event.calls.findIndex(call => call.callId === callId);
    if (place !== -1) return itemIdOf({ kind: 'mcpr', runId: run.runId, turn, place });
  }
  return callId;
}

/**
 * The model calls since `from` (ms since the epoch) of the gateway's runs in a store, with the callers whose requests
 * they served. Runs that cannot be read are logged and left out.
 */
export async function* recordedUsage(
  store: Store,
  from: number,
  log: (line: string) => void,
): AsyncGenerator<UsedTurn, void> {
  const onDamaged = ({ message }: Error) => log(`Usage of a run is not counted: ${message}`);
  for await (const { runId, updatedAt } of listAll(store, { agent: RESPONSES, onDamaged })) {
    if (updatedAt < from) continue;
    try {
      for (const turn of usageIn(await readJournal(store, runId))) if (turn.at >= from) yield turn;
    } catch (error) {
      onDamaged(error as Error);
    }
  }
}

/** Without the entries that a fork copied: they count for the run they are from. */
function usageIn(entries: readonly JournalEntry[]): UsedTurn[] {
  const started = entries[0]?.event;
  const isFork = started?.type === 'run.started' && started.forkOf !== undefined;
  let spec: ResponseSpec | undefined;
  if (started?.type === 'run.started' && !isFork) spec = readSpec(started.launch?.request);
  const turns: UsedTurn[] = [];
  for (const { event } of entries) {
    if (event.type === 'run.noted' && event.by === RESPONSES) {
      const note = readNote(event.note);
      if (note?.type === 'asked') spec = note.spec;
    }
    if (event.type === 'turn.completed' && spec?.caller !== undefined)
      turns.push({ caller: spec.caller.name, at: event.at, model: spec.model, usage: event.usage });
  }
  return turns;
}
