import type { JsonValue } from './json.ts';

/** What the chart decided to do next, with the rule that decided and the numbers it saw. */
export type NextAction = { why: string } & (
  | { type: 'callModel' }
  /** One call with tools off; `limit` names the limit it closes the run for. */
  | { type: 'streamFinal'; limit?: string }
  | { type: 'executeTools'; calls: string[] }
  | { type: 'interruptForApproval'; calls: string[] }
  | { type: 'awaitResults'; calls: string[] }
  | { type: 'resolveDoubt'; calls: string[] }
  | { type: 'backOff'; until: number }
  | { type: 'pause' }
  | { type: 'finish'; reason?: string; finishers: boolean }
  | { type: 'fail'; code: string; message: string }
);

export type ServiceName = 'modelTurn' | 'toolBatch' | 'timer' | 'finishers';

export const SERVICE_NAMES: readonly ServiceName[] = ['modelTurn', 'toolBatch', 'timer', 'finishers'];

/** What a service is started with; everything else it reads from the current context. */
export type ServiceInput = { generation: number; until?: number };

/** Told to whoever watches, never journaled. */
export type Notice =
  | { type: 'decided'; next: NextAction }
  | { type: 'text.discarded'; turn: number; attempt: number };

/** What the chart asks for: data, never closures. */
export type Effect =
  | { type: 'start'; service: ServiceName; id: string; input: ServiceInput }
  | { type: 'stop'; id: string }
  | { type: 'publish'; notice: Notice };

/** What travels beside the machine, to readers. */
export type Delta =
  | { type: 'text.delta' | 'reasoning.delta'; turn: number; attempt: number; text: string }
  | { type: 'tool.progress'; callId: string; data: JsonValue }
  | Notice;
