import type { RunConfig, RunParams } from '../protocol/config.ts';
import type { Breakpoint } from '../protocol/debugger/breakpoint.ts';
import type { NextAction } from '../protocol/effect.ts';
import type {
  Duties,
  Failure,
  GivenAnswer,
  HandedTo,
  HeldLimits,
  Ledger,
  People,
  QualifiedCall,
  Question,
  RunStarted,
} from '../protocol/event.ts';
import type { BlobReference, Item } from '../protocol/item.ts';
import { type JsonValue, omitUndefined } from '../protocol/json.ts';
import type { Labels } from '../protocol/listing/label.ts';
import type { PastCall } from '../protocol/rule.ts';
import type { LastSent } from '../protocol/sent.ts';
import type { FinishReason, Usage } from '../protocol/turn.ts';
import { peopleIn } from './duties.ts';

/**
 * The status of a call in the current round.
 * - `gated`: needs an approval; `ready`: may run in the next batch;
 * - `queued`, `running`, `reconciling`: in the current batch, unsettled;
 * - `asking`: its tool asks people, and runs again once they have answered;
 * - `waiting`: for a client or a sub-agent; `doubted`: in doubt;
 * - `settled`: has its result.
 */
export type CallStatus =
  | 'gated'
  | 'ready'
  | 'queued'
  | 'running'
  | 'reconciling'
  | 'asking'
  | 'waiting'
  | 'doubted'
  | 'settled';

/** The members of a `tool_result` item that say what became of its call. */
export type CallResult = {
  output: JsonValue;
  isError: boolean;
  shown?: string;
  blob?: BlobReference;
  receipt?: 'run' | 'client';
};

/** `expired`: there was no answer in time, and no fallback. */
export type KeptAnswer = { question: string } & (GivenAnswer | { type: 'expired' });

/** A call of the current round. */
export type Call = QualifiedCall & {
  status: CallStatus;
  /** How often the call was started. */
  attempt: number;
  /** The idempotency key, set by the first start. */
  key?: string;
  /** A person edited `input` when approving the call. */
  edited?: boolean;
  /** Of a call with duties: who has approved it as it is. */
  approvedBy?: string[];
  doubt?: string;
  /** What its tool asks and no one has answered. */
  asked?: { digest: string; questions: Question[] };
  /** How often its tool has asked. */
  asks?: number;
  /** What became of its questions, by their keys; `question` is the digest of each. */
  answered?: { [key: string]: KeptAnswer };
  /** From where another attempt continues. */
  kept?: JsonValue;
  childRunId?: string;
  /** Not made by the model: it hands new messages to the agent of this run, with which the conversation is. */
  forwards?: string;
  result?: CallResult;
};

/** Work that a call has started and whose outcome is not there yet. `held`: what it may spend of the run's limits. */
export type BackgroundWork = Pick<
  QualifiedCall,
  'callId' | 'name' | 'input' | 'digest' | 'readDigest' | 'tags'
> & {
  key: string;
  childRunId: string;
  held: HeldLimits;
};

/** The answer waits for people. `digest`: of its text, which is in `answer`. */
type Review = Duties & {
  id: string;
  digest: string;
  reason: string;
  expiresAt?: number;
  /** With duties: who has approved the answer as it is. */
  approvedBy?: string[];
  /** A guardrail has changed the answer, or a person. */
  replaced?: true;
  edited?: true;
};

type Continuation = { provider: string; model: string; instructions: string; token: JsonValue };

/** The current or latest turn. `number` counts from 1; `model` is an index of `config.models`. */
type TurnState = {
  number: number;
  attempt: number;
  model: number;
  /** Tools are off: this turn produces the answer. */
  final: boolean;
  /** Text of this attempt has been streamed to readers. */
  shown: boolean;
};

/** The latest completed turn. */
export type LastTurn = {
  provider: string;
  finishReason: FinishReason;
  calls: number;
  final: boolean;
  /** With `finalAnswer: 'separate'`, a planning turn without calls; kept out of the transcript. */
  draft: boolean;
  /** The index in the transcript of its first item; absent after an edit of the transcript. */
  from?: number;
  /** The text of the paused turns that it continues. */
  before?: string;
};

