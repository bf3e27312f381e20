import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { addUp, anthropicOn, post, streamed } from '../../support/messages/client.ts';
import { CutProvider } from '../../support/responses/cut-provider.ts';
import { fastHost, Gateway, hostAt } from '../../support/responses/gateway.ts';

let provider: CutProvider;
let gateway: Gateway;

beforeAll(async () => {
  provider = await CutProvider.listen();
  gateway = new Gateway({}, { host: fastHost, config: () => ({ max_attempts: { [ASK.model]: 3 } }) });
});
beforeEach(() => {
  vi.stubEnv('OPENAI_BASE_URL', provider.url);
  vi.stubEnv('OPENAI_API_KEY', 'sk-test');
});
afterAll(async () => {
  await gateway.close();
  await provider.close();
});

const ASK = {
  model: 'openai-chat:any',
  max_tokens: 100,
  messages: [{ role: 'user' as const, content: 'go' }],
};

describe('a message whose provider stream breaks off in the middle of a text', () => {
  it('has the text of the failed attempt as a block of its own', async () => {
    provider.play({ words: ['alpha', 'beta', 'gamma'], cuts: [2] });
    const message = await anthropicOn(gateway).messages.stream(ASK).finalMessage();
    expect(message).toMatchObject({
      stop_reason: 'end_turn',
      content: [{ text: 'alpha beta ' }, { text: 'alpha beta gamma ' }],
    });
  });

  it('is the sum of its events, and has only the last block when it is not streamed, wherever the stream breaks off', async () => {
    const words = fc.array(fc.constantFrom('a', 'be', 'see'), { minLength: 1, maxLength: 5 });
    const cuts = fc.array(fc.nat(6), { maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(words, cuts, async (words, cuts) => {
        provider.play({ words, cuts });
        const events = await streamed(gateway, ASK).catch(() => []);
        provider.play({ words, cuts });
        const whole = await post(gateway, '/v1/messages', ASK);
        if (events.length === 0) return expect(whole.status).toBeGreaterThanOrEqual(500);
        const sum = addUp(events);
        if (events.at(-1)?.type === 'error') {
          expect(whole.status).toBeGreaterThanOrEqual(500);
          expect(sum).toMatchObject({ stop_reason: null });
        } else {
          const content = (sum.content as object[]).slice(-1);
          expect(whole.body).toEqual({ ...sum, id: whole.body.id, content });
          expect(content).toMatchObject([{ text: `${words.join(' ')} ` }]);
        }
      }),
      { numRuns: 25 },
    );
  });

  it('fails if every attempt breaks off; only a client that got no text may repeat the request', async () => {
    provider.play({ words: ['alpha', 'beta'], cuts: [1, 1, 1, 1, 1] });
    const events = await streamed(gateway, ASK);
    expect(events.at(-1)).toMatchObject({ type: 'error', error: { type: 'api_error' } });
    provider.play({ words: ['alpha', 'beta'], cuts: [1, 1, 1, 1, 1] });
    const { status, headers } = await post(gateway, '/v1/messages', ASK);
    expect([status, headers.get('x-should-retry')]).toEqual([529, null]);
  });
});

it('a failure before any output can be retried by the client', async ({ onTestFinished }) => {
  // Time enough for all attempts, before the answer begins because nothing was heard for 15 s.
  const gateway = new Gateway({}, { host: hostAt(10), config: () => ({ max_attempts: { [ASK.model]: 3 } }) });
  onTestFinished(() => gateway.close());
  provider.play({ words: ['alpha'], cuts: [0, 0, 0, 0, 0] });
  const { status, headers, body } = await post(gateway, '/v1/messages', ASK);
  expect([status, headers.get('x-should-retry')]).toEqual([529, null]);
  expect(body).toMatchObject({ error: { type: 'overloaded_error' } });
  provider.play({ words: ['alpha'], cuts: [0, 0, 0, 0, 0] });
  const again = await post(gateway, '/v1/messages', { ...ASK, stream: true });
  expect([again.status, again.headers.get('x-should-retry')]).toEqual([529, null]);
});
