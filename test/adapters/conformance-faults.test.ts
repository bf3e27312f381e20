import { describe, expect, test } from 'vitest';
import { type AdapterUnderTest, adapterChecks, type OpenOptions } from '../../adapters/conformance.ts';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import { ProviderError } from '../../protocol/error.ts';
import type { Item } from '../../protocol/item.ts';
import type { ModelRequest, ModelTurn, TurnDelta } from '../../protocol/turn.ts';
import { subjects } from '../support/adapters/fixtures/subjects.ts';

const good = subjects.openaiResponses as AdapterUnderTest;

/** A fault of an adapter, and the check that must detect it. */
type Fault = {
  that: string;
  fails: string;
  options?: (options: OpenOptions) => OpenOptions;
  adapter?: (adapter: ModelAdapter) => Partial<ModelAdapter>;
};

let count = 0;

const faults: Fault[] = [
  {
    that: 'sends no tools while tools are off',
    fails: 'each request of a conversation begins with the one before it',
    adapter: adapter =>
      withRequests(adapter, request => (request.toolChoice === 'none' ? { ...request, tools: [] } : request)),
  },
  {
    that: 'leaves out reasoning before the last turn',
    fails: 'each request of a conversation begins with the one before it',
    adapter: adapter =>
      withRequests(adapter, ({ transcript, ...request }) => {
        const last = transcript.findLastIndex(item => item.type === 'message' && item.role === 'user');
        const kept = transcript.filter(({ type }, at) => type !== 'reasoning' || at > last);
        return { ...request, transcript: kept };
      }),
  },
  {
    that: 'writes how many items there are into the instructions',
    fails: 'each request of a conversation begins with the one before it',
    adapter: adapter =>
      withRequests(adapter, request => ({
        ...request,
        instructions: `${request.instructions} ${request.transcript.length}`,
      })),
  },
  {
    that: 'has the schema of one turn among the instructions, and calls it native',
    fails: 'each request of a conversation with an output schema begins with the one before it',
    adapter: adapter =>
      withRequests(adapter, request =>
        request.output ? { ...request, instructions: JSON.stringify(request.output) } : request,
      ),
  },
  {
    that: 'parses each chunk of a body separately',
    fails: 'streamed calls: gives the same one byte at a time',
    options: options => ({ ...options, ...(options.fetch && { fetch: decodingPieces(options.fetch) }) }),
  },
  {
    that: 'accepts a truncated stream as a turn',
    fails: 'streamed calls: is malformed wherever it is cut off',
    adapter: adapter => withTurns(adapter, turn => turn, { rescue: true }),
  },
  {
    that: 'returns another turn when it does not stream',
    fails: 'streamed calls: gives the same turn as calls',
    adapter: adapter => ({
      generate: async (...args) => ({ ...(await adapter.generate(...args)), reasoning: '' }),
    }),
  },
  {
    that: 'omits a delta',
    fails: 'streamed calls: ends with one turn, which its deltas add up to',
    adapter: adapter => ({
      async *stream(...args) {
        for await (const delta of adapter.stream(...args)) if (delta.type !== 'text') yield delta;
      },
    }),
  },
  {
    that: 'ends with two turns',
    fails: 'streamed calls: ends with one turn, which its deltas add up to',
    adapter: adapter => ({
      async *stream(...args) {
        for await (const delta of adapter.stream(...args)) {
          yield delta;
          if (delta.type === 'turn') yield delta;
        }
      },
    }),
  },
  {
    that: 'generates other ids each time',
    fails: 'calls: gives each call its own id, and the same one when requested again',
    adapter: adapter =>
      withTurns(adapter, turn => ({
        ...turn,
        toolCalls: turn.toolCalls.map(call => ({ ...call, callId: `call_${count++}` })),
      })),
  },
  {
    that: 'declares usage and does not report it',
    fails: 'calls: reports usage as its adapter declares',
    adapter: adapter => ({
      ...withTurns(adapter, turn => ({ ...turn, usage: null })),
      capabilities: { ...adapter.capabilities, usage: true },
    }),
  },
  {
    that: 'gives all calls the same id',
    fails: 'calls: gives each call its own id, and the same one when requested again',
    adapter: adapter =>
      withTurns(adapter, turn => ({
        ...turn,
        toolCalls: turn.toolCalls.map(call => ({ ...call, callId: 'call' })),
      })),
  },
  {
    that: 'loses opaque data',
    fails: 'calls: is sent back unchanged in the next request, also after a JSON round trip',
    adapter: adapter => withTurns(adapter, turn => ({ ...turn, items: turn.items.map(withoutOpaque) })),
  },
  {
    that: 'keeps opaque data outside of its items',
    fails: 'calls: is sent back unchanged in the next request, also after a JSON round trip',
    adapter: adapter => {
      const known = new WeakSet<Item>();
      const remembering = withTurns(adapter, turn => {
        for (const item of turn.items) known.add(item);
        return turn;
      });
      return withItems({ ...adapter, ...remembering }, item =>
        known.has(item) ? item : withoutOpaque(item),
      );
    },
  },
  {
    that: "sends another provider's opaque data",
    fails: 'calls: is sent to another provider without its opaque data',
    adapter: adapter =>
      withItems(adapter, item =>
        'opaque' in item && item.opaque
          ? ({ ...item, opaque: { ...item.opaque, provider: adapter.provider } } as Item)
          : item,
      ),
  },
  {
    that: 'sends an image that a tool returned as JSON text',
    fails: "sends images and files of tool results in the provider's form, or a note in their place",
    adapter: adapter =>
      withItems(adapter, item =>
        item.type === 'tool_result' ? { ...item, output: JSON.stringify(item.output) } : item,
      ),
  },
  {
    that: 'drops an image that a tool returned',
    fails: "sends images and files of tool results in the provider's form, or a note in their place",
    adapter: adapter =>
      withItems(adapter, item =>
        item.type === 'tool_result' ? { ...item, output: 'caption-of-the-picture' } : item,
      ),
  },
  {
    that: 'retries a failed call',
    fails: 'a status of 500 is retryable (a response)',
    adapter: adapter => ({
      generate: (...args) => adapter.generate(...args).catch(() => adapter.generate(...args)),
    }),
  },
  {
    that: 'throws errors of another class',
    fails: 'a status of 401 is an authentication error (a response)',
    adapter: adapter => ({
      generate: (...args) =>
        adapter.generate(...args).catch((error: unknown) => {
          throw new Error('it failed', { cause: error });
        }),
    }),
  },
  {
    that: 'includes the key in its errors',
    fails: 'a status of 401 is an authentication error (a response)',
    adapter: adapter => ({
      generate: (...args) =>
        adapter.generate(...args).catch((error: ProviderError) => {
          throw new ProviderError(`${error.message} (key conformance-4f1d2c7b90ae)`, error);
        }),
    }),
  },
  {
    that: 'ignores the abort signal',
    fails: 'a response that is aborted before it starts sends no request',
    adapter: adapter => ({
      generate: request => adapter.generate(request, { signal: new AbortController().signal }),
    }),
  },
  {
    that: 'reads bodies without a size limit',
    fails: 'a response with more bytes than allowed is aborted',
    options: options => ({ ...options, maxResponseBytes: Number.MAX_SAFE_INTEGER }),
  },
  {
    that: 'sends a request without a key',
    fails: 'without a key no request is sent',
    options: options => ({ ...options, apiKey: options.apiKey || 'none' }),
  },
];

