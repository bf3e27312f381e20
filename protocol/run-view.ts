import type { Limits } from './config.ts';
import type { NextAction } from './effect.ts';
import type { Question } from './event.ts';
import type { Item } from './item.ts';
import type { JsonValue } from './json.ts';
import type { Labels } from './listing/label.ts';
import type { Progress, RunRecord } from './store.ts';
import type { AgentTool, SideEffect, Tool } from './tool.ts';
import type { ToolResultOf } from './tool-result.ts';
import type { Usage } from './turn.ts';

interface GateFacts {
  /** Names what is decided, in commands: a call, or a review. */
  callId: string;
  /** The run that takes the decision: for a call or an answer of a sub-agent, the sub-agent's run. */
  runId: string;
  digest: string;
  /** Why it needs a decision, or why the outcome of a call is unknown. */
  reason?: string;
  /** ms since the epoch. */
  expiresAt?: number;
  /** The groups that may decide; absent if a group does not matter. */
  by?: string[];
  /** Who may not decide: who started the run, or anyone who wrote in it. */
  not?: 'starter' | 'sender';
  /** The names of these people; `null` stands for those whose name is not known: with one, no one may decide. Set with `not`. */
  excluded?: (string | null)[];
  /** How many people must approve. */
  quorum?: number;
  /** Who has approved it, if `by`, `not` or `quorum` is set. */
  approvedBy?: string[];
}

interface CallFacts<Name extends string, Input> extends GateFacts {
  name: Name;
  input: Input;
  sideEffect: SideEffect;
}

/** What an open call needs: a decision whether it runs, the result of a client's tool, or whether it happened. */
export type OpenCallKind = 'approval' | 'result' | 'doubt';

/** A call that waits for a person or a client outside the run. */
export interface OpenCall<
  Name extends string = string,
  Input = unknown,
  Answer = unknown,
  Kind extends OpenCallKind = OpenCallKind,
> extends CallFacts<Name, Input> {
  /** Names what is open among everything that a run and its sub-agents wait for, now or later. */
  id: string;
  kind: Kind;
  /** For the compiler only: what `run.answer` takes as the call's result. No call has this member. */
  readonly '~answer'?: Answer;
}

/** A call whose tool asks people. `by` and `not` are those of its question, if there is one; else each has its own. */
export interface OpenQuestion extends CallFacts<string, JsonValue> {
  /** As that of an open call. */
  id: string;
  kind: 'question';
  /** What is not answered yet. The `digest` beside it is of all that was asked together. */
  questions: Question[];
}

/** An answer that is given once people have approved it. */
export interface OpenReview extends GateFacts {
  /** As that of an open call. */
  id: string;
  kind: 'review';
  /** The text, before text filters. */
  answer: string;
  /** Its value, for an agent with an `output` schema. */
  output?: JsonValue;
}

/** Tools of a run that are connected once a person has signed in at their server, with `agentchart mcp login` or on the page. */
export interface OpenSignIn {
  id: string;
  kind: 'sign-in';
  runId: string;
  /** The name of the tool source. */
  server: string;
  reason: string;
  /** The address of the server. */
  url?: string;
}

/** A paused run, which continues with `run.unpause()` or `run.step()`. */
export interface OpenPause {
  id: string;
  kind: 'pause';
  runId: string;
  /** Why the engine paused the run; absent if a person did. */
  reason?: string;
}

/**
 * What a run waits for from outside: its own calls and answer, and those of its sub-agents. A call that waits for a sub-agent's run
 * is none: what that run waits for is.
 */
export type Open<Tools = AgentTool> =
  | OpenCallOf<OpenCallKind, Tools>
  | OpenQuestion
  | OpenReview
  | OpenSignIn
  | OpenPause;

/** A call without a result, in any state. */
export interface UnsettledCall<Name extends string = string, Input = unknown> extends CallFacts<Name, Input> {
  status: 'gated' | 'ready' | 'queued' | 'running' | 'reconciling' | 'asking' | 'waiting' | 'doubted';
  /** The sub-agent's run that provides the result. */
  waitsFor?: string;
}

export type JsonCall = UnsettledCall<string, JsonValue>;

export type JsonOpenCall = OpenCall<string, JsonValue>;

/** What people and clients answer: everything that is open but a pause and a sign-in. */
export type OpenItem = OpenCall | OpenQuestion | OpenReview;

/** Whether it is decided or answered by its call or review. */
export function isOpenItem<Its extends Open>(open: Its): open is Extract<Its, OpenItem> {
  return open.kind !== 'pause' && open.kind !== 'sign-in';
}

export type JsonOpenItem = JsonOpenCall | OpenQuestion | OpenReview;

type OpenCallOf<Kind extends OpenCallKind, Tools> =
  Tools extends Tool<infer Name, infer Input, infer Output>
    ? EachKind<Kind, Name, Input, AnswerTo<Tools, Output>> | OpenCallBelow<Kind, Tools>
    : EachKind<Kind, string, unknown, unknown>;

type EachKind<Kind, Name extends string, Input, Answer> = Kind extends OpenCallKind
  ? OpenCall<Name, Input, Answer, Kind>
  : never;

type AnswerTo<Tools, Output> = Tools extends { '~answer'?: infer Answer }
  ? unknown extends Answer
    ? Output
    : Answer
  : Output;

type OpenCallBelow<Kind extends OpenCallKind, Tools> = Tools extends { '~below'?: infer Below }
  ? unknown extends Below
    ? never
    : OpenCallOf<Kind, Below>
  : never;

type UnsettledCallOf<Tools> =
  Tools extends Tool<infer Name, infer Input>
    ? UnsettledCall<Name, Input> | UnsettledCallBelow<Tools>
    : UnsettledCall;

