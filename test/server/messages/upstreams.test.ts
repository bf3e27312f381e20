import type Anthropic from '@anthropic-ai/sdk';
import type { Message, MessageParam } from '@anthropic-ai/sdk/resources/messages';
import { describe, expect, it, vi } from 'vitest';
import { isJsonObject, type JsonObject } from '../../../protocol/json.ts';
import { addUp, anthropicOn, streamed } from '../../support/messages/client.ts';
import { UPSTREAMS, Upstream } from '../../support/messages/upstream.ts';
import { gatewayOn } from '../../support/responses/gateway-on.ts';

const { provider: upstream, gateway } = await gatewayOn(Upstream);
const client = anthropicOn(gateway);

const WEATHER = {
  name: 'weather',
  description: 'The weather in a city.',
  input_schema: { type: 'object' as const, properties: { city: { type: 'string' } } },
};
const call = (city: string, id: string) => ({ id, name: 'weather', arguments: JSON.stringify({ city }) });
const CALLS = {
  reasoning: 'I look it up.',
  text: 'One moment.',
  calls: [call('Oslo', 'call_1'), call('Rome', 'call_2')],
};
const ANSWER = { reasoning: 'Cold there.', text: 'Take a coat to Oslo.' };
const thinking = { type: 'enabled' as const, budget_tokens: 2_000 };
const names = Object.keys(UPSTREAMS) as (keyof typeof UPSTREAMS)[];

type Body = Anthropic.MessageCreateParamsNonStreaming;
type Ask = (body: Body) => Promise<Message>;

const WAYS: Record<string, Ask> = {
  create: body => client.messages.create(body),
  stream: body => client.messages.stream(body).finalMessage(),
};

function resultsFor({ content }: Message): MessageParam {
  const calls = content.filter(block => block.type === 'tool_use');
  const results = calls.map(({ id, input }) => ({
    type: 'tool_result' as const,
    tool_use_id: id,
    content: `It rains in ${(input as { city: string }).city}.`,
  }));
  return { role: 'user', content: results };
}

/** Without what differs between any two responses. */
function plain({ id: _, ...message }: Message | JsonObject): unknown {
  const blocks = message.content as unknown as JsonObject[];
  return {
    ...message,
    _request_id: undefined,
    parsed_output: undefined,
    content: blocks.map(block => ({
      ...block,
      ...(block.type === 'tool_use' ? { id: String(block.id).replace(/_\w{32}_/, '_RUN_') } : {}),
      ...(block.type === 'thinking' ? { signature: '' } : {}),
    })),
  };
}

function hasPart(value: unknown, fits: (part: JsonObject) => boolean): boolean {
  if (Array.isArray(value)) return value.some(item => hasPart(item, fits));
  if (!isJsonObject(value)) return false;
  return fits(value) || Object.values(value).some(item => hasPart(item, fits));
}

/** How each dialect shows that a provider got back what it had sent along with its output. */
const PROOFS: Readonly<Record<string, (part: JsonObject) => boolean>> = {
  anthropic: part => part.type === 'thinking' && part.signature === 'c2ln',
  responses: part =>
    part.previous_response_id === 'resp_1' ||
    (part.type === 'reasoning' && part.encrypted_content === 'c2VjcmV0'),
  gemini: part => part.thoughtSignature === 'c2ln',
};

describe.each(names)('on an upstream of the dialect %s', dialect => {
  const model = UPSTREAMS[dialect];
  const base: Body = { model, max_tokens: 4_000, messages: [{ role: 'user', content: 'Where to go?' }] };

  it.each(Object.entries(WAYS))('a tool loop: %s', async (_, ask) => {
    upstream.play(CALLS, ANSWER);
    const body = { ...base, tools: [WEATHER] };
    const asked = await ask(body);
    expect(asked.stop_reason).toBe('tool_use');
    expect(asked.content).toMatchObject([
      { type: 'text', text: 'One moment.' },
      { type: 'tool_use', name: 'weather', input: { city: 'Oslo' } },
      { type: 'tool_use', name: 'weather', input: { city: 'Rome' } },
    ]);
    const answered = [
      ...body.messages,
      { role: 'assistant' as const, content: asked.content },
      resultsFor(asked),
    ];
    const done = await ask({ ...body, messages: answered });
    expect(done).toMatchObject({
      stop_reason: 'end_turn',
      content: [{ type: 'text', text: 'Take a coat to Oslo.' }],
      usage: { input_tokens: dialect === 'chat' ? expect.any(Number) : 6, output_tokens: 6 },
    });
    const sent = upstream.requests[1];
    expect(JSON.stringify(sent)).toContain('It rains in Rome.');
    const proof = PROOFS[dialect];
    if (proof !== undefined) expect(hasPart(sent, proof)).toBe(true);
  });

  it('thinking is shown when it is asked for', async () => {
    upstream.play(ANSWER);
    const message = await client.messages.create({ ...base, thinking });
    expect(message.content).toMatchObject([
      { type: 'thinking', thinking: 'Cold there.', signature: expect.stringMatching(/./) },
      { type: 'text', text: 'Take a coat to Oslo.' },
    ]);
  });

  it('a streamed message is the sum of its events, and equal to one that is not streamed', async () => {
    for (const turn of [ANSWER, CALLS, { ...ANSWER, finish: 'length' as const }]) {
      for (const more of [{}, { thinking }]) {
        const body = { ...base, ...more, tools: [WEATHER] };
        upstream.play(turn, turn);
        const events = await streamed(gateway, body);
        expect(plain(addUp(events))).toEqual(plain(await client.messages.create(body)));
      }
    }
  });
});

