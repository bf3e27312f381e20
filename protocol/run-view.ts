import type { Limits } from './config.ts';
import type { NextAction } from './effect.ts';
import type { ToolResultOf } from './finisher.ts';
import type { Item } from './item.ts';
import type { JsonObject, JsonValue } from './json.ts';
import type { RunRecord } from './store.ts';
import type { AgentTool, SideEffect, Tool } from './tool.ts';
import type { Usage } from './turn.ts';

/**
 * A tool call without a result. `runId` is the run that takes the decision about it: for a call of a sub-agent,
 * the sub-agent's run.
 */
export interface OpenCall<Name extends string = string, Input = unknown, Answer = unknown> {
  callId: string;
  runId: string;
  name: Name;
  input: Input;
  digest: string;
  sideEffect: SideEffect;
  status: 'gated' | 'ready' | 'queued' | 'running' | 'reconciling' | 'waiting' | 'doubted';
  /** The sub-agent's run that provides the result. */
  waitsFor?: string;
  /** Why the call needs approval, or why its outcome is unknown. */
  reason?: string;
  /** ms since the epoch. */
  expiresAt?: number;
  /** For the compiler only: what `run.answer` takes as the call's result. No call has this member. */
  readonly '~answer'?: Answer;
}

/** An open call as journals and the runs API have it. */
export type JsonCall = OpenCall<string, JsonValue>;

/** The open calls of these tools and, for agents among them, of their tools. */
type OpenCallOf<Tools> =
  Tools extends Tool<infer Name, infer Input, infer Output>
    ? OpenCall<Name, Input, AnswerTo<Tools, Output>> | CallBelow<Tools>
    : OpenCall;

type AnswerTo<Tools, Output> = Tools extends { '~answer'?: infer Answer }
  ? unknown extends Answer
    ? Output
    : Answer
  : Output;

type CallBelow<Tools> = Tools extends { '~below'?: infer Below }
  ? unknown extends Below
    ? never
    : OpenCallOf<Below>
  : never;

interface Spent {
  usage: Usage | null;
  turns: number;
}

/** A run that has finished. */
export interface FinishedRun<Tools = AgentTool, Output = unknown> extends Spent {
  status: 'finished';
  text: string;
  /** The validated answer of an agent with an `output` schema; absent if the answer is incomplete and invalid. */
  output?: Output;
  results: ToolResultOf<Tools>[];
  /** Messages that arrived too late for the model to read. */
  unread: Item[];
  incomplete?: { reason: string };
}

/** A run that waits for decisions, results or an unpause. */
export interface WaitingRun<Tools = AgentTool> extends Spent {
  status: 'waiting';
  approvals: OpenCallOf<Tools>[];
  results: OpenCallOf<Tools>[];
  doubts: OpenCallOf<Tools>[];
  paused: boolean;
  /** Why the engine paused the run. */
  reason?: string;
}

/** A run that has failed. */
export interface FailedRun extends Spent {
  status: 'failed';
  error: { code: string; message: string };
}

/** A run that was cancelled. */
export interface CancelledRun<Tools = AgentTool> extends Spent {
  status: 'cancelled';
  unsettled: OpenCallOf<Tools>[];
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
  'epoch' | 'owner' | 'leaseUntil' | 'agentVersion' | 'chart' | 'wakeAt'
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
  /** This run's own calls without a result. */
  calls: JsonCall[];
  /** The process that drives the run, and the end of its lease (ms since the epoch). */
  driver: { host: string; pid: number; until: number } | null;
  /** This run's own transcript, after the text filters. */
  transcript: Item[];
  answer?: string;
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

/** An agent that a server serves. */
export type AgentSummary = {
  name: string;
  description?: string;
  version?: string;
  models: { provider: string; model: string }[];
  /** The number of tools, if it is known without connecting to tool servers. */
  tools?: number;
};

/** A decision that a run waits for: an approval, the result of a client's tool, or a doubt. */
export type InboxItem = {
  kind: 'approval' | 'result' | 'doubt';
  /** The run that takes the decision. */
  runId: string;
  /** The topmost run of its family; the run itself if it has no parent. */
  rootId: string;
  agent: string;
  /** The title of the topmost run. */
  title: string;
  /** When the call began to wait as it does now, in ms since the epoch. */
  since: number;
  call: JsonCall;
};

/** A tool of an agent, for people. */
export type ToolSummary = {
  name: string;
  description: string;
  /** The JSON Schema of the input, as the model gets it. */
  inputSchema: JsonObject;
  sideEffect: SideEffect;
  /** Whether calls need approval; `depends`: a function of the agent decides for each call. */
  approval: 'always' | 'never' | 'depends';
  /** Why calls need approval, if it is always the same. */
  reason?: string;
  /** Whether the tool can find out what became of a call in doubt. */
  reconcilable: boolean;
  /** `client`: the caller of the run gives the result. `agent`: each call is a run of a sub-agent of this name. */
  executedBy: 'engine' | 'client' | 'agent';
  agent?: string;
  retries: number;
  timeoutMs?: number;
  /** The label of the tool server that has it. */
  server?: string;
};

/** An agent and what its runs may do. */
export type AgentView = Omit<AgentSummary, 'tools'> & {
  /** The models that its runs can be forked on, as `provider:model`: its own, then those only for forks. */
  forkModels: string[];
  /** The system prompt; `null` if a function writes it for each run. Absent without one. */
  instructions?: string | null;
  tools: ToolSummary[];
  /** How many tool servers it has, whose tools are known only once they are connected. */
  sources: number;
  limits: Limits;
  onLimit: 'answer' | 'stop';
  finalAnswer: 'live' | 'held' | 'separate';
  onMessage: 'queue' | 'supersede';
  toolConcurrency: number;
  /** Whether `start` requires a run context, and whether the answer has a schema. */
  needsRunContext: boolean;
  hasOutput: boolean;
};
