import type { QualifiedCall } from '../../../protocol/event.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import type { FinishReason, Usage } from '../../../protocol/turn.ts';

/** A call the model may make, without what only the moment gives. */
export type CallTemplate = Omit<QualifiedCall, 'callId' | 'digest' | 'expiresAt'> & { expiresInMs?: number };

/** The calls of one turn. */
export type Round = readonly CallTemplate[];

/** What the outside may come up with: the model, the tools and the people. */
export type Environment = {
  /** What the first turn may call, and the later ones. */
  firstRounds: readonly Round[];
  rounds: readonly Round[];
  /** Rounds that are tried at the start and not walked on from. */
  probes: readonly Round[];
  /** The calls that come with every finish reason, with a text before them. */
  cutOff: Round;
  /** Finish reasons of turns that stop without calls. */
  endings: readonly FinishReason[];
  /** Whether the first turn may end the run. */
  mayAnswerAtOnce: boolean;
  /** What each turn spends. */
  usage: Usage | null;
  turnMs: number;
  outputs(tool: string): readonly JsonValue[];
  /** An input a person may put in the place of another. */
  editedInput(call: QualifiedCall): JsonValue;
  /** Attempts of one start of a call, the first included. */
  attempts(tool: string): number;
  doubts(call: QualifiedCall): boolean;
  suspends(call: QualifiedCall): boolean;
  /** Whether decisions are made for later calls too. */
  sticky: boolean;
  /** Whether somebody changes the transcript, once a turn, and the parameters. */
  edits: boolean;
  /** Whether people write, pause, step and cancel, besides saying what the run asks for. */
  people: boolean;
  /** How many unread messages there may be. Default 1. */
  mostUnread?: number;
  /** Whether what must not be taken is offered too: stale, unknown, decided, expired. */
  unfit: boolean;
};
