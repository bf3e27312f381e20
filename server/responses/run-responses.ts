import { beginFold, foldEntry } from '../../engine/journal/load-run.ts';
import type { ChartState } from '../../machines/step.ts';
import type { JournalEntry, RunEvent } from '../../protocol/event.ts';
import { CallTools } from './gateway/call-tools.ts';
import { isAnswered } from './wire/response-ending.ts';
import type { ResponseHead } from './wire/response-object.ts';
import { RESPONSES, type ResponseSpec, readNote, readSpec } from './wire/response-spec.ts';
import { responseIdOf } from './wire/wire-ids.ts';

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
