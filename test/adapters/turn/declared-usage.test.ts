import { afterEach, describe, expect, test, vi } from 'vitest';
import { anthropic } from '../../../adapters/anthropic.ts';
import { azure } from '../../../adapters/azure.ts';
import { gemini } from '../../../adapters/gemini.ts';
import { groq } from '../../../adapters/groq.ts';
import { harmony } from '../../../adapters/harmony.ts';
import { ollama } from '../../../adapters/ollama.ts';
import { openaiChat } from '../../../adapters/openai-chat.ts';
import { openaiResponses } from '../../../adapters/openai-responses.ts';
import { vllm } from '../../../adapters/vllm.ts';

afterEach(() => vi.unstubAllEnvs());

describe('the declared usage', () => {
  test.each([openaiResponses, openaiChat, anthropic, gemini, groq, azure])(
    'of a hosted API is true: %o',
    open => {
      vi.stubEnv('OPENAI_BASE_URL', '');
      expect(open({ model: 'm' }).capabilities.usage).toBe(true);
    },
  );

  test.each([openaiResponses, openaiChat, anthropic, gemini, groq])(
    'of another server with the same API is unknown: %o',
    open => {
      expect(open({ model: 'm', baseURL: 'http://localhost:8000/v1' }).capabilities.usage).toBe('unknown');
    },
  );

  test('follows the base URL of the environment, and not its path', () => {
    vi.stubEnv('OPENAI_BASE_URL', 'http://localhost:8000/v1');
    expect(openaiChat({ model: 'm' }).capabilities.usage).toBe('unknown');
    expect(openaiChat({ model: 'm', baseURL: 'https://api.openai.com/v1/' }).capabilities.usage).toBe(true);
  });

  test.each([ollama, harmony, vllm])('of a model server is unknown: %o', open => {
    expect(open({ model: 'm' }).capabilities.usage).toBe('unknown');
  });
});