describe('the conformance checks of an adapter', () => {
  test('have distinct names', () => {
    const names = adapterChecks(good).map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
  });

  test('require an exchange of each mode, and only existing checks can be excepted', () => {
    const streamed = good.exchanges.filter(exchange => exchange.streamed);
    expect(() => adapterChecks({ ...good, exchanges: streamed })).toThrow('streamed: false');
    expect(() => adapterChecks({ ...good, except: { 'no such check': 'because' } })).toThrow('no such check');
    const except = { 'without a key no request is sent': 'It needs none.' };
    expect(adapterChecks({ ...good, except })).toHaveLength(adapterChecks(good).length - 1);
  });

  test.each(faults)('reject an adapter that $that', async ({ fails, options, adapter }) => {
    const open = (given: OpenOptions): ModelAdapter => {
      const inner = good.open(options?.(given) ?? given);
      return { ...inner, ...adapter?.(inner) };
    };
    const check = adapterChecks({ ...good, open }).find(({ name }) => name === fails);
    if (!check) throw new RangeError(`There is no check named "${fails}".`);
    await expect(check.run()).rejects.toThrow();
  });
});

function withTurns(
  adapter: ModelAdapter,
  change: (turn: ModelTurn) => ModelTurn,
  { rescue = false } = {},
): Pick<ModelAdapter, 'generate' | 'stream'> {
  return {
    generate: async (...args) => change(await adapter.generate(...args)),
    async *stream(...args): AsyncGenerator<TurnDelta> {
      try {
        for await (const delta of adapter.stream(...args)) {
          yield delta.type === 'turn' ? { type: 'turn', turn: change(delta.turn) } : delta;
        }
      } catch (error) {
        if (!rescue) throw error;
        yield { type: 'turn', turn: EMPTY };
      }
    },
  };
}

function withRequests(
  adapter: ModelAdapter,
  change: (request: ModelRequest) => ModelRequest,
): Pick<ModelAdapter, 'generate' | 'stream'> {
  return {
    generate: (request, options) => adapter.generate(change(request), options),
    stream: (request, options) => adapter.stream(change(request), options),
  };
}

function withItems(adapter: ModelAdapter, change: (item: Item) => Item) {
  return withRequests(adapter, request => ({ ...request, transcript: request.transcript.map(change) }));
}

const EMPTY: ModelTurn = {
  text: '',
  reasoning: '',
  toolCalls: [],
  finishReason: 'stop',
  usage: null,
  model: 'model-1',
  items: [],
};

function withoutOpaque(item: Item): Item {
  if (!('opaque' in item) || item.type === 'provider_item') return item;
  const { opaque: _, ...portable } = item;
  return portable as Item;
}

function decodingPieces(inner: typeof fetch): typeof fetch {
  return async (input, init) => {
    const response = await inner(input, init);
    const recoded = response.body?.pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        transform: (piece, controller) =>
          controller.enqueue(new TextEncoder().encode(new TextDecoder().decode(piece))),
      }),
    );
    return new Response(recoded ?? null, { status: response.status, headers: response.headers });
  };
}
