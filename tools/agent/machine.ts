/** `agentchart/machine`: the statechart and its pure functions, for running it as an XState actor. */
export type { LiveOptions, ServiceActor } from '../../engine/driver/live.ts';
export { type FromAdapterOptions, fromAdapter } from '../../engine/driver/live.ts';
export { type AgentMachine, agentMachine, CHART_VERSION } from '../../machines/agent.ts';
export type { Call, CallStatus, Context } from '../../machines/context.ts';
export { decideNextAction } from '../../machines/decide-next-action.ts';
export { fromStored, type StoredState, toStored } from '../../machines/snapshot.ts';
export { type ChartState, initial, next, type Step } from '../../machines/step.ts';
export { structuralHash } from '../../machines/structural-hash.ts';
export type { Delta, Effect, NextAction, ServiceInput, ServiceName } from '../../protocol/effect.ts';
export type { ChartEvent, RunEvent, RunStarted } from '../../protocol/event.ts';
