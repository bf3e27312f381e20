import { actorsOf, type LiveOptions, type ServiceActors } from '../engine/driver/live.ts';
import { type Host, systemHost } from '../engine/host/host.ts';
import { makeServices } from '../engine/services/make-services.ts';
import type { SubAgentRuns } from '../engine/sub-agents/sub-agent-runs.ts';
import { EngineError } from '../protocol/error.ts';
import type { RunStarted } from '../protocol/event.ts';
import type { Item } from '../protocol/item.ts';
import { listTools, ToolConnection } from '../tools/connect-tools.ts';
import { type AgentOptions, defineAgent, knownLoopOptions } from './agent-options.ts';
import { beginJournal, knownInput, type LoopStart } from './begin-journal.ts';
import { readRunContextNow } from './run-context.ts';

/** The options of `createAgent` for a loop that an actor runs, without a store. Default name: `agent`. */
export type LoopOptions = Omit<AgentOptions, 'name' | 'store' | 'durability' | 'migrations' | 'handoffs'> & {
  name?: string;
};

const named = (options: LoopOptions): AgentOptions & { host?: Host } => ({ name: 'agent', ...options });

/** A sub-agent's tool calls its agent directly: there is no store for a child run. */
export const NO_SUB_AGENTS: SubAgentRuns = {
  has: () => false,
  subAgent: () => undefined,
  begin: (tool: string) => Promise.reject(new EngineError('agent-invalid', `"${tool}" is not a sub-agent.`)),
  open: (runId: string) => Promise.reject(new EngineError('run-unknown', `There is no run ${runId}.`)),
  lookFor: () => Promise.resolve('none'),
};

/**
 * Returns all actors of `agentMachine` for these options: model turns, tools, timers and checks of the answer. It is
 * `createAgent(options).services(live)` without the engine for durable runs. Throws `agent-invalid`.
 *
 * @example
 * const options = { model: openaiResponses({ model: 'gpt-5-mini', apiKey }), tools: [addTodo] };
 * const machine = agentMachine.provide({ actors: agentServices(options) });
 * createActor(machine, { input: agentInput('Add milk.', options) }).start();
 */
export function agentServices(options: LoopOptions, live: LiveOptions = {}): ServiceActors {
  const definition = defineAgent(named(knownLoopOptions('agentServices', options)));
  const connection = new ToolConnection(definition.tools);
  const parts = { connectTools: () => connection.connect(), subAgents: NO_SUB_AGENTS };
  return actorsOf(makeServices(definition, parts), { host: options.host ?? systemHost, ...live });
}

/**
 * Returns the input of `agentMachine` for these options, like `agent.input`. Throws `agent-invalid`, `model-missing`
 * without a model, and `input-invalid`.
 */
export function agentInput(
  input: string | readonly Item[],
  options: LoopOptions,
  start: LoopStart = {},
): RunStarted {
  const definition = defineAgent(named(knownLoopOptions('agentInput', options)));
  const host = options.host ?? systemHost;
  const runId = start.runId ?? host.newId('run');
  const runContext = readRunContextNow(definition, start.runContext);
  return beginJournal(definition, host, input, {
    ...knownInput('agentInput', start),
    runId,
    runContext,
    tools: listTools(definition.tools),
  });
}
