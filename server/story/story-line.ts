import type { StoryEvent, StorySettled, StoryState } from '../../engine/story/story-event.ts';
import type { RunEvent } from '../../protocol/event.ts';
import { type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { textOf } from '../../protocol/message.ts';
import type { JsonOpenCall } from '../../protocol/run-view.ts';
import type { FinishReason, Usage } from '../../protocol/turn.ts';

/** An attempt of a turn, both from 1. */
type Place = { turn: number; attempt: number };

/** Of an entry of the journal: its time, in ms since the epoch. */
type AtEntry = { at: number };

/**
 * A line of a story. `runId` is the run of a sub-agent; without it, the line is about the run of the first line. A reader
 * that has a line with `seq` continues after it with `?after=SEQ`. Members that a reader does not know are to be ignored,
 * and so are types.
 */
export type StoryLine =
  | { type: 'run'; runId: string; agent: string }
  /** The request, or an answer in it (`id`), was refused, or the stream broke off. `by`: who decided first. */
  | { type: 'error'; code: string; message: string; id?: string; by?: string }
  | ({ runId?: string; seq?: number } & StoryLineEvent);

/** What happened. */
export type StoryLineEvent =
  | ({ type: 'message'; messages: { role: string; text: string }[]; by?: string } & AtEntry)
  /** Where the run is now. */
  | ({ type: 'state' } & StoryState & AtEntry)
  /** A turn begins. Texts that the reader already has of this turn do not count. */
  | ({ type: 'turn.opened' } & Place)
  /** More of a text. Another `part` is another text of the turn. */
  | ({ type: 'text' | 'reasoning'; part: number; text: string } & Place)
  | ({ type: 'call.opened'; index: number; callId: string; name: string } & Place)
  /** More of the JSON text of a call's arguments. */
  | ({ type: 'call.arguments'; index: number; callId: string; text: string } & Place)
  /** What the reader has of this attempt does not count. */
  | ({ type: 'turn.discarded'; why: 'failed' | 'restarted' | 'differs'; ended: boolean } & Place)
  | ({ type: 'turn.failed'; ended: boolean; code: string; message: string } & Place & AtEntry)
  /** `draft`: readers do not see its text. */
  | ({
      type: 'turn.closed';
      draft: boolean;
      model: string;
      finishReason: FinishReason;
      usage: Usage | null;
    } & Place &
      AtEntry)
  | ({ type: 'answer.changed'; text: string } & AtEntry)
  | ({ type: 'answer.rejected'; feedback: string } & AtEntry)
  /** Answer it by `open.id`. */
  | ({ type: 'call.asked'; open: JsonOpenCall } & AtEntry)
  | ({
      type: 'call.decided';
      callId: string;
      approved: boolean;
      reason?: string;
      input?: JsonValue;
      sticky?: boolean;
      by?: string;
    } & AtEntry)
  | ({ type: 'call.started'; callId: string; name: string; attempt: number } & AtEntry)
  | { type: 'call.progress'; callId: string; data: JsonValue }
  | ({ type: 'call.suspended'; callId: string; childRunId: string } & AtEntry)
  | ({
      type: 'call.settled';
      callId: string;
      name: string;
      output: JsonValue;
      isError: boolean;
      settledBy: string;
      who?: string;
    } & AtEntry)
  /** The lines of run `runId` follow, which call `callId` of run `parent` started. */
  | { type: 'agent.opened'; name: string; parent: string; callId: string }
  /** The run rests or has ended. */
  | ({ type: 'settled' } & StorySettled & AtEntry)
  /** Something else that a person or the engine did to the run. */
  | ({ type: 'note'; event: NotedEvent; by?: string; reason?: string } & AtEntry);

/** The events that a story notes. */
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
  'turn.edited',
  'call.edited',
  'tool.interrupted',
  'tool.doubted',
  'tool.late',
  'run.redacted',
] as const satisfies readonly RunEvent['type'][];

/**
 * The lines of what one entry told, or several deltas, for readers of run `runId`. `seq` is on the last line of an entry: a
 * reader that has it has all of the entry.
 */
export function linesOf(told: readonly StoryEvent[], runId: string): StoryLine[] {
  const lines: StoryLine[] = told.flatMap(event => {
    const line = lineOf(event);
    return line === null ? [] : [event.runId === runId ? line : { runId: event.runId, ...line }];
  });
  const last = told.at(-1);
  const end = lines.at(-1);
  if (last === undefined || end === undefined || last.runId !== runId || !('seq' in last)) return lines;
  return [...lines.slice(0, -1), { ...end, seq: last.seq } as StoryLine];
}

/** The wire form of an event: without what providers keep to themselves, keys, and what is only for drivers. */
function lineOf(event: StoryEvent): StoryLineEvent | null {
  switch (event.type) {
    case 'message': {
      const { type, at, items, by } = event;
      const messages = items.flatMap(item =>
        item.type === 'message' ? [{ role: item.role, text: textOf(item) }] : [],
      );
      return { type, at, messages, ...omitUndefined({ by }) };
    }
    case 'text':
    case 'reasoning': {
      const { type, turn, attempt, part, text } = event;
      return text === '' ? null : { type, turn, attempt, part, text };
    }
    case 'call.opened': {
      const { type, turn, attempt, index, callId, name } = event;
      return { type, turn, attempt, index, callId, name };
    }
    case 'call.arguments': {
      const { type, turn, attempt, index, callId, text } = event;
      return { type, turn, attempt, index, callId, text };
    }
    case 'turn.failed': {
      const { type, at, turn, attempt, ended, failed } = event;
      const { code, message } = failed.error;
      return { type, at, turn, attempt, ended, code, message };
    }
    case 'turn.closed': {
      const { type, at, turn, attempt, draft, completed } = event;
      const { model, finishReason, usage } = completed;
      return { type, at, turn, attempt, draft, model, finishReason, usage };
    }
    case 'call.started': {
      const { type, at, callId, name, attempt } = event;
      return { type, at, callId, name, attempt };
    }
    case 'call.settled': {
      const { type, at, callId, call, output, isError, by: settledBy, who } = event;
      return { type, at, callId, name: call.name, output, isError, settledBy, ...omitUndefined({ who }) };
    }
    case 'settled': {
      const { type, at, settled } = event;
      return { type, at, ...settled };
    }
    case 'note': {
      const { type, at, event: happened } = event;
      const noted = NOTED.find(name => name === happened.type);
      if (noted === undefined) return null;
      const by = 'by' in happened ? happened.by : undefined;
      const reason = 'reason' in happened ? happened.reason : undefined;
      return { type, at, event: noted, ...omitUndefined({ by, reason }) };
    }
    case 'state':
    case 'answer.changed':
    case 'answer.rejected':
    case 'call.asked':
    case 'call.decided':
    case 'call.suspended': {
      const { runId, seq, ...line } = event;
      return line;
    }
    case 'turn.opened':
    case 'turn.discarded':
    case 'call.progress':
    case 'agent.opened': {
      const { runId, ...line } = event;
      return line;
    }
  }
}