describe.each(['anthropic', 'responses', 'gemini'] as const)('opaque data of the dialect %s', dialect => {
  const model = UPSTREAMS[dialect];
  const base: Body = {
    model,
    max_tokens: 4_000,
    thinking,
    tools: [WEATHER],
    messages: [{ role: 'user', content: 'Where to go?' }],
  };
  const proof = PROOFS[dialect] as (part: JsonObject) => boolean;

  it.each(Object.entries(WAYS))('comes back after an answer: %s', async (_, ask) => {
    upstream.play(ANSWER, ANSWER);
    const first = await ask(base);
    const messages: MessageParam[] = [
      ...base.messages,
      { role: 'assistant', content: first.content },
      { role: 'user', content: 'Sure?' },
    ];
    await ask({ ...base, messages });
    if (dialect !== 'gemini') expect(hasPart(upstream.requests[1], proof)).toBe(true);
  });

  it('comes back with a call in a history that the client has changed', async () => {
    upstream.play({ ...CALLS, text: '' }, ANSWER);
    const first = await client.messages.create(base);
    const messages: MessageParam[] = [
      { role: 'user', content: 'Where to go, please?' },
      { role: 'assistant', content: first.content },
      resultsFor(first),
    ];
    await client.messages.create({ ...base, messages });
    if (dialect === 'anthropic') expect(hasPart(upstream.requests[1], proof)).toBe(true);
    expect(JSON.stringify(upstream.requests[1])).toContain('please');
  });
});

it.each(names)(
  'tools with names of 128 characters are told apart on an upstream of the dialect %s',
  async dialect => {
    const [first = '', second = ''] = ['a', 'b'].map(end => 'n'.repeat(127) + end);
    const call = (shown: string) => ({ id: 'call_1', name: shown, arguments: '{}' });
    const offered = () =>
      [...new Set(JSON.stringify(upstream.requests.at(-1)).match(/n{20,}\w+/g))].map(name => name.length);
    const body: Body = {
      model: UPSTREAMS[dialect],
      max_tokens: 9,
      messages: [{ role: 'user', content: 'Go.' }],
      tools: [first, second].map(name => ({ ...WEATHER, name })),
      tool_choice: { type: 'tool', name: second },
    };
    upstream.play({ calls: [] }, {});
    await client.messages.create(body);
    expect(offered()).toEqual([64, 64]);
    const [, short = ''] =
      JSON.stringify(upstream.requests[0]).match(/"name":"(n+_\w+)"(?!.*"name":"n+_)/) ?? [];
    upstream.play({ calls: [call(short)] }, ANSWER);
    const asked = await client.messages.create(body);
    expect(asked.content).toMatchObject([{ type: 'tool_use', name: second }]);
    const messages = [
      ...body.messages,
      { role: 'assistant' as const, content: asked.content },
      resultsFor(asked),
    ];
    expect((await client.messages.create({ ...body, messages })).stop_reason).toBe('end_turn');
    expect(offered()).toEqual([64, 64]);
  },
);

it.each([true, false])('redacted thinking of Anthropic comes back, streamed: %s', async stream => {
  const block = { type: 'redacted_thinking', data: 'b3BhcXVl' };
  upstream.playBlocks([block, { type: 'text', text: 'No.' }]);
  const body: Body = {
    model: UPSTREAMS.anthropic,
    max_tokens: 4_000,
    thinking,
    messages: [{ role: 'user', content: 'May I?' }],
  };
  const ask = WAYS[stream ? 'stream' : 'create'] as Ask;
  const { content } = await ask(body);
  expect(content.map(({ type }) => type)).toEqual(['redacted_thinking', 'text']);
  expect(content).toContainEqual({ type: 'text', text: 'No.', citations: null });
  await ask({
    ...body,
    messages: [...body.messages, { role: 'assistant', content }, { role: 'user', content: 'Why?' }],
  });
  expect(hasPart(upstream.requests[1], part => part.data === 'b3BhcXVl')).toBe(true);
});

it('a silent stream is kept open by pings', async () => {
  upstream.play(ANSWER);
  const release = upstream.hold();
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const pings: unknown[] = [];
  const events = streamed(
    gateway,
    { model: UPSTREAMS.chat, max_tokens: 9, messages: [{ role: 'user', content: 'hi' }] },
    frame => frame.startsWith('event: ping') && pings.push(frame),
  );
  while (pings.length === 0) await vi.advanceTimersByTimeAsync(1_000);
  vi.useRealTimers();
  release();
  expect((await events).at(-1)?.type).toBe('message_stop');
});
