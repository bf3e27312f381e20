import type { SettledBy, StoryEvent, StorySettled } from '../../engine/story/story-event.ts';
import type { RunEvent } from '../../protocol/event.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { textOf } from '../../protocol/message.ts';
import type { Broken } from '../../protocol/sent.ts';
import type { ModelTurn } from '../../protocol/turn.ts';

/**
 * A line of a story. `runId` is the run of a sub-agent; without it, the line is about the run of the first line. A reader
 * that has a line with `seq` continues after it with `?after=SEQ`. Members that a reader does not know are to be ignored,
 * and so are types.
 */
export type StoryLine =
  | { type: 'run'; runId: string; agent: string }
  /** The request, or an answer in it (`id`), was refused, or the stream broke off. `by`: who decided first. */
  | { type: 'error'; code: string; message: string; id?: string; by?: string | string[] }
  | ({ runId?: string; seq?: number } & StoryLineEvent);

/**
 * What happened: an event of the run's story (`StoryEvent`), without what only drivers and providers need. At
 * `turn.opened`, texts that the reader has of this turn do not count. A `call.asked` and a `review.asked` are answered by `open.id`. `at` is the
 * time of the entry, in ms since the epoch.
 */
export type StoryLineEvent =
  | Told<
      | 'agent.opened'
      | 'state'
      | 'turn.opened'
      | 'turn.discarded'
      | 'answer.changed'
      | 'answer.discarded'
      | 'answer.taken'
      | 'answer.blocked'
      | 'review.asked'
      | 'review.decided'
    >
  | Told<'call.asked' | 'call.decided' | 'call.answered' | 'call.progress' | 'call.suspended'>
  | Omit<Told<'text' | 'reasoning'>, 'late' | 'refused'>
  | Omit<Told<'answer.text'>, 'late'>
  | Omit<Told<'call.opened'>, 'late'>
  | Omit<Told<'call.arguments'>, 'late'>
  | Omit<Told<'call.started'>, 'key'>
  | (Omit<Told<'message'>, 'items'> & { messages: { role: string; text: string }[] })
  | (Omit<Told<'turn.failed'>, 'failed'> & { code: string; message: string; broken?: Broken })
  | (Omit<Told<'turn.closed'>, 'parts' | 'completed'> &
      Pick<ModelTurn, 'model' | 'finishReason' | 'usage'> & { broken?: Broken })
  | (Omit<Told<'call.settled'>, 'call' | 'by'> & { name: string; settledBy: SettledBy })
  | (Omit<Told<'settled'>, 'settled'> & StorySettled)
  /** Something else that a person or the engine did to the run. */
  | (Omit<Told<'note'>, 'event'> & { event: NotedEvent; by?: string; reason?: string });

type Told<Type extends StoryEvent['type']> = Without<Extract<StoryEvent, { type: Type }>>;
type Without<Event> = Event extends StoryEvent ? Omit<Event, 'runId' | 'seq'> : never;

export type NotedEvent = (typeof NOTED)[number];

const NOTED = [
  'pause.requested',
  'step.requested',
  'run.unpaused',
  'run.quarantined',
  'cancel.requested',
  'run.cancelled',
  'breakpoints.set',
  'params.changed',
  'transcript.edited',
  'transcript.compacted',
  'compaction.failed',
  'turn.edited',
  'call.edited',
  'tool.interrupted',
  'tool.doubted',
  'tool.late',
  'run.redacted',
] as const satisfies readonly RunEvent['type'][];

/** The lines of an entry or deltas, for readers of `runId`; `seq` is on an entry's last line. */
export function linesOf(told: readonly StoryEvent[], runId: string): StoryLine[] {
  const lines: StoryLine[] = told.flatMap(event => {
    const line = lineOf(event);
    return line === null ? [] : [event.runId === runId ? line : { runId: event.runId, ...line }];
  });
  const [last, end] = [told.at(-1), lines.at(-1)];
  if (last === undefined || end === undefined || last.runId !== runId || !('seq' in last)) return lines;
  return [...lines.slice(0, -1), { ...end, seq: last.seq } as StoryLine];
}

function lineOf(event: StoryEvent): StoryLineEvent | null {
  const { seq, runId, ...told } = { seq: 0, ...event };
  switch (told.type) {
    case 'message': {
      const { items, ...line } = told;
      const messages = items.flatMap(item =>
        item.type === 'message' ? [{ role: item.role, text: textOf(item) }] : [],
      );
      return { ...line, messages };
    }
    case 'text':
    case 'reasoning': {
      const { late, refused, ...line } = told;
      return line.text === '' ? null : line;
    }
    case 'answer.text':
    case 'call.opened':
    case 'call.arguments': {
      const { late, ...line } = told;
      return line;
    }
    case 'turn.failed': {
      const { failed, ...line } = told;
      const { error, broken } = failed;
      return { ...line, code: error.code, message: error.message, ...omitUndefined({ broken }) };
    }
    case 'turn.closed': {
      const { parts, completed, ...line } = told;
      const { model, finishReason, usage, broken } = completed;
      return { ...line, model, finishReason, usage, ...omitUndefined({ broken }) };
    }
    case 'call.started': {
      const { key, ...line } = told;
      return line;
    }
    case 'call.settled': {
      const { call, by: settledBy, ...line } = told;
      return { ...line, name: call.name, settledBy };
    }
    case 'settled': {
      const { settled, ...line } = told;
      return { ...line, ...settled };
    }
    case 'note': {
      const { event: happened, ...line } = told;
      const noted = NOTED.find(name => name === happened.type);
      if (noted === undefined) return null;
      const by = 'by' in happened ? happened.by : undefined;
      const reason = 'reason' in happened ? happened.reason : undefined;
      return { ...line, event: noted, ...omitUndefined({ by, reason }) };
    }
    default:
      return told;
  }
}
