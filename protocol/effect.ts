import type { ReasoningItem } from './item.ts';
import type { JsonValue } from './json.ts';
import type { Skipped } from './turn.ts';

/** What the chart decided to do next. `why` names the rule that decided and the numbers it compared. */
export type NextAction = { why: string } & (
  | { type: 'callModel' }
  /** One model call with tools off; `limit` names the limit that closes the run. */
  | { type: 'streamFinal'; limit?: string }
  /** Replaces the older part of the transcript by a summary, before a model call. */
  | { type: 'compact' }
  | { type: 'executeTools'; calls: string[] }
  | { type: 'interruptForApproval'; calls: string[] }
  /** The answer waits for a person. */
  | { type: 'awaitReview' }
  /** A person must sign in at a tool server. */
  | { type: 'awaitSignIn'; servers: string[] }
  /** People must answer what tools ask. */
  | { type: 'awaitAnswers'; calls: string[] }
  | { type: 'awaitResults'; calls: string[] }
  | { type: 'resolveDoubt'; calls: string[] }
  | { type: 'backOff'; until: number }
  /** `breakpoint`: the id of the breakpoint that holds the run. */
  | { type: 'pause'; breakpoint?: string }
  /** `check`: the answer is to be checked first. */
  | { type: 'finish'; reason?: string; check: boolean }
  | { type: 'fail'; code: string; message: string }
);

export type ServiceName = 'modelTurn' | 'toolBatch' | 'timer' | 'answerCheck' | 'compaction';

export const SERVICE_NAMES: readonly ServiceName[] = [
  'modelTurn',
  'toolBatch',
  'timer',
  'answerCheck',
  'compaction',
];

/** The input of a service; it reads everything else from the current context. */
export type ServiceInput = { generation: number; until?: number };

/** A message for observers; never journaled. */
export type Notice =
  /** `reason`: why the run is quarantined. */
  | { type: 'decided'; next: NextAction; reason?: string }
  | { type: 'text.discarded'; turn: number; attempt: number };

/** An effect that the chart requests, as plain data. */
export type Effect =
  | { type: 'start'; service: ServiceName; id: string; input: ServiceInput }
  | { type: 'stop'; id: string }
  | { type: 'publish'; notice: Notice };

/** Streamed output for readers; never journaled. */
export type Delta =
  | ({ type: 'text.delta' | 'reasoning.delta'; turn: number; attempt: number; text: string } & Skipped)
  /** Reasoning that is complete, with what its provider needs back, if the model's adapter knows it that early. */
  | { type: 'reasoning.ended'; turn: number; attempt: number; item: ReasoningItem }
  | { type: 'tool.progress'; callId: string; data: JsonValue }
  /**
   * A piece of what the agent says to which call `callId` handed the conversation; the result of the call has its answer.
   * `at`: how many characters of this text came before. `source` names the text: another one replaces it.
   */
  | { type: 'answer.delta'; callId: string; source: string; at: number; text: string }
  /**
   * A piece of a call's arguments. The first of a call has its name, and its id if the adapter knows it that early;
   * `index` counts the turn's calls from 0, without those that the provider runs. A turn that is not streamed has none.
   */
  | {
      type: 'call.delta';
      turn: number;
      attempt: number;
      index: number;
      callId?: string;
      name?: string;
      text: string;
    }
  | Notice;
