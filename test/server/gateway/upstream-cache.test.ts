import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../protocol/json.ts';
import { MarkedCache } from '../../support/adapters/marked-cache.ts';
import { post } from '../../support/messages/client.ts';
import { DialectProvider } from '../../support/responses/dialect-provider.ts';
import { gatewayOn } from '../../support/responses/gateway-on.ts';

const { provider, gateway } = await gatewayOn(DialectProvider);

const TURNS = 10;
const WORDS = 'A sentence that the model has to read again. '.repeat(100);
const INSTRUCTIONS = `Be brief. ${WORDS}`;
const parameters = { type: 'object', properties: { file: { type: 'string' } } };
const CALLS = ['a', 'b', 'c'].map(file => ({ name: 'read', arguments: { file } }));

/** Plays a loop of tools, and computes what each request reads from the cache and writes to it, from its marks. */
function playLoop() {
  const cache = new MarkedCache();
  provider.play(...Array.from({ length: TURNS - 1 }, () => ({ calls: CALLS })), { text: 'Done.' });
  const used: { input: number; cached: number; written: number }[] = [];
  provider.usageOf = body => {
    const now = cache.use(body);
    used.push(now);
    return { ...now, output: 20, reasoning: 0 };
  };
  return used;
}

function sumOf<Name extends string>(entries: readonly Record<Name, number>[], name: Name): number {
  return entries.reduce((sum, entry) => sum + entry[name], 0);
}

type Wire = 'responses' | 'stateless responses' | 'chat' | 'messages';
type Told = { input: number; cached: number; written: number };

const model = 'anthropic:any';
const cache_control = { type: 'ephemeral' };

/** The loop of a client. Returns what each response reports as used, by the meaning of its API. */
const CLIENTS: Record<Wire, () => Promise<Told[]>> = {
  responses: () => askResponses(true),
  'stateless responses': () => askResponses(false),
  async chat() {
    const told: Told[] = [];
    const messages: JsonObject[] = [
      { role: 'system', content: INSTRUCTIONS },
      { role: 'user', content: 'Go.' },
    ];
    const tools = [{ type: 'function', function: { name: 'read', parameters } }];
    for (;;) {
      const { body } = await post(gateway, '/v1/chat/completions', { model, messages, tools });
      const { choices, usage } = body as {
        choices: { message: JsonObject & { tool_calls?: { id: string }[] } }[];
        usage: { prompt_tokens: number; prompt_tokens_details: Record<string, number> };
      };
      const { cached_tokens: cached = 0, cache_write_tokens: written = 0 } = usage.prompt_tokens_details;
      told.push({ input: usage.prompt_tokens, cached, written });
      const message = choices[0]?.message;
      if (!message?.tool_calls) return told;
      messages.push(message);
      for (const { id } of message.tool_calls)
        messages.push({ role: 'tool', tool_call_id: id, content: WORDS });
    }
  },
  async messages() {
    const told: Told[] = [];
    const messages: JsonObject[] = [{ role: 'user', content: 'Go.' }];
    const tools = [{ name: 'read', input_schema: parameters }];
    for (;;) {
      const asked = { model, messages, tools, system: INSTRUCTIONS, max_tokens: 1_000, cache_control };
      const { body } = await post(gateway, '/v1/messages', asked);
      const { content, usage } = body as {
        content: (JsonObject & { id: string })[];
        usage: { input_tokens: number; cache_read_input_tokens: number; cache_creation_input_tokens: number };
      };
      const { cache_read_input_tokens: cached, cache_creation_input_tokens: written } = usage;
      told.push({ input: usage.input_tokens + cached + written, cached, written });
      const calls = content.filter(({ type }) => type === 'tool_use');
      if (calls.length === 0) return told;
      const results = calls.map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content: WORDS }));
      messages.push({ role: 'assistant', content }, { role: 'user', content: results });
    }
  },
};

