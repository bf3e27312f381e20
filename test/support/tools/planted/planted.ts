import { assign } from 'xstate';
import { type AgentMachine, agentMachine } from '../../../../machines/agent.ts';
import type { Call, Context } from '../../../../machines/context.ts';
import type { ChartEvent } from '../../../../protocol/event.ts';

/** A chart with one defect, and the invariant that must detect it. */
export type Planted = {
  name: string;
  machine: AgentMachine;
  breaks: string;
  within?: number;
  maxStates?: number;
};

type Actions = Parameters<AgentMachine['provide']>[0]['actions'];
type Guards = Parameters<AgentMachine['provide']>[0]['guards'];

export const withActions = (actions: Actions) => agentMachine.provide({ actions: actions ?? {} });
export const withGuards = (guards: Guards) => agentMachine.provide({ guards: guards ?? {} });

/** The chart with another `record` action. */
export const recording = (record: (context: Context, event: ChartEvent) => Context) =>
  withActions({ record: assign(({ context, event }) => record(context, event)) });

export const mapCalls = (context: Context, map: (call: Call) => Call): Context => ({
  ...context,
  calls: context.calls.map(map),
});
