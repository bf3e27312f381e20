/**
 * `agentchart/machine`: the statechart and its pure functions, and what running the loop as an XState actor needs:
 * tools, services and the machine's input. Nothing in it is Node's.
 */
export type { LiveOptions, ServiceActor, ServiceActors } from '../engine/driver/live.ts';
export { type FromAdapterOptions, fromAdapter } from '../engine/driver/live.ts';
export { type AgentMachine, agentMachine, CHART_VERSION } from '../machines/agent.ts';
export type { Call, CallStatus, Context } from '../machines/context.ts';
export { decideNextAction } from '../machines/decide-next-action.ts';
export type { Ended } from '../machines/settled.ts';
export { fromStored, type StoredState, toStored } from '../machines/snapshot.ts';
export { type ChartState, initial, next, type Step } from '../machines/step.ts';
export { structuralHash } from '../machines/structural-hash.ts';
export type { Delta, Effect, NextAction, ServiceInput, ServiceName } from '../protocol/effect.ts';
export { EngineError, InDoubt, ProviderError } from '../protocol/error.ts';
export type { ChartEvent, RunEvent, RunStarted } from '../protocol/event.ts';
export type { OpenCall, Settled } from '../protocol/run-view.ts';
export type { Tool, ToolCallContext } from '../protocol/tool.ts';
export { type ToolOptions, tool } from '../tools/tool.ts';
export type { LoopStart } from './begin-journal.ts';
export { agentInput, agentServices, type LoopOptions } from './loop.ts';
