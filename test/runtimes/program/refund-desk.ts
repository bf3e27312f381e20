import { createAgent, memory, type Store, tool } from 'agentchart';
import { anthropic } from 'agentchart/adapters/anthropic';
import { gemini } from 'agentchart/adapters/gemini';
import { openaiChat } from 'agentchart/adapters/openai-chat';
import { openaiResponses } from 'agentchart/adapters/openai-responses';
import * as z from 'zod';

/** The agent that runs in every runtime. */

/** An adapter of each API, which calls the stand-in at the origin `provider`. */
export const ADAPTERS = {
  'openai-responses': (provider: string) =>
    openaiResponses({ model: 'any', apiKey: 'none', baseURL: `${provider}/v1`, store: false }),
  'openai-chat': (provider: string) =>
    openaiChat({ model: 'any', apiKey: 'none', baseURL: `${provider}/v1` }),
  anthropic: (provider: string) => anthropic({ model: 'any', apiKey: 'none', baseURL: provider }),
  gemini: (provider: string) => gemini({ model: 'any', apiKey: 'none', baseURL: provider }),
};

/** Resolves for both tools once both have come: a batch whose calls run one after the other never ends. */
class Meeting {
  #first: PromiseWithResolvers<void> | undefined;

  async join(): Promise<void> {
    if (this.#first !== undefined) {
      this.#first.resolve();
      this.#first = undefined;
      return;
    }
    this.#first = Promise.withResolvers();
    await this.#first.promise;
  }
}

export type Desk = {
  provider: string;
  adapter?: keyof typeof ADAPTERS;
  store?: Store;
  /** Called before a tool does its work, with the tool's name and the call's key; may wait. */
  onCall?: (name: string, key: string) => void | Promise<void>;
};

/** Two tools that run in parallel, and one that needs an approval. */
export function makeTools({ onCall = () => {} }: Pick<Desk, 'onCall'> = {}) {
  const meeting = new Meeting();
  const findOrder = tool({
    name: 'find_order',
    description: 'Finds an order.',
    input: z.object({ orderId: z.string() }),
    sideEffect: 'none',
    run: async ({ orderId }, { key }) => {
      await onCall('find_order', key);
      await meeting.join();
      return { orderId, cents: 4200 };
    },
  });
  const findCustomer = tool({
    name: 'find_customer',
    description: "Finds an order's customer.",
    input: z.object({ orderId: z.string() }),
    sideEffect: 'none',
    run: async (_, { key }) => {
      await onCall('find_customer', key);
      await meeting.join();
      return { name: 'Ada' };
    },
  });
  const refund = tool({
    name: 'refund',
    description: 'Refunds an order.',
    input: z.object({ orderId: z.string(), cents: z.int() }),
    approval: true,
    sideEffect: 'idempotent',
    run: async ({ cents }, { key }) => {
      await onCall('refund', key);
      return `${cents} cents refunded`;
    },
  });
  return [findOrder, findCustomer, refund];
}

/** Creates the agent, with a memory store by default. */
export function makeDesk({ provider, adapter = 'openai-responses', store = memory(), onCall }: Desk) {
  return createAgent({
    name: 'refund-desk',
    model: ADAPTERS[adapter](provider),
    tools: makeTools(onCall && { onCall }),
    store,
  });
}