/** What the compaction of the transcript depends on. */
type CompactionState = {
  /** How often this run was compacted. From the first time on, the transcript covers all that the run inherited. */
  count: number;
  /** The tokens of the conversation, as of the latest turn. */
  tokens: number;
  /** From how many tokens on the next compaction is tried; `null`: not before a turn has completed. */
  from: number | null;
  /** The ids of the transcript's items that compactions made. */
  items: string[];
  /** Digests of the ids of the calls that were replaced: no later call may have such an id. */
  usedIds: string[];
};

/** The data of a run's state: JSON, folded from its events. Times are in ms since the epoch. */
export type Context = {
  runId: string;
  agent: { name: string; version?: string };
  config: RunConfig;
  /** The run context that `start` was given; absent for an agent without one. */
  runContext?: JsonValue;
  stream: boolean;
  continues: string | null;
  /** See `RunStarted`. */
  continuesAt?: number;
  /** The conversation was handed to this run: the name of the agent above, to which it can be handed back. */
  handedBy?: string;
  /** The run's labels, if it has any. The runs of its sub-agents get them too. */
  labels?: Labels;
  /** The id of the thread that the run belongs to. */
  thread?: string;
  /** For a child run: the call of the parent run. */
  parent: { runId: string; callId: string } | null;
  startedAt: number;
  /** Who started the run and who wrote in it. */
  people: People;
  /** Overrides for the following turns. */
  params: RunParams;
  /** `at` of the latest event. */
  now: number;
  transcript: Item[];
  /** Up to which place guardrails need not judge the transcript: they have, or it was sent. */
  judgedTo: number;
  /** Messages not yet sent to a model. */
  inbox: Item[];
  /** Counts the starts of services; reports of an older start are ignored. */
  generation: number;
  turn: TurnState;
  lastTurn: LastTurn | null;
  /** The transcript was edited after the latest model call. */
  edited: boolean;
  /** `unfinished`: the attempt was interrupted, not failed; it is repeated with the same number. */
  failure: (Failure & { retryable: boolean; retryAt: number | null; unfinished?: true }) | null;
  continuation: Continuation | null;
  /** The request of the latest turn; `null` before the first. */
  sent: LastSent | null;
  compaction: CompactionState;
  ledger: Ledger;
  /** The calls that were begun and have settled; absent without `config.history`. */
  history?: PastCall[];
  /** The rule that ended the run. */
  stoppedBy?: string;
  /** The calls of the current round, in the model's order; empty once all have results. */
  calls: Call[];
  /** Background work, in the order in which it started. */
  background: BackgroundWork[];
  /** All that the run does is this call, which its parent made. */
  onlyCall?: string;
  /** The index in the transcript where the round's results are inserted; `null` for its end. */
  resultsAt: number | null;
  /** The number of calls without a result. */
  open: number;
  /** The number of unsettled calls in the current batch. */
  batch: number;
  /** Inputs edited by people. */
  edits: { callId: string; input: JsonValue }[];
  /** `toolDigest`: of the call that was decided; an approval holds for calls of a tool with this definition. */
  sticky: { tool: string; toolDigest?: string; decision: 'approve' | 'reject'; reason?: string }[];
  turns: number;
  toolCalls: number;
  /** The number of calls refused because of the limit on `toolCalls`. */
  deniedCalls: number;
  usage: Usage | null;
  /** A turn of the run, or of a sub-agent's run, reported no usage: `usage` and `cost` are too low. */
  usageUnknown: boolean;
  cost: number;
  activeMs: number;
  /** The time up to which `activeMs` counts the current batch; `null` until a call starts. */
  activeSince: number | null;
  /** Consecutive failures by call digest; counted only if the limit `repeatedFailures` is set. */
  failures: { [digest: string]: number };
  paused: boolean;
  breakpoints: Breakpoint[];
  /** In a redacted journal: by breakpoint, the digests of the calls that meet its condition. */
  matched?: { [breakpoint: string]: string[] };
  /** The action that a person let past a breakpoint: it is not held again. `calls`: with their attempts. */
  passed: { type: NextAction['type']; turn: number; calls: string[] } | null;
  /** The tool servers at which a person must sign in. */
  signIns: { server: string; url?: string }[];
  /** Why the engine quarantined the run; otherwise `null`. */
  quarantined: string | null;
  /** A cancel was requested: nothing new is started. */
  cancelling: { deadline: number; by?: string; reason?: string; afterCalls?: true } | null;
  /** The number of spending actions still allowed while paused. */
  steps: number;
  /** The limit that caused the closing call. */
  closing: string | null;
  answer: { text: string; output?: JsonValue } | null;
  /** Who gave the answer, if not a turn of this run. `back`: it is not an answer, the conversation is handed back. */
  answeredBy: ({ type: 'agent'; agent: string; incomplete?: string } & HandedTo) | { type: 'back' } | null;
  answerChecked: boolean;
  review: Review | null;
  /** How often guardrails or the schema blocked the answer, or its review expired. */
  blocks: number;
  /** Why the answer was sent back to the model, until the next model call. `reviewed`: a person did. */
  sentBack: { code: string; reason: string; reviewed?: true } | null;
  /** When the running timer fires; `null` without a timer. */
  timer: number | null;
  next: NextAction | null;
};

