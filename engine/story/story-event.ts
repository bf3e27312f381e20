import type { Call, KeptAnswer } from '../../machines/context.ts';
import type { ChartState } from '../../machines/step.ts';
import type { QualifiedCall, RunEvent } from '../../protocol/event.ts';
import type { Item, MessageItem, ReasoningItem, ToolCallItem } from '../../protocol/item.ts';
import type { JsonValue } from '../../protocol/json.ts';
import type {
  CancelledRun,
  FailedRun,
  FinishedRun,
  JsonOpenCall,
  OpenQuestion,
  OpenReview,
  RunView,
} from '../../protocol/run-view.ts';
import type { RunStatus } from '../../protocol/store.ts';

/** An attempt of a turn: the chart's numbers, from 1. */
export type Place = { turn: number; attempt: number };

/** Where an event of the journal is from: the seq and the time (ms since the epoch) of its entry. */
type FromEntry = { seq: number; at: number };

type Of<Type extends RunEvent['type']> = Extract<RunEvent, { type: Type }>;

/**
 * A part of a completed turn, in the model's order. `part` is the number of its text or reasoning in the events of the
 * attempt; `null` if readers do not see it, such as the draft of a `separate` answer. `text` is what readers see of it,
 * after the text filters.
 */
export type TurnPart =
  | { kind: 'text'; part: number | null; text: string; refusal: string; items: MessageItem[] }
  | { kind: 'reasoning'; part: number | null; text: string; items: ReasoningItem[] }
  /** `call` is missing for a call that the provider ran. */
  | { kind: 'call'; item: ToolCallItem; call?: QualifiedCall }
  | { kind: 'item'; item: Exclude<Item, MessageItem | ReasoningItem | ToolCallItem> };

export type TextPart = Extract<TurnPart, { part: number | null }>;

/**
 * How a call was settled: its tool ran, its sub-agent's run ended, a person or a client gave the result, a person denied
 * it or resolved that it was in doubt, the turn's calls were refused as they came (unknown, invalid, out of limits), it
 * no longer had to run (expired, overtaken by a message, a limit was reached), or an edit dropped it. `receipt`:
 * the client has the work of the call, which continues in the background.
 */
export type SettledBy =
  | 'tool'
  | 'sub-agent'
  | 'answer'
  | 'denied'
  | 'resolved'
  | 'refused'
  | 'overtaken'
  | 'receipt'
  | 'edit';

