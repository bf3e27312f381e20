import { setTimeout as sleep } from 'node:timers/promises';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { type Agent, createAgent, tool } from '../../agent/index.ts';
import refunds from '../../examples/refund.ts';
import { CHART_VERSION } from '../../machines/agent.ts';
import type { Tool } from '../../protocol/tool.ts';
import { notes } from '../../tools/notes/index.ts';

/** `note` records what a tool did, for the tests to read. */
type Watch = { note(line: string): void; toolMs: number };

/** What `noting` notes of its user. */
export const NOTED = 'Asked for the refund of A-1001.';

const order = { orderId: 'A-1001', cents: 4200 };

/** The agents of the tests. Each script is that of one run: a model that is stateless is given where it is called. */
export function makeAgents({ note, toolMs }: Watch): Agent[] {
  const ofRefunds = refunds.options.tools as readonly Tool[];
  const slow = ofRefunds.map(own => (own.name === 'refund' ? { ...own, run: slowly(own) } : own));
  const look = { name: 'lookup_order', arguments: { orderId: order.orderId } };
  const pay = { name: 'refund', arguments: order };
  const answer = { text: 'Refunded 42.00.' };
  const ungated = slow.map(own => ({ ...own, approval: () => ({ required: false }) }));
  const expiring = slow.map(own => ({ ...own, approval: () => ({ required: true, expiresInMs: 1_500 }) }));

  const payer = createAgent({
    name: 'payer',
    model: scripted([{ toolCalls: [pay] }, { text: 'Paid.' }]),
    tools: slow,
  });
  const reader = createAgent({ name: 'reader', model: scripted([{ text: 'It was paid.' }]) });
  const wait = tool({
    name: 'wait',
    description: 'Waits.',
    input: z.object({}),
    sideEffect: 'none',
    run: async (_, { signal }) => await sleep(toolMs, 'waited', { signal }),
  });
  const memo = { command: 'create', path: '/memories/orders.md', file_text: NOTED };
  const words = Array.from({ length: 20 }, (_, index) => `word${index} `);

  return [
    createAgent({
      ...refunds.options,
      migrations: [
        { from: { chart: CHART_VERSION - 1 }, to: { chart: CHART_VERSION }, migrate: events => events },
      ],
      model: scripted([{ toolCalls: [look] }, { toolCalls: [pay] }, answer]),
      tools: slow,
    }),
    createAgent({
      name: 'paying',
      model: scripted([{ toolCalls: [look] }, { toolCalls: [pay] }, answer]),
      tools: ungated,
    }),
    createAgent({
      name: 'expiring',
      model: scripted([{ toolCalls: [pay] }, { text: 'Nobody decided.' }]),
      tools: expiring,
    }),
    createAgent({
      name: 'parent',
      model: scripted([
        { toolCalls: [{ name: 'ask_reader', arguments: { input: 'was it paid?' } }] },
        { toolCalls: [{ name: 'ask_payer', arguments: { input: 'pay' } }] },
        { text: 'Done.' },
      ]),
      tools: [
        payer.asTool({ name: 'ask_payer', description: 'Pays.' }),
        reader.asTool({ name: 'ask_reader', description: 'Reads.' }),
      ],
    }),
    createAgent({ name: 'talking', model: scripted([{ text: words.join(''), delayMs: 3_000 }]) }),
    createAgent({
      name: 'waiting',
      model: scripted([{ toolCalls: [{ name: 'wait', arguments: {} }] }, { text: 'Waited.' }]),
      tools: [wait],
    }),
    createAgent({
      name: 'noting',
      model: scripted([
        { toolCalls: [{ name: 'memory', arguments: memo }] },
        { toolCalls: [{ name: 'wait', arguments: {} }] },
        { toolCalls: [{ name: 'memory', arguments: { command: 'view', path: memo.path } }] },
        { text: 'Noted.' },
      ]),
      tools: [notes({ by: 'user' }), wait],
    }),
  ];

  function slowly(own: Tool): NonNullable<Tool['run']> {
    return async (input, context) => {
      note(`begin ${context.runId} ${context.callId}`);
      await sleep(toolMs);
      note(`end ${context.runId} ${context.callId}`);
      return await own.run?.(input, context);
    };
  }
}