const replacing = new WeakSet<object>();

/** Marks the function of an `assign` that returns a whole context: the compiled chart does not merge it into the last one. */
export function replaces<Given>(update: (given: Given) => Context): (given: Given) => Context {
  replacing.add(update);
  return update;
}

export function isReplacement(update: object): boolean {
  return replacing.has(update);
}

/** Everything that a run inherits had been sent, or comes after it. */
function lastSent({ sent }: RunStarted): LastSent | null {
  return sent?.setup === undefined ? null : { ...sent, setup: sent.setup };
}

/** A run of one call begins with it: the parent has approved it, and asked its rules. */
function beginCalls({ onlyCall }: RunStarted): Pick<Context, 'calls' | 'open' | 'onlyCall'> {
  if (onlyCall === undefined) return { calls: [], open: 0 };
  return { calls: [{ ...onlyCall, status: 'ready', attempt: 0 }], open: 1, onlyCall: onlyCall.callId };
}

export function createContext(started: RunStarted): Context {
  return {
    runId: started.runId,
    agent: started.agent,
    config: started.config,
    ...omitUndefined({ runContext: started.runContext }),
    stream: started.stream,
    continues: started.continues ?? null,
    ...omitUndefined({
      continuesAt: started.continuesAt,
      handedBy: started.handedBy,
      labels: started.labels,
      thread: started.thread,
    }),
    parent: started.parent ?? null,
    startedAt: started.at,
    people: peopleIn(started),
    params: {},
    now: started.at,
    transcript: started.input,
    judgedTo: 0,
    inbox: [],
    generation: 0,
    turn: { number: 0, attempt: 0, model: 0, final: false, shown: false },
    lastTurn: null,
    edited: false,
    failure: null,
    continuation: null,
    sent: lastSent(started),
    compaction: {
      count: 0,
      tokens: started.inherits?.tokens ?? 0,
      from: 0,
      items: started.inherits?.items ?? [],
      usedIds: [],
    },
    ledger: started.inherits?.ledger ?? { fresh: [], past: {}, counts: {} },
    ...(started.config.history === true && { history: [] }),
    ...beginCalls(started),
    background: [],
    resultsAt: null,
    batch: 0,
    edits: [],
    sticky: [],
    turns: 0,
    toolCalls: 0,
    deniedCalls: 0,
    usage: null,
    usageUnknown: false,
    cost: 0,
    activeMs: 0,
    activeSince: null,
    failures: {},
    paused: started.paused ?? false,
    breakpoints: [],
    passed: null,
    signIns: [],
    quarantined: null,
    cancelling: null,
    steps: 0,
    closing: null,
    answer: null,
    answeredBy: null,
    answerChecked: false,
    review: null,
    blocks: 0,
    sentBack: null,
    timer: null,
    next: null,
  };
}
