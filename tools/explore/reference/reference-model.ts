import type { RunConfig } from '../../../protocol/config.ts';
import type { ServiceInput } from '../../../protocol/effect.ts';
import type { QualifiedCall } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import type { Spending } from '../environment/spending.ts';

/**
 * What a run has to be by now, from its events alone: the chart is held to it, so none of the chart's
 * guards and actions has a say here. Ledgers are never changed, only followed by others.
 */
export type ReferenceModel = {
  config: RunConfig;
  now: number;
  /** Services started and not stopped, by id. */
  running: Readonly<Record<string, ServiceInput>>;
  /** What is wrong with the latest starts and stops; empty when nothing is. */
  misuse: readonly string[];
  /** What the latest services were started against: a limit, a pause, a call that had to wait. */
  overruns: readonly string[];
  /** Services that were started while paused without a step to spend. */
  unpaid: readonly string[];
  transcript: readonly Expected[];
  inbox: readonly Item[];
  /** The messages that were taken, as long as they must be there. */
  messages: readonly Item[];
  calls: readonly ReferenceCall[];
  /** Where the results of an edited round go; `null` for the end. */
  resultsAt: number | null;
  /** Of finished rounds, in order. */
  done: readonly ReferenceCall[];
  sticky: readonly { tool: string; decision: 'approve' | 'reject' }[];
  paused: boolean;
  cancelling: boolean;
  steps: number;
  spending: Spending;
  /** The turn under way is made with tools off; it goes on after failures. */
  final: boolean;
  /** `begun`: the one closing call was begun; `over`: it has completed. */
  closing: 'none' | 'begun' | 'over';
  /** Text of the attempt under way, or of the one that came to nothing, has reached the reader. */
  shown: boolean;
  /** The last attempt of the turn did not complete: what begins next goes on with it. */
  unfinished: boolean;
  continuation: JsonValue | null;
};

/** Where the events put a call. */
export type Stage = 'gated' | 'ready' | 'queued' | 'running' | 'asking' | 'away' | 'doubted' | 'settled';

export type ReferenceCall = {
  call: QualifiedCall;
  stage: Stage;
  /** As it runs: a person may have changed it. */
  input: JsonValue;
  digest: string;
  approved: boolean;
  starts: number;
  /** Whether one more start would be no second one: nobody started it, or it is known not to have happened. */
  mayStart: boolean;
  /** Why it was refused without running, where the reason is a limit. */
  deniedFor?: 'toolCalls';
  /** What was reported; `null` for a refusal in the chart's own words. */
  result: { output: JsonValue; isError: boolean; shown?: string } | null;
};

/** An item that must be in the transcript; the output of a refusal is the chart's to word. */
export type Expected = Item | { refused: string };