type UnsettledCallBelow<Tools> = Tools extends { '~below'?: infer Below }
  ? unknown extends Below
    ? never
    : UnsettledCallOf<Below>
  : never;

interface Spent {
  usage: Usage | null;
  turns: number;
}

/** A run that has finished. Of an agent with an `output` schema, it has an `output` unless it is `incomplete`. */
export type FinishedRun<Tools = AgentTool, Output = unknown> = FinishedFacts<Tools> &
  ({ output: Output; incomplete?: undefined } | { output?: Output; incomplete: Incomplete });

/** Why an answer is incomplete. `refusal`: the words with which the model refused, which are not part of the text. */
export type Incomplete = { reason: string; refusal?: string };

interface FinishedFacts<Tools> extends Spent {
  status: 'finished';
  /** The name of the agent that answered: the run's, or the one to which it handed the conversation. */
  agent: string;
  text: string;
  results: ToolResultOf<Tools>[];
  /** Messages that arrived too late for the model to read. */
  unread: Item[];
}

/** A run that waits for decisions, results or an unpause. */
export interface WaitingRun<Tools = AgentTool> extends Spent {
  status: 'waiting';
  /** Everything that the run waits for: its calls in their order or its answer, then those of its sub-agents. */
  open: Open<Tools>[];
  /** The parts of `open` of these kinds. */
  approvals: OpenCallOf<'approval', Tools>[];
  doubts: OpenCallOf<'doubt', Tools>[];
  questions: OpenQuestion[];
  reviews: OpenReview[];
  results: ToolResultOf<Tools>[];
  paused: boolean;
}

/** A run that has failed. */
export interface FailedRun extends Spent {
  status: 'failed';
  error: { code: string; message: string };
}

/** A run that was cancelled. */
export interface CancelledRun<Tools = AgentTool> extends Spent {
  status: 'cancelled';
  unsettled: UnsettledCallOf<Tools>[];
}

/**
 * How a run rests or ended, after every accepted input. `Tools` are the agent's tools and `Output` is the type of its
 * answer; `Settled` alone is that of any agent.
 */
export type Settled<Tools = AgentTool, Output = unknown> =
  | FinishedRun<Tools, Output>
  | WaitingRun<Tools>
  | FailedRun
  | CancelledRun<Tools>;

/** A run in the list of the runs API: its record without what only drivers need. */
export type RunSummary = Omit<
  RunRecord,
  'epoch' | 'redactions' | 'owner' | 'leaseUntil' | 'agentVersion' | 'chart' | 'wakeAt'
>;

/** A run as the runs API returns it. */
export type RunView = RunSummary & {
  /** The latest decision of the chart. */
  next: NextAction | null;
  paused: boolean;
  toolCalls: number;
  limits: Limits;
  usage: Usage | null;
  /** `null` while the run has something to do. Includes what the runs of its sub-agents wait for. */
  settled: Settled | null;
  /** What the run waits for, also while it does something else: its own calls or answer, then those of its sub-agents. */
  open: (JsonOpenItem | OpenSignIn | OpenPause)[];
  /** This run's own calls without a result. */
  calls: JsonCall[];
  /** What its calls have started and whose outcome is not there yet, each with the run that works. */
  background: { callId: string; name: string; runId: string }[];
  /** The process that drives the run, and the end of its lease (ms since the epoch). */
  driver: { host: string; pid: number; until: number } | null;
  /** This run's own transcript, after the text filters. */
  transcript: Item[];
  answer?: string;
  /** Why the run failed or its answer is incomplete, and what to do. */
  advice?: string;
  /** Whether the server can drive the run. */
  availableAgent: boolean;
  /** Why processes with the server's agents do not drive the run, or one below it, although it has something to do. */
  stranded?: Stranding;
  chart: { version: number; hash: string };
};

/** Why processes with some agents do not drive a run, and what to do. */
export type Stranding = {
  /** `migrates`: workers with these agents migrate the run once no process drives its version. */
  type: 'stranded' | 'migrates';
  runId: string;
  reason: string;
  advice: string;
};

/** What a person has to decide, answer or sign in for. */
export type InboxItem = {
  kind: OpenItem['kind'] | 'sign-in';
  /** The run that takes the decision. */
  runId: string;
  /** The topmost run of its family; the run itself if it has no parent. */
  rootId: string;
  agent: string;
  /** The title of the topmost run. */
  title: string;
  labels: Labels;
  /** Who started the topmost run, if that is known. */
  startedBy?: string;
  /** What the run has spent. */
  spent: Pick<Progress, 'turns' | 'tokens' | 'cost' | 'activeMs'>;
  /** When it began to wait as it does now, in ms since the epoch. */
  since: number;
  call: JsonOpenItem | OpenSignIn;
};

/** Names an item among those of its run: the call or the review; of a sign-in, the tool server. */
export function callIdOf(call: InboxItem['call']): string {
  return isOpenItem(call) ? call.callId : call.server;
}

/** What an entry says, at most 500 characters of it. */
export type Excerpt = { seq: number; at: number; text: string; isCut?: true };

type PastCall = { runId: string; callId: string };

/** What helps to decide an item: how its run came to it, and what was done and decided in the runs that the caller sees. */
export type OpenedItem = {
  item: InboxItem;
  /** The last messages and results of the run before the call, oldest first. `name`: of the person, or of the tool. */
  before: (Excerpt & { type: 'user' | 'agent' | 'tool'; name?: string })[];
  /** The results of calls of the tool with an equal input, newest first. */
  equal: (Excerpt & PastCall & { isError: boolean })[];
  /** Decisions on calls of the tool, newest first; the text is the reason. `input`: that of the call, if it is short. */
  decisions: (Excerpt &
    PastCall & { type: 'approve' | 'reject' | 'answer'; by?: string; input?: JsonValue })[];
};
