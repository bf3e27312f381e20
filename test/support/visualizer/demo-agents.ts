import * as z from 'zod';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { type Agent, createAgent, memory, type Store, tool } from '../../../agent/index.ts';
import { InDoubt } from '../../../protocol/error.ts';
import type { Tool } from '../../../protocol/tool.ts';

/** Controls the pauses of a scripted model; open until it is closed. */
class Gate {
  #permits = Infinity;
  #waiting: (() => void)[] = [];

  /** Lets `permits` pauses pass from now on, and holds the others. */
  close(permits = 0): void {
    this.#permits = permits;
  }

  open(): void {
    this.#permits = Infinity;
    for (const go of this.#waiting.splice(0)) go();
  }

  pass(signal: AbortSignal): Promise<void> {
    if (this.#permits > 0) {
      this.#permits -= 1;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      this.#waiting.push(resolve);
    });
  }
}

const lookupOrder = tool({
  name: 'lookup_order',
  description: 'Looks an order up.',
  input: z.object({ orderId: z.string() }),
  sideEffect: 'none',
  run: ({ orderId }) => ({ orderId, customer: 'Ada', cents: 4200, paid: true, delivered: '2026-03-02' }),
});

const lookupPolicy = tool({
  name: 'lookup_policy',
  description: 'Gives the shop policy on a topic.',
  input: z.object({ topic: z.string() }),
  sideEffect: 'none',
  run: ({ topic }) => ({ topic, rule: 'Broken goods are paid back in full within 30 days.' }),
});

const refund = tool({
  name: 'refund',
  description: 'Pays money back.',
  input: z.object({ orderId: z.string(), cents: z.number().int().positive(), note: z.string() }),
  approval: ({ input }) => ({ required: true, reason: `pays back ${input.cents} cents to the customer` }),
  run: ({ orderId, cents }, { key }) => ({ orderId, refundedCents: cents, reference: key }),
});

const deploy = tool({
  name: 'deploy',
  description: 'Deploys a version.',
  input: z.object({ version: z.string() }),
  run: () => {
    throw new InDoubt('the connection was lost after the request was sent');
  },
});

const measure = tool({
  name: 'measure',
  description: 'Measured by the person who runs the client.',
  input: z.object({ what: z.string() }),
});

/** Hostile tool output, from an attacker or by accident. */
export const HOSTILE = {
  markup:
    '<img src="http://evil.example/x.png" onerror="document.title=\'owned\'"><script>window.owned=1</script>',
  ansi: '\u001b[31mred\u001b[0m \u001b]8;;http://evil.example\u0007link\u001b]8;;\u0007',
  order: 'safe\u202etxt.exe\u2066\u200f',
};

const hostile = tool({
  name: 'fetch_page',
  description: 'Fetches a page.',
  input: z.object({ url: z.string() }),
  sideEffect: 'none',
  run: () => ({ ...HOSTILE, big: 'x'.repeat(1_000_000) }),
});

const REFUND_TURNS: readonly ScriptedTurn[] = [
  {
    reasoning: 'The refund needs the order and the policy. Both can be looked up at the same time.',
    text: 'I will look up the order and what our policy says.',
    toolCalls: [
      { name: 'lookup_order', arguments: { orderId: 'A-1001' } },
      { name: 'lookup_policy', arguments: { topic: 'broken goods' } },
    ],
    usage: { inputTokens: 812, outputTokens: 64 },
  },
  {
    toolCalls: [{ name: 'refund', arguments: { orderId: 'A-1001', cents: 4200, note: 'arrived broken' } }],
    usage: { inputTokens: 1_120, outputTokens: 41 },
  },
  {
    text: 'Done: order A-1001 was paid for and arrived broken within the 30 days, so Ada gets her 42.00 back. The reference is in the result above, and she will see it on her account within two working days.',
    usage: { inputTokens: 1_298, outputTokens: 58 },
    delayMs: 100,
  },
];

export type DemoAgents = { agents: Agent[]; gate: Gate; store: Store };

/** Agents on scripted models, recreated over the same store as in a new process. */
export function makeDemoAgents(store: Store = memory(), gate = new Gate()): DemoAgents {
  const make = (name: string, tools: Tool[], turns: readonly ScriptedTurn[]): Agent =>
    createAgent({
      name,
      store,
      tools,
      model: scripted({ turns, wait: (_, signal) => gate.pass(signal) }),
      retry: { attempts: 3, baseMs: 1 },
    });
  return {
    gate,
    store,
    agents: [
      make('refunds', [lookupOrder, lookupPolicy, refund], REFUND_TURNS),
      make(
        'releases',
        [deploy],
        [
          { text: 'Deploying now.', toolCalls: [{ name: 'deploy', arguments: { version: '2.4.0' } }] },
          { text: 'Version 2.4.0 is out.' },
        ],
      ),
      make(
        'reader',
        [hostile],
        [
          {
            text: `Reading ${HOSTILE.markup}`,
            toolCalls: [{ name: 'fetch_page', arguments: { url: HOSTILE.markup } }],
          },
          { text: `The page says ${HOSTILE.order} ${HOSTILE.ansi}` },
        ],
      ),
      make(
        'lab',
        [measure],
        [{ toolCalls: [{ name: 'measure', arguments: { what: 'width' } }] }, { text: 'It is 3 m wide.' }],
      ),
      make(
        'flaky',
        [],
        [
          { error: { code: 'overloaded', status: 529, message: 'Overloaded, try later', times: 1 } },
          { text: 'Here now.', reasoning: 'The first attempt failed.' },
        ],
      ),
      make(
        'broken',
        [],
        [{ error: { code: 'authentication', status: 401, message: 'The key is not valid.' } }],
      ),
      make(
        'cut',
        [],
        [{ text: 'The answer begins and continues until it is', finishReason: 'length', delayMs: 200 }],
      ),
    ],
  };
}
