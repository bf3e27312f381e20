// explore/environment: what the model, the tools, the process and people may do during an exploration.

import type { QualifiedCall } from '../../protocol/event.ts';
import type { JsonValue } from '../../protocol/json.ts';
import type { FinishReason, Usage } from '../../protocol/turn.ts';

/** A call that the model may make. Its id, digest and expiry are added when it is made. */
export type CallTemplate = Omit<QualifiedCall, 'callId' | 'digest' | 'expiresAt'> & { expiresInMs?: number };

/** The calls of one turn. */
export type Round = readonly CallTemplate[];

/** What the model, the tools and people may do during an exploration. */
export type Environment = {
  /** The calls of the first turn, and of later turns. */
  firstRounds: readonly Round[];
  rounds: readonly Round[];
  /** Rounds that are checked at the start and not explored further. */
  probes: readonly Round[];
  /** The calls that are combined with a text and every finish reason. */
  cutOff: Round;
  /** The finish reasons of turns without calls. */
  endings: readonly FinishReason[];
  /** Whether the first turn may be the answer. */
  mayAnswerAtOnce: boolean;
  /** The usage of each turn. */
  usage: Usage | null;
  /** The duration of each turn in ms. */
  turnMs: number;
  /** The outputs that a tool may return. */
  outputs(tool: string): readonly JsonValue[];
  /** The input that replaces a call's input when a person edits it. */
  editedInput(call: QualifiedCall): JsonValue;
  /** The number of attempts of a call, including the first. */
  attempts(tool: string): number;
  /** Whether the outcome of the call may be unknown. */
  doubts(call: QualifiedCall): boolean;
  /** Whether the call may wait for a sub-agent. */
  suspends(call: QualifiedCall): boolean;
  /** Whether people approve calls. Default: `true`. */
  approvals?: boolean;
  /** Whether decisions may also apply to later calls. */
  sticky: boolean;
  /** Whether the transcript (once per turn) and the parameters are edited. */
  edits: boolean;
  /** Whether breakpoints are set and removed. Default: `false`. */
  breakpoints?: boolean;
  /** Whether people send messages, pause, step and cancel, in addition to deciding about calls. */
  clientEvents: boolean;
  /** The maximum of unread messages. Default 1. */
  mostUnread?: number;
  /** Whether events that must be ignored are offered: stale, unknown, already decided, expired. */
  invalidEvents: boolean;
};