/** What happens in a run, for those who show it as a conversation. */
export type StoryEvent = { runId: string } /**
 * The events of the run of a sub-agent follow, which call `callId` of run `parent` started; only where the stories of a
 * family are merged. The last one is before the result of the call.
 */ & (
  | { type: 'agent.opened'; name: string; parent: string; callId: string }
  | ({ type: 'message'; items: readonly Item[]; by?: string } & FromEntry)
  | ({ type: 'state' } & StoryState & FromEntry)
  | ({ type: 'turn.opened' } & Place)
  /**
   * More of a text. Another `part` is another text; an empty piece may begin one, such as reasoning that the provider
   * keeps to itself. `late`: no delta carried it, the turn's entry did. `refused`: a refusal ended the text before this
   * one, which it begins.
   */
  | ({ type: 'text' | 'reasoning'; part: number; text: string; late?: true; refused?: true } & Place)
  /** `index` counts the calls of the turn that the provider does not run, from 0. */
  | ({ type: 'call.opened'; index: number; callId: string; name: string; late?: true } & Place)
  /** More of the JSON text of a call's arguments. */
  | ({ type: 'call.arguments'; index: number; callId: string; text: string; late?: true } & Place)
  /**
   * What readers have of this attempt does not count. `failed`: the attempt failed, or the run was cancelled meanwhile;
   * `restarted`: another driver repeats it; `differs`: the turn's entry has another text, which follows at once.
   * `ended`: the run ended with it.
   */
  | ({ type: 'turn.discarded'; why: 'failed' | 'restarted' | 'differs'; ended: boolean } & Place)
  /** An attempt failed. `ended`: the run failed with it. */
  | ({ type: 'turn.failed'; ended: boolean; failed: Of<'turn.failed'> } & Place & FromEntry)
  /** `draft`: of a `separate` answer, which readers do not see. `parts` without a `part` were not shown. */
  | ({
      type: 'turn.closed';
      draft: boolean;
      parts: readonly TurnPart[];
      completed: Of<'turn.completed'>;
    } & Place &
      FromEntry)
  /** A check or a person changed the text of the answer, or let through what readers had not seen. */
  | ({ type: 'answer.changed'; text: string } & FromEntry)
  /** What readers have of the answer does not count: a check blocked it, or its review ended without it. */
  | ({ type: 'answer.blocked'; reason: string } & FromEntry)
  /** The answer waits for people, now or again. Readers may have its text, which is not final. */
  | ({ type: 'review.asked'; open: OpenReview } & FromEntry)
  /** `given`: the answer was given with it, because no other approval is missing. `edited`: it was approved with another text. */
  | ({
      type: 'review.decided';
      reviewId: string;
      approved: boolean;
      given?: true;
      edited?: true;
      reason?: string;
      by?: string;
    } & FromEntry)
  /**
   * More of what the agent says to which call `callId` handed the conversation. `late`: no delta carried it, the result of
   * the call did.
   */
  | { type: 'answer.text'; callId: string; text: string; late?: true }
  /** What readers have of that text does not count: the agent wrote it before a call, for example. */
  | { type: 'answer.discarded'; callId: string }
  /**
   * The run of a sub-agent, to which the conversation was handed, gave the answer: the pieces of `text` came before. It
   * follows what the run itself said.
   */
  | ({ type: 'answer.taken'; callId: string; agent: string; text: string } & FromEntry)
  /** The call needs someone outside the run, now or again. */
  | ({ type: 'call.asked'; open: JsonOpenCall | OpenQuestion } & FromEntry)
  /** `input`: the call was approved with another input. `sticky`: the decision also applies to later calls of the tool. */
  | ({
      type: 'call.decided';
      callId: string;
      approved: boolean;
      reason?: string;
      input?: JsonValue;
      sticky?: boolean;
      by?: string;
    } & FromEntry)
  /** Questions of the call's tool are no longer open; `question` of an answer is the digest of its own. Those that still are follow, in a `call.asked`. */
  | ({
      type: 'call.answered';
      callId: string;
      answers: Record<string, KeptAnswer>;
      by?: string;
    } & FromEntry)
  | ({ type: 'call.started'; callId: string; name: string; attempt: number; key: string } & FromEntry)
  | { type: 'call.progress'; callId: string; data: JsonValue }
  /** The call waits for the run of a sub-agent. */
  | ({ type: 'call.suspended'; callId: string; childRunId: string } & FromEntry)
  /** `call` has its result, unless an edit dropped it. `who` gave the answer or resolved the doubt. */
  | ({
      type: 'call.settled';
      callId: string;
      call: Call;
      output: JsonValue;
      isError: boolean;
      by: SettledBy;
      who?: string;
    } & FromEntry)
  /** The run rests with other things open than before, or has ended. What sub-agents wait for is not included. */
  | ({ type: 'settled'; settled: StorySettled } & FromEntry)
  /**
   * An entry without an event of its own: an edit, a claim, what happened to a running call. Events about calls and the
   * run that follow from it come after it.
   */
  | ({ type: 'note'; event: RunEvent } & FromEntry)
);

/** Where the run is: told when it changes, and after each message. It comes before all else that an entry tells. */
export type StoryState = {
  /** The path of the chart's state, such as `resting.awaitingApproval`. */
  path: string;
  status: RunStatus;
  /** Why the run waits. */
  why?: string;
  /** The code of the error of a failed run. */
  error?: string;
};

export type StorySettled =
  | { status: 'waiting'; open: RunView['open'] }
  | Pick<FinishedRun, 'status' | 'text' | 'output' | 'incomplete'>
  | Pick<FailedRun, 'status' | 'error'>
  | Pick<CancelledRun, 'status'>;

/** The chart's states around an entry; `before` is `null` for the first. */
export type Around = { before: ChartState | null; after: ChartState };

export type Happened = Distribute<StoryEvent>;
type Distribute<Event> = Event extends StoryEvent ? Omit<Event, 'runId'> : never;
