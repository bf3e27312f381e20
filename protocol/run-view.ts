import type { Limits } from './config.ts';
import type { NextAction } from './effect.ts';
import type { ToolResult } from './finisher.ts';
import type { Item } from './item.ts';
import type { JsonValue } from './json.ts';
import type { RunRecord } from './store.ts';
import type { SideEffect } from './tool.ts';
import type { Usage } from './turn.ts';

/**
 * A tool call without a result. `runId` is the run that takes the decision about it: for a call of a sub-agent,
 * the sub-agent's run.
 */
export type OpenCall = {
  callId: string;
  runId: string;
  name: string;
  input: JsonValue;
  digest: string;
  sideEffect: SideEffect;
  status: 'gated' | 'ready' | 'queued' | 'running' | 'reconciling' | 'waiting' | 'doubted';
  /** The sub-agent's run that provides the result. */
  waitsFor?: string;
  /** Why the call needs approval, or why its outcome is unknown. */
  reason?: string;
  /** ms since the epoch. */
  expiresAt?: number;
};

/** How a run rests or ended, after every accepted input. */
export type Settled = { usage: Usage | null; turns: number } & (
  | {
      status: 'finished';
      text: string;
      output?: JsonValue;
      results: ToolResult[];
      /** Messages that arrived too late for the model to read. */
      unread: Item[];
      incomplete?: { reason: string };
    }
  | {
      status: 'waiting';
      approvals: OpenCall[];
      results: OpenCall[];
      doubts: OpenCall[];
      paused: boolean;
      /** Why the engine paused the run. */
      reason?: string;
    }
  | { status: 'failed'; error: { code: string; message: string } }
  | { status: 'cancelled'; unsettled: OpenCall[] }
);

/** A run in the list of the runs API: its record without its epoch and its lease. */
export type RunSummary = Omit<RunRecord, 'epoch' | 'owner' | 'leaseUntil'>;

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
  calls: OpenCall[];
  /** The process that drives the run, and the end of its lease (ms since the epoch). */
  driver: { host: string; pid: number; until: number } | null;
  /** This run's own transcript, after the text filters. */
  transcript: Item[];
  answer?: string;
  /** Whether the server can drive the run. */
  availableAgent: boolean;
  chart: { version: number; hash: string };
};

/** An agent that a server serves. */
export type AgentSummary = {
  name: string;
  version?: string;
  models: { provider: string; model: string }[];
  /** The number of tools, if it is known without connecting to tool servers. */
  tools?: number;
};
