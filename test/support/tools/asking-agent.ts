import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import type { Item } from '../../../protocol/item.ts';
import { textOf } from '../../../protocol/message.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';
import { memory } from '../../../stores/memory.ts';
import { makeTool } from '../engine/agents.ts';
import { answerWith, recordRequests } from '../engine/models.ts';

/** Agents that call a tool for some turns, and the requests to their models. */

/** Calls the tools in its first `rounds` turns, independent of the transcript; then answers. */
export function asking(rounds: number, names: string[] = ['read']) {
  return answerWith((_, before) => {
    if (before >= rounds) {
      const text = `answer ${before}`;
      return { text, items: [{ type: 'message', role: 'assistant', content: [{ type: 'text', text }] }] };
    }
    return { toolCalls: names.map((name, index) => ({ callId: `c${before}_${index}`, name })) };
  });
}

export function makeAgent(model = asking(1), options: Partial<AgentOptions> = {}) {
  const ran: string[] = [];
  const recorded = recordRequests(model);
  const store = memory();
  const agent = createAgent({
    name: 'a',
    store,
    model: recorded.model,
    tools: [
      makeTool('read', {
        sideEffect: 'once',
        run: (_, { callId }) => {
          ran.push(callId);
          return `result of ${callId}`;
        },
      }),
    ],
    ...options,
  });
  return { agent, ran, requests: recorded.requests, store };
}

/** A transcript in short notation, one line per item. */
export function brief(items: readonly Item[] = []): string[] {
  return items.map(item => {
    if (item.type === 'message') return `${item.role}: ${textOf(item)}`;
    if (item.type === 'tool_call') return `call ${item.callId}`;
    return item.type === 'tool_result' ? `result ${item.callId}` : item.type;
  });
}

export const sent = (requests: ModelRequest[], index: number) => brief(requests[index]?.transcript);
