import type { RunConfig, RunParams } from '../protocol/config.ts';
import type { NextAction } from '../protocol/effect.ts';
import type { Failure, QualifiedCall, RunStarted } from '../protocol/event.ts';
import type { BlobReference, Item } from '../protocol/item.ts';
import type { JsonValue } from '../protocol/json.ts';
import type { FinishReason, Usage } from '../protocol/turn.ts';

/**
 * Where a call of the current round stands.
 * - `gated`: a person must decide; `ready`: may run in the next batch;
 * - `queued`, `running`, `reconciling`: owed by the running batch;
 * - `waiting`: for the client, or for a sub-agent; `doubted`: nobody knows whether it happened;
 * - `settled`: it has its result.
 */
export type CallStatus =
  | 'gated'
  | 'ready'
  | 'queued'
  | 'running'
  | 'reconciling'
  | 'waiting'
  | 'doubted'
  | 'settled';

export type CallResult = { output: JsonValue; isError: boolean; shown?: string; blob?: BlobReference };

export type Call = QualifiedCall & {
  status: CallStatus;
  /** How often it was started. */
  attempt: number;
  /** The idempotency key, from the first start on. */
  key?: string;
  /** A person changed `input` while approving. */
  edited?: boolean;
  doubt?: string;
  childRunId?: string;
  result?: CallResult;
};

export type Continuation = { provider: string; model: string; instructions: string; token: JsonValue };

/** The turn that runs or ran last. `number` counts from 1; `model` is an index of `config.models`. */
export type TurnState = {
  number: number;
  attempt: number;
  model: number;
  /** Tools are off: this call gives the answer. */
  final: boolean;
  /** Text of this attempt reached the reader. */
  shown: boolean;
};

export type LastTurn = {
  provider: string;
  finishReason: FinishReason;
  calls: number;
  final: boolean;
  /** A planning turn without calls under `separate`: kept out of the transcript. */
  draft: boolean;
};

/** What the chart knows of a run: JSON, and a fold of its events. Times are ms since the epoch. */
export type Context = {
  runId: string;
  agent: { name: string; version?: string };
  config: RunConfig;
  stream: boolean;
  continues: string | null;
  /** The call of another run that this one answers. */
  parent: { runId: string; callId: string } | null;
  startedAt: number;
  /** What was set for the turns to come. */
  params: RunParams;
  /** `at` of the latest event. */
  now: number;
  transcript: Item[];
  /** Messages no model call has read yet. */
  inbox: Item[];
  /** Counts the starts of services; reports of an older start are not listened to. */
  generation: number;
  turn: TurnState;
  lastTurn: LastTurn | null;
  /** Somebody changed the transcript, and nothing was called since. */
  edited: boolean;
  /** `unfinished`: the attempt did not fail, it was given up, and is made again as it was. */
  failure: (Failure & { retryable: boolean; retryAt: number | null; unfinished?: true }) | null;
  continuation: Continuation | null;
  /** The current round, in the model's order; empty once all have results. */
  calls: Call[];
  /** Where in the transcript the round's results go; `null` for its end. */
  resultsAt: number | null;
  /** Calls without a result. */
  open: number;
  /** Calls the running batch still owes. */
  batch: number;
  /** Inputs that people changed, by call. */
  edits: { callId: string; input: JsonValue }[];
  sticky: { tool: string; decision: 'approve' | 'reject'; reason?: string }[];
  turns: number;
  toolCalls: number;
  /** Calls that were not let through for the limit on `toolCalls`. */
  deniedCalls: number;
  usage: Usage | null;
  cost: number;
  activeMs: number;
  /** Up to when the running batch's activity has been counted; `null` until it starts something. */
  activeSince: number | null;
  /** How often a call failed in a row, by digest; kept only under that limit. */
  failures: { [digest: string]: number };
  paused: boolean;
  /** Why the engine paused the run by itself; `null` if a person did, or nobody. */
  quarantined: string | null;
  /** Somebody asked to end the run: nothing more is begun. */
  cancelling: { deadline: number; by?: string; reason?: string } | null;
  /** Spending actions allowed while paused. */
  steps: number;
  /** The limit the closing call was made for. */
  closing: string | null;
  answer: { text: string; output?: JsonValue } | null;
  finishersDone: boolean;
  rejections: number;
  /** Why the answer was sent back, if it was and nothing was called since. */
  sentBack: { code: string; feedback: string } | null;
  /** When the timer service is due; `null` when none runs. */
  timer: number | null;
  next: NextAction | null;
};

export function createContext(started: RunStarted): Context {
  return {
    runId: started.runId,
    agent: started.agent,
    config: started.config,
    stream: started.stream,
    continues: started.continues ?? null,
    parent: started.parent ?? null,
    startedAt: started.at,
    params: {},
    now: started.at,
    transcript: started.input,
    inbox: [],
    generation: 0,
    turn: { number: 0, attempt: 0, model: 0, final: false, shown: false },
    lastTurn: null,
    edited: false,
    failure: null,
    continuation: null,
    calls: [],
    resultsAt: null,
    open: 0,
    batch: 0,
    edits: [],
    sticky: [],
    turns: 0,
    toolCalls: 0,
    deniedCalls: 0,
    usage: null,
    cost: 0,
    activeMs: 0,
    activeSince: null,
    failures: {},
    paused: started.paused ?? false,
    quarantined: null,
    cancelling: null,
    steps: 0,
    closing: null,
    answer: null,
    finishersDone: false,
    rejections: 0,
    sentBack: null,
    timer: null,
    next: null,
  };
}