async function askResponses(isStored: boolean): Promise<Told[]> {
  const told: Told[] = [];
  const tools = [{ type: 'function', name: 'read', parameters, strict: false }];
  let input: JsonObject[] = [{ role: 'user', content: 'Go.' }];
  let previous: JsonObject = {};
  for (;;) {
    const asked = { model, input, tools, instructions: INSTRUCTIONS, store: isStored, ...previous };
    const { body } = await post(gateway, '/v1/responses', asked);
    const { id, output, usage } = body as {
      id: string;
      output: (JsonObject & { call_id: string })[];
      usage: { input_tokens: number; input_tokens_details: Record<string, number> };
    };
    const { cached_tokens: cached = 0, cache_write_tokens: written = 0 } = usage.input_tokens_details;
    told.push({ input: usage.input_tokens, cached, written });
    const calls = output.filter(({ type }) => type === 'function_call');
    if (calls.length === 0) return told;
    const results = calls.map(({ call_id }) => ({ type: 'function_call_output', call_id, output: WORDS }));
    if (isStored) previous = { previous_response_id: id };
    input = isStored ? results : [...input, ...output, ...results];
  }
}

describe("a loop of ten turns on Anthropic's model", () => {
  it.each<Wire>(['responses', 'stateless responses', 'chat', 'messages'])(
    'reads in each request over %s all that the one before it had, and reports it',
    async wire => {
      const used = playLoop();
      const told = await CLIENTS[wire]();
      expect(used).toHaveLength(TURNS);
      expect(used.slice(1).map(({ cached }) => cached)).toEqual(used.slice(0, -1).map(({ input }) => input));
      expect(told).toEqual(used);
      const [first] = used;
      expect(first).toEqual({ input: first?.input, cached: 0, written: first?.input });
      expect(sumOf(used, 'cached') / sumOf(used, 'input')).toBeGreaterThan(0.8);
      expect(sumOf(used, 'cached') + sumOf(used, 'written')).toBe(sumOf(used, 'input'));
    },
  );

  it('begins with the instructions and tools that another conversation wrote', async () => {
    const used = playLoop();
    await CLIENTS.chat();
    provider.play({ text: 'Done.' });
    const tools = [{ type: 'function', function: { name: 'read', parameters } }];
    const messages = [
      { role: 'system', content: INSTRUCTIONS },
      { role: 'user', content: 'Another question.' },
    ];
    await post(gateway, '/v1/chat/completions', { model, messages, tools });
    expect(used.at(-1)?.cached).toBeGreaterThan(INSTRUCTIONS.length / 4);
  });

  it('has no marks where a client of Messages sets none', async () => {
    const used = playLoop();
    provider.play({ text: 'Done.' });
    const asked = {
      model,
      max_tokens: 100,
      system: INSTRUCTIONS,
      messages: [{ role: 'user', content: 'Go.' }],
    };
    await post(gateway, '/v1/messages', asked);
    expect(JSON.stringify(provider.requests)).not.toContain('cache_control');
    expect(used).toMatchObject([{ cached: 0, written: 0 }]);
  });
});

describe('the session of a client', () => {
  const session = '0199a213-81c0-7800-8aa1-bbab2a035a53';
  const tool = { type: 'function', name: 'read', parameters };
  const ask = async (model: string, more: object, headers: Record<string, string>) => {
    provider.play({ text: 'Done.' });
    const { status } = await post(
      gateway,
      '/v1/responses',
      { model, input: 'Go.', tools: [tool], ...more },
      headers,
    );
    expect(status).toBe(200);
    return provider.requests[0]?.prompt_cache_key;
  };

  it.each(['openai:any', 'openai-chat:any'])('is the key of the cache of %s', async model => {
    expect(await ask(model, {}, { 'session-id': session })).toBe(session);
    expect(await ask(model, {}, { 'session-id': session, 'thread-id': 'review' })).toBe(`${session}:review`);
    expect(await ask(model, { prompt_cache_key: 'own' }, { 'session-id': session })).toBe('own');
    expect(await ask(model, {}, {})).toBeUndefined();
  });

  it('is shortened to what OpenAI takes', async () => {
    const key = await ask('openai:any', {}, { 'session-id': 's'.repeat(100) });
    expect(key).toMatch(/^[0-9a-f]{64}$/);
    expect(await ask('openai:any', {}, { 'session-id': 's'.repeat(100) })).toBe(key);
  });

  it('is not sent to providers without such keys', async () => {
    expect(await ask('anthropic:any', {}, { 'session-id': session })).toBeUndefined();
  });
});
