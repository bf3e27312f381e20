import type { AnyActorRef } from 'xstate';
import type { Effect, ServiceInput } from '../protocol/effect.ts';
import { EngineError } from '../protocol/error.ts';
import { isJsonObject } from '../protocol/json.ts';
import { type AgentMachine, agentMachine, CHART_VERSION, serviceInput } from './agent.ts';
import { ActionInput, compileOutput } from './compiled/compile-action.ts';
import type { Context } from './context.ts';
import { pendingService, serviceNamed } from './pending-service.ts';
import type { ChartState } from './step.ts';
import { structuralHash } from './structural-hash.ts';

/** The chart's state as JSON, for stores, exports and other processes. */
export type StoredState = {
  value: ChartState['value'];
  context: Context;
  status: 'active' | 'done';
  chart: { version: number; hash: string };
};

export function chartIdentity(): { version: number; hash: string } {
  return { version: CHART_VERSION, hash: structuralHash() };
}

/** Converts a state to JSON. */
export function toStored(state: ChartState): StoredState {
  const status = state.status === 'active' ? 'active' : 'done';
  return { value: state.value, context: state.context, status, chart: chartIdentity() };
}

/**
 * Restores a state from JSON; its services are pending again. Throws `chart-mismatch` for another version of the chart
 * and `state-unknown` for a state that the chart does not have.
 */
export function fromStored(stored: StoredState, machine: AgentMachine = agentMachine): ChartState {
  assertChart(stored.chart);
  assertLeaf(stored.value, machine);
  const state = restore(stored, machine);
  return Object.assign(state, { output: outputIn(state) });
}

/** `fromStored` without its checks and the output, for a state that this chart has just folded. */
export function restore(
  { value, context, status }: Pick<ChartState, 'value' | 'context' | 'status'>,
  machine: AgentMachine = agentMachine,
): ChartState {
  const state = machine.resolveState({ value, context, status });
  const children: Record<string, AnyActorRef> = {};
  for (const service of pendingServices(state)) children[service.id] = pendingService(service);
  return Object.assign(state, { children });
}

/** `older` and `newer` compare versions; `changed` means a different structure with the same version. */
type ChartRelation = 'same' | 'older' | 'newer' | 'changed';

/** Compares the chart that wrote a state or journal with this program's chart. */
export function compareChart(found: StoredState['chart']): ChartRelation {
  const ours = chartIdentity();
  if (found.version < ours.version) return 'older';
  if (found.version > ours.version) return 'newer';
  return found.hash === ours.hash ? 'same' : 'changed';
}

function assertChart(chart: StoredState['chart']): void {
  if (compareChart(chart) === 'same') return;
  const ours = chartIdentity();
  throw new EngineError(
    'chart-mismatch',
    `This state was written by chart version ${chart.version} (${chart.hash}); this program has version ` +
      `${ours.version} (${ours.hash}). Open it with the version of agentchart that wrote it.`,
    { found: chart, expected: ours },
  );
}

function assertLeaf(value: ChartState['value'], machine: AgentMachine): void {
  if (isLeafOf(machine.root, value)) return;
  const found = JSON.stringify(value);
  throw new EngineError('state-unknown', `The stored state ${found} does not exist in this chart.`, {
    value: found,
  });
}

function isLeafOf(node: StateNode, value: unknown): boolean {
  if (typeof value === 'string') {
    const leaf = childOf(node, value);
    return leaf !== undefined && Object.keys(leaf.states).length === 0;
  }
  const [entry, ...others] = isJsonObject(value) ? Object.entries(value) : [];
  if (entry === undefined || others.length > 0) return false;
  const child = childOf(node, entry[0]);
  return child !== undefined && isLeafOf(child, entry[1]);
}

/** The output of a machine that has ended, which is not stored. */
function outputIn({ context, _nodes: nodes }: ChartState): ChartState['output'] {
  const ended = nodes.find(({ type }) => type === 'final');
  if (ended === undefined) return undefined;
  return compileOutput(ended).value(new ActionInput(context, { type: '' })) as ChartState['output'];
}

type StateNode = AgentMachine['root'];

/** Own properties only: XState would accept `constructor` as a state. */
function childOf(node: StateNode, name: string): StateNode | undefined {
  return Object.hasOwn(node.states, name) ? node.states[name] : undefined;
}

/** Returns the services that a state waits for; a process that takes over the run must start them. */
export function pendingServices(state: ChartState): Extract<Effect, { type: 'start' }>[] {
  if (state.status !== 'active') return [];
  const input: ServiceInput = serviceInput(state);
  const invoked = state._nodes.flatMap(node => node.invoke);
  const pending = invoked.map(
    ({ id, src }) => ({ type: 'start', service: serviceNamed(src), id, input }) as const,
  );
  if (!state.hasTag('rest') || state.context.timer === null) return pending;
  return [...pending, { type: 'start', service: 'timer', id: 'timer', input }];
}
