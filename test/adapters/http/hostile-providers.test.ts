import { describe, expect, it } from 'vitest';
import { replayFetch } from '../../../adapters/conformance.ts';
import { redactText } from '../../../adapters/http/redact-secrets.ts';
import { parseArguments } from '../../../adapters/turn/tool-calls.ts';
import type { ModelTurn } from '../../../protocol/turn.ts';
import { subjects, throughClients } from '../../support/adapters/fixtures/subjects.ts';
import { calling, rejection, request } from '../../support/adapters/requests.ts';

const KEY = 'hostile-test-key-0123456789';
const OPTIONS = {
  apiKey: KEY,
  baseURL: 'http://provider.invalid',
  maxResponseBytes: 64_000_000,
  idleTimeoutMs: 60_000,
};
const JSON_TYPE = { 'content-type': 'application/json' };
const direct = Object.entries({ ...subjects, ...throughClients }).filter(([name]) => name !== 'aiSdk');

describe.each(direct)('%s', (_name, { open }) => {
  it.each([
    ['endless keys', 'sk-'.repeat(400_000)],
    ['one long key', `sk-${'a'.repeat(1_200_000)}`],
    ['stars', `gsk_${'*'.repeat(1_200_000)}`],
    ['a repeated prefix of a key pattern', 'violat'.repeat(200_000)],
  ])('reports a 400 error of more than a million characters: %s', async (_what, message) => {
    for (const body of [message, JSON.stringify({ error: { message: `${message} ${KEY}` } })]) {
      const { fetch } = replayFetch({ status: 400, headers: JSON_TYPE, chunks: [body] });
      const error = await rejection(open({ ...OPTIONS, fetch }).generate(request('hi'), calling()));
      expect(error).toMatchObject({ name: 'ProviderError', status: 400 });
      expect(String(error).length).toBeLessThan(2_000);
      expect(JSON.stringify(error)).not.toContain(KEY);
      expect(JSON.stringify(error)).not.toMatch(/sk-[a-z]{6}/);
    }
  });
});

describe('secret detection', () => {
  it.each([
    'sk-proj-abcdef',
    'sk-***abc',
    'rk-live-123456',
    'xai-0123456789',
    'gsk_abcdefgh1234',
    'gsk_ab*********cd',
    'AIzaSyA0123456789',
    'x-sk-abcdef-sk-ghijkl',
  ])('masks %s', secret => {
    const shown = redactText(`the key ${secret} is wrong`, []);
    expect(shown).toMatch(/^the key (?:x-)?\[redacted\] is wrong$/);
  });

  it.each(['task-force', 'hf_hub_download', 'sk-ip', 'AIza'])('leaves the ordinary word %s', word => {
    expect(redactText(`say ${word} now`, [])).toBe(`say ${word} now`);
  });

  it('shows no part of a secret where a message is cut', async () => {
    const message = `${'x'.repeat(490)} ${KEY}`;
    const { fetch } = replayFetch({
      status: 400,
      headers: JSON_TYPE,
      chunks: [JSON.stringify({ error: message })],
    });
    const adapter = subjects.openaiChat?.open({ ...OPTIONS, fetch });
    const error = await rejection(adapter?.generate(request('hi'), calling()) ?? Promise.resolve());
    expect(String(error)).not.toContain('hostile');
  });
});

const nested = (levels: number) => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`;

describe('arguments nested too deep', () => {
  it('are an error for the model to read, and 200 levels are accepted', () => {
    expect(parseArguments(nested(200))).toHaveProperty('input');
    for (const levels of [201, 5_000, 100_000]) {
      expect(parseArguments(nested(levels))).toEqual({
        error: expect.stringMatching(/nested more than 200 levels deep. Nest them less: \{"a":/),
      });
    }
  });

  const calls: Record<string, string> = {
    anthropic: `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"tool_use","id":"c","name":"act","input":${nested(5_000)}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}`,
    gemini: `{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"act","args":${nested(5_000)}}}]},"finishReason":"STOP"}]}`,
    ollama: `{"model":"m","message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"act","arguments":${nested(5_000)}}}]},"done":true,"done_reason":"stop"}`,
    openaiChat: `{"choices":[{"index":0,"message":{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"act","arguments":${JSON.stringify(nested(5_000))}}}]},"finish_reason":"tool_calls"}]}`,
  };
  it.each(Object.entries(calls))('produce a call that is not run: %s', async (name, body) => {
    const { fetch } = replayFetch({ headers: JSON_TYPE, chunks: [body] });
    const adapter = subjects[name]?.open({ ...OPTIONS, fetch });
    const turn: ModelTurn | undefined = await adapter?.generate(request('hi'), calling());
    expect(turn?.toolCalls).toMatchObject([
      { name: 'act', error: expect.stringContaining('nested more than 200 levels deep') },
    ]);
    expect(turn?.toolCalls[0]).not.toHaveProperty('input');
    expect(JSON.parse(JSON.stringify(turn))).toEqual(turn);
  });
});
