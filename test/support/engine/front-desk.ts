import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { Store } from '../../../protocol/store.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';
import { memory } from '../../../stores/memory.ts';
import { makeTool } from './agents.ts';

export const BILLING = 'transfer_to_billing';
export const BACK = 'transfer_to_front_desk';

/** A model that gives these turns, whatever it reads, and keeps its requests. */
export function heard(turns: ScriptedTurn[]): { model: ModelAdapter; requests: ModelRequest[] } {
  const requests: ModelRequest[] = [];
  const model = scripted([]);
  return {
    requests,
    model: {
      ...model,
      stream(request, options) {
        const turn = turns[requests.push(request) - 1];
        return scripted(turn === undefined ? [] : [turn]).stream({ ...request, transcript: [] }, options);
      },
    },
  };
}

type Parts = {
  front: ScriptedTurn[];
  billing: ScriptedTurn[];
  store?: Store;
  ofBilling?: Partial<AgentOptions>;
  ofFront?: Partial<AgentOptions>;
};

/** A front desk that hands conversations over to billing, and what their models are asked. */
export function makeDesk({ front, billing, store = memory(), ofBilling = {}, ofFront = {} }: Parts) {
  const desk = heard(front);
  const clerk = heard(billing);
  const below = createAgent({
    name: 'billing',
    description: 'Invoices and refunds.',
    model: clerk.model,
    instructions: 'You are billing.',
    tools: [makeTool('look_up')],
    ...(ofBilling as object),
  });
  const agent = createAgent({
    name: 'front_desk',
    model: desk.model,
    instructions: 'You are the front desk.',
    tools: [makeTool('hours')],
    handoffs: [below],
    store,
    ...(ofFront as object),
  });
  return { agent, store, desk: desk.requests, clerk: clerk.requests };
}

/** What a request has, in words. */
export function wordsIn(request: ModelRequest | undefined): string[] {
  return (request?.transcript ?? []).map(item => {
    if (item.type === 'message')
      return `${item.role}: ${item.content.map(part => (part.type === 'text' ? part.text : part.type)).join('')}`;
    if (item.type === 'tool_call') return `call ${item.name}`;
    return item.type === 'tool_result' ? `result ${JSON.stringify(item.output)}` : item.type;
  });
}

export const toolsOf = (request: ModelRequest | undefined) => request?.tools.map(({ name }) => name);
