import type { RunParams } from './config.ts';
import type { Breakpoint } from './debugger/breakpoint.ts';
import type { Known } from './event.ts';
import type { Item } from './item.ts';
import type { JsonValue } from './json.ts';
import type { NamesOf } from './options/refuse-unknown.ts';

/* The commands of people and clients, as data. */

/**
 * `by`: who gives the command. It is journaled, and shown to anyone who decides the same call later. `requestId`: an id
 * of 1 to 64 characters that the sender chose for the command; it is journaled with it. A command whose id the run has
 * already is `refused`, and `request-reused` if that was another command.
 */
export type CommandOptions = { by?: string; as?: Person; requestId?: string };

/**
 * Who gives a command, where `by` names no groups: `groups` are checked where a call's approval says `by`. `known`: how
 * the name is known, for the journal; `asserted`, the default, is what code and the command line only say.
 */
export type Person = { name: string; groups?: readonly string[] | undefined; known?: Known | undefined };

/** The members of a decision's or an edit's event that say who gives it. */
export function deciderOf({ by, as }: Pick<CommandOptions, 'by' | 'as'>) {
  const { name = by, groups = [], known = 'asserted' } = as ?? {};
  return {
    known,
    ...(name === undefined ? {} : { by: name }),
    ...(groups.length === 0 ? {} : { groups: [...groups] }),
  };
}

/** Returns who gives a command, for events that only name them. */
export function senderOf({ by, as }: Pick<CommandOptions, 'by' | 'as'>): { by?: string } {
  const name = as?.name ?? by;
  return name === undefined ? {} : { by: name };
}

/**
 * Options of `run.cancel`. `afterCalls`: calls of tools that have started finish first, for at most half an hour, and their
 * results are kept. A model call is aborted at once either way.
 */
export type CancelOptions = CommandOptions & { reason?: string; afterCalls?: true };

/** Options of `run.yield`. `graceMs`: how long model and tool calls in progress may take, in ms. Default 5,000. */
export type YieldOptions = { graceMs?: number };

/** Options of `run.retry`. `force`: even if an earlier attempt may still act. */
export type RetryOptions = CommandOptions & { force?: boolean };

/** `runId`: the run that the call belongs to, if the run and its sub-agents have calls with the same id. */
type CallOptions = CommandOptions & { runId?: string };

/**
 * Options of `run.unpause` and `run.step`. `runId`: the run to continue, of this one and its sub-agents' (default: this
 * one if it is paused, else a paused one below it).
 */
export type ContinueOptions = CommandOptions & { runId?: string };

/**
 * Options of `run.approve`. `input`: replaces the call's input. `answer`, of a review: replaces the text of the answer; of
 * an agent with an `output` schema, also its value. `digest`: of the call or answer that was reviewed (default: the
 * current one). `sticky`: applies the decision to later calls of the same tool too.
 */
export type ApproveOptions<Input = unknown> = CallOptions & {
  input?: Input;
  answer?: unknown;
  digest?: string;
  sticky?: boolean;
};
/**
 * Options of `run.reject`. `reason`: what the model reads. `digest` and `sticky` as in `ApproveOptions`. `to`: refuse to
 * reject anything but a question of a tool.
 */
export type RejectOptions = CallOptions & {
  reason?: string;
  digest?: string;
  sticky?: boolean;
  to?: 'question';
};
/**
 * Options of `run.answer`. `output`: the call's result, JSON, or its error. `answers`: values for what its tool asks, by the
 * keys of the questions; those without one stay open. `digest` as in `ApproveOptions`. `to`: refuse an answer to a call
 * that waits for a decision, and not for an answer or the result of a client's tool.
 */
export type AnswerOptions<Output = unknown> = CallOptions & { digest?: string; to?: 'result' } & (
    | { output: Output; isError?: false }
    | { output: unknown; isError: true }
    | { answers: Readonly<Record<string, unknown>> }
  );
/** `force`: retry even if an earlier attempt of the call may still act. */
type Retry = { retry: true; force?: boolean };
/** How `run.resolve` settles a call in doubt: run it again, or record that it happened or failed. */
export type Resolution<Output = unknown> = CallOptions &
  (Retry | { happened: true; output: Output } | { failed: string });

type EditedCall = { callId?: string | undefined; name: string; input: JsonValue };
/**
 * Options of `run.editTurn`. `text` and `calls` replace those of the turn; what is absent stays. A call that `calls`
 * leaves out is dropped. `turn`: the number of the turn that was reviewed (default: the latest).
 */
export type EditTurnOptions = CommandOptions & {
  turn?: number;
  text?: string;
  calls?: readonly EditedCall[];
};
/** Options of `run.editCall`. `input` replaces the call's. `digest` as in `ApproveOptions`. */
export type EditCallOptions<Input = unknown> = CallOptions & { input: Input; digest?: string };

/** A command about one call, with the options of the method of the same name. */
export type CallCommand = { callId: string } & (
  | ({ type: 'approve' } & ApproveOptions)
  | ({ type: 'reject' } & RejectOptions)
  | ({ type: 'answer' } & AnswerOptions)
  | ({ type: 'resolve' } & Resolution)
  | ({ type: 'edit-call' } & EditCallOptions)
);

/** A command as data: what `run.submit` accepts and clients send. */
export type RunCommand =
  | CallCommand
  | ({ type: 'send'; message: string | readonly Item[] } & CommandOptions)
  | ({ type: 'set-params'; params: RunParams } & CommandOptions)
  | ({ type: 'breakpoints'; breakpoints: readonly Breakpoint[] } & CommandOptions)
  | ({ type: 'edit-turn' } & EditTurnOptions)
  | ({ type: 'pause' } & CommandOptions)
  | ({ type: 'unpause' } & ContinueOptions)
  | ({ type: 'step' } & ContinueOptions)
  /** A person has signed in at this tool server: the run connects to it again. */
  | ({ type: 'sign-in'; server: string } & ContinueOptions)
  /** Keeps data of a surface with the run; see the event `run.noted`. */
  | { type: 'note'; note: JsonValue; by: string }
  | ({ type: 'cancel' } & CancelOptions);

const SENDER: NamesOf<CommandOptions> = { by: true, as: true, requestId: true };
const OF_RUN: NamesOf<ContinueOptions> = { ...SENDER, runId: true };
const OF_CALL = { ...OF_RUN, callId: true } as const;

export const COMMAND_MEMBERS: {
  readonly [Type in RunCommand['type']]: Omit<NamesOf<Extract<RunCommand, { type: Type }>>, 'type'>;
} = {
  approve: { ...OF_CALL, input: true, answer: true, digest: true, sticky: true },
  reject: { ...OF_CALL, reason: true, digest: true, sticky: true, to: true },
  answer: { ...OF_CALL, output: true, answers: true, isError: true, digest: true, to: true },
  resolve: { ...OF_CALL, retry: true, force: true, happened: true, output: true, failed: true },
  send: { ...SENDER, message: true },
  'set-params': { ...SENDER, params: true },
  breakpoints: { ...SENDER, breakpoints: true },
  'edit-turn': { ...SENDER, turn: true, text: true, calls: true },
  'edit-call': { ...OF_CALL, input: true, digest: true },
  pause: SENDER,
  unpause: OF_RUN,
  step: OF_RUN,
  'sign-in': { ...OF_RUN, server: true },
  cancel: { ...SENDER, reason: true, afterCalls: true },
  note: { note: true, by: true },
};
