import { createOpenAI } from '@ai-sdk/openai';
import { OpenAI } from 'openai';
import { describe, expect, it } from 'vitest';
import { aiSdk } from '../../../adapters/ai-sdk.ts';
import { openaiChat } from '../../../adapters/openai-chat.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import { subjects } from '../../support/adapters/fixtures/subjects.ts';
import { calling, rejection, request } from '../../support/adapters/requests.ts';

const LIMITS = { apiKey: 'k', maxResponseBytes: 1_000, idleTimeoutMs: 1_000 };
const direct = Object.entries(subjects).filter(([name]) => name !== 'aiSdk');

async function failureOf(adapter: ModelAdapter) {
  const error = await rejection(adapter.generate(request('hi'), calling()));
  const shown = JSON.stringify([error, String(error), error instanceof Error ? error.stack : '']);
  expect(shown).not.toMatch(/joe|hunter/);
  return error;
}

describe('a base URL with a user name and password', () => {
  it.each(direct)('is rejected before anything is sent, and not shown: %s', async (_name, { open }) => {
    for (const baseURL of [
      'https://joe:hunter-2@host.invalid/v1',
      'https://hunter-2@host.invalid/v1',
      'ftp://joe:hunter-2@host.invalid',
      'joe:hunter-2@host.invalid/v1',
    ]) {
      const fetch = () => Promise.reject(new Error('something was sent'));
      const error = await failureOf(open({ ...LIMITS, baseURL, fetch }));
      expect(error).toMatchObject({ code: 'base-url-invalid', message: expect.stringContaining('headers') });
    }
  });

  it('is not shown in errors of an official client or an AI SDK model', async () => {
    const baseURL = 'https://joe:hunter-2@host.invalid/v1';
    const adapters = [
      openaiChat({ model: 'm', client: new OpenAI({ apiKey: 'k', baseURL }) }),
      aiSdk(createOpenAI({ apiKey: 'k', baseURL }).chat('m')),
    ];
    for (const adapter of adapters) expect(await failureOf(adapter)).toMatchObject({ name: 'ProviderError' });
  });
});
