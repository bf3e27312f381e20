// explore/reference: a second, simpler model of the loop, with which the explored chart must agree.

import type { CallResult, CallStatus } from '../../machines/context.ts';
import type { RunConfig } from '../../protocol/config.ts';
import type { Breakpoint } from '../../protocol/debugger/breakpoint.ts';
import type { ServiceInput } from '../../protocol/effect.ts';
import type { QualifiedCall } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import type { JsonValue } from '../../protocol/json.ts';
import type { Spending } from '../environment/spending.ts';

/**
 * The expected state of a run, computed from its events alone. The chart is checked against it, so nothing here
 * uses the chart's guards and actions. Immutable: each event produces a new model.
 */
export type ReferenceModel = {
  config: RunConfig;
  now: number;
  /** The services that were started and not stopped, by id. */
  running: Readonly<Record<string, ServiceInput>>;
  /** Invalid starts and stops in the latest step. */
  misuse: readonly string[];
  /** Model calls in the latest step that a limit should have prevented. */
  overruns: readonly string[];
  /** Services that the latest step started while the run was paused and had no requested step left. */
  unpaid: readonly string[];
  /** Services that the latest step started although a breakpoint matches and the run was not continued. */
  unheld: readonly string[];
  /** Whether the latest event let the run continue. */
  continued: boolean;
  breakpoints: readonly Breakpoint[];
  /** Whether one of them holds the run. The next start passes it, and removes those that match once. */
  held: boolean;
  /** The latest turn, while it may be edited: where it begins in the transcript, and how many calls it made. */
  latest: { from: number; calls: number } | null;
  transcript: readonly Expected[];
  inbox: readonly Item[];
  /** The accepted messages that must be in the transcript or the inbox. */
  messages: readonly Item[];
  calls: readonly ReferenceCall[];
  /** The position in the transcript for the results of an edited round; `null` for the end. */
  resultsAt: number | null;
  /** The calls of finished rounds, in order. */
  done: readonly ReferenceCall[];
  sticky: readonly { tool: string; decision: 'approve' | 'reject' }[];
  paused: boolean;
  cancelling: boolean;
  steps: number;
  spending: Spending;
  /** Whether the current turn has its tools disabled. Stays set over failed attempts. */
  final: boolean;
  /** `begun`: the single closing call was started; `over`: it has completed. */
  closing: 'none' | 'begun' | 'over';
  /** Whether text of the current or the failed attempt has been shown. */
  shown: boolean;
  /** Whether the last attempt of the turn did not complete, so that the next one continues it. */
  unfinished: boolean;
  continuation: JsonValue | null;
};

export type ReferenceCall = {
  call: QualifiedCall;
  /** The status that the events imply. */
  stage: CallStatus;
  /** The sub-agent's run that alone gives the result. */
  childRunId?: string;
  /** The input it runs with, which may have been edited on approval. */
  input: JsonValue;
  digest: string;
  approved: boolean;
  starts: number;
  /** Whether it may be started: it was not started before, or is known not to have happened. */
  mayStart: boolean;
  /** The limit for which it was refused without running. */
  deniedFor?: 'toolCalls';
  /** The reported result; `null` for a refusal, whose text is the chart's. */
  result: CallResult | null;
};

/** An item that must be in the transcript. The chart chooses the text of a refusal. */
export type Expected = Item | { refused: string };
