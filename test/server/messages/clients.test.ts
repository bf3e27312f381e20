import { createAnthropic } from '@ai-sdk/anthropic';
import { betaZodTool } from '@anthropic-ai/sdk/helpers/beta/zod';
import { generateText, stepCountIs, streamText, tool } from 'ai';
import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { anthropicOn, fetchFrom } from '../../support/messages/client.ts';
import { UPSTREAMS, Upstream } from '../../support/messages/upstream.ts';
import { gatewayOn } from '../../support/responses/gateway-on.ts';

const { provider: upstream, gateway } = await gatewayOn(Upstream);
const client = anthropicOn(gateway);

const CALL = {
  reasoning: 'I look it up.',
  text: 'One moment.',
  calls: [{ id: 'call_1', name: 'weather', arguments: '{"city":"Oslo"}' }],
};
const ANSWER = { reasoning: 'Cold there.', text: 'Take a coat.' };
const city = z.object({ city: z.string() });

describe.each(Object.entries(UPSTREAMS))('on an upstream of the dialect %s', (_, model) => {
  it.each([true, false])('the tool runner of @anthropic-ai/sdk runs its loop, streamed: %s', async stream => {
    upstream.play(CALL, ANSWER);
    const asked: string[] = [];
    const weather = betaZodTool({
      name: 'weather',
      description: 'The weather in a city.',
      inputSchema: city,
      run: input => {
        asked.push(input.city);
        return `It rains in ${input.city}.`;
      },
    });
    const runner = client.beta.messages.toolRunner({
      model,
      max_tokens: 3_000,
      stream,
      tools: [weather],
      thinking: { type: 'enabled', budget_tokens: 1_024 },
      messages: [{ role: 'user', content: 'Where to go?' }],
    });
    const message = await runner.runUntilDone();
    expect(message).toMatchObject({
      stop_reason: 'end_turn',
      content: [
        { type: 'thinking', thinking: 'Cold there.' },
        { type: 'text', text: 'Take a coat.' },
      ],
    });
    expect(asked).toEqual(['Oslo']);
    expect(JSON.stringify(upstream.requests[1])).toContain('It rains in Oslo.');
  });

  it('the AI SDK generates and streams with tools and reasoning', async () => {
    const provider = createAnthropic({
      baseURL: 'http://127.0.0.1:4100/v1',
      apiKey: 'unused',
      fetch: fetchFrom(gateway),
    });
    const settings = {
      model: provider(model),
      tools: {
        weather: tool({ inputSchema: city, execute: async input => `It rains in ${input.city}.` }),
      },
      stopWhen: stepCountIs(5),
      providerOptions: { anthropic: { thinking: { type: 'enabled' as const, budgetTokens: 1_024 } } },
      maxOutputTokens: 2_000,
      maxRetries: 0,
    };
    upstream.play(CALL, ANSWER);
    const generated = await generateText({ ...settings, prompt: 'Where to go?' });
    expect(generated).toMatchObject({ text: 'Take a coat.', finishReason: 'stop' });
    expect(generated.steps.map(({ reasoningText }) => reasoningText)).toEqual([
      'I look it up.',
      'Cold there.',
    ]);
    expect(generated.steps[0]?.toolResults).toMatchObject([{ output: 'It rains in Oslo.' }]);
    upstream.play(CALL, ANSWER);
    const streamed = streamText({ ...settings, prompt: 'Where to go?' });
    expect(await streamed.text).toBe('Take a coat.');
    expect(await streamed.reasoningText).toBe('Cold there.');
    expect((await streamed.steps).map(({ text }) => text)).toEqual(['One moment.', 'Take a coat.']);
  });
});

describe('countTokens', () => {
  const messages = [{ role: 'user' as const, content: 'How long is this?' }];

  it('returns Anthropic’s own count', async () => {
    upstream.play();
    expect(await client.messages.countTokens({ model: UPSTREAMS.anthropic, messages })).toEqual({
      input_tokens: 17,
    });
    expect(upstream.requests).toMatchObject([{ messages: [{ role: 'user' }] }]);
  });

  it('estimates where the provider does not count, and starts no run', async () => {
    upstream.play();
    const { input_tokens } = await client.messages.countTokens({ model: UPSTREAMS.chat, messages });
    expect(input_tokens).toBeGreaterThan(3);
    expect(input_tokens).toBeLessThan(30);
    expect(upstream.requests).toEqual([]);
  });

  it('refuses an invalid request in Anthropic’s envelope', async () => {
    await expect(client.messages.countTokens({ model: UPSTREAMS.chat, messages: [] })).rejects.toMatchObject({
      status: 400,
      error: { type: 'error', error: { type: 'invalid_request_error' } },
    });
  });
});

/** A member that the API takes and the SDK's types no longer have. */
const TOP_K = { top_k: 7 };

describe('what only Anthropic has', () => {
  it('goes to a model of Anthropic as the client sent it', async () => {
    upstream.play(ANSWER);
    const thinking = { type: 'enabled' as const, budget_tokens: 1_500 };
    await client.messages.create({
      model: UPSTREAMS.anthropic,
      max_tokens: 4_000,
      thinking,
      stop_sequences: ['END'],
      metadata: { user_id: 'u'.repeat(100) },
      service_tier: 'standard_only',
      system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral', ttl: '1h' } }],
      messages: [{ role: 'user', content: 'hi' }],
    });
    expect(upstream.requests).toMatchObject([
      {
        max_tokens: 4_000,
        thinking,
        stop_sequences: ['END'],
        service_tier: 'standard_only',
        metadata: { user_id: 'u'.repeat(100) },
        system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral', ttl: '1h' } }],
      },
    ]);
  });

  it('and the model does not take is refused with its name, as the provider would', async () => {
    upstream.play(ANSWER);
    const asked = client.messages.create({
      model: UPSTREAMS.anthropic,
      max_tokens: 4_000,
      thinking: { type: 'enabled', budget_tokens: 1_500 },
      ...TOP_K,
      messages: [{ role: 'user', content: 'hi' }],
    });
    await expect(asked).rejects.toMatchObject({ status: 400, message: expect.stringContaining('top_k (7)') });
    expect(upstream.requests).toEqual([]);
  });

  it('that other providers have too goes under their names', async () => {
    upstream.play(ANSWER);
    await client.messages.create({
      model: UPSTREAMS.gemini,
      max_tokens: 9,
      ...TOP_K,
      stop_sequences: ['END'],
      messages: [{ role: 'user', content: 'hi' }],
    });
    expect(upstream.requests).toMatchObject([{ generationConfig: { topK: 7, stopSequences: ['END'] } }]);
  });
});

it('thinking that Anthropic itself has signed goes back to a model of Anthropic', async () => {
  upstream.play(ANSWER);
  const signed = { type: 'thinking' as const, thinking: 'Hm.', signature: 'EqQBCgIYAg==' };
  await client.messages.create({
    model: UPSTREAMS.anthropic,
    max_tokens: 4_000,
    messages: [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: [signed, { type: 'text', text: 'Hi.' }] },
      { role: 'user', content: 'And?' },
    ],
  });
  expect(upstream.requests).toMatchObject([{ messages: [{}, { content: [signed, { text: 'Hi.' }] }, {}] }]);
});
