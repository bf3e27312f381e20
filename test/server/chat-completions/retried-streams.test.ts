import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { addUpChunks, complete, postChat, readChunks, streamChat } from '../../support/responses/chat.ts';
import { CutProvider, type CutScript } from '../../support/responses/cut-provider.ts';
import { fastHost, Gateway } from '../../support/responses/gateway.ts';

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

const ASK = { model: 'openai-chat:any', messages: [{ role: 'user', content: 'go' }] };

async function streamed(script: CutScript) {
  provider.play(script);
  return addUpChunks(await streamChat(gateway, ASK));
}

describe('a completion whose provider stream breaks off in the middle of a text', () => {
  it('has the texts of all attempts', async () => {
    const script = { words: ['alpha', 'beta', 'gamma'], cuts: [2] };
    const { message, finishReasons } = await streamed(script);
    expect(message.content).toBe('alpha beta \n\nalpha beta gamma ');
    expect(finishReasons).toEqual(['stop']);
  });

  it('ends with an error if every attempt breaks off', async () => {
    const { message, finishReasons, error } = await streamed({ words: ['a', 'b'], cuts: [1, 0, 1, 1] });
    expect(message.content).toMatch(/^a /);
    expect(finishReasons).toEqual([]);
    expect(error).toMatchObject({ type: 'server_error' });
  });

  it('ends with the unstreamed completion, or fails with the same error, wherever the stream breaks off', async () => {
    const words = fc.array(fc.constantFrom('a', 'be', 'see'), { minLength: 1, maxLength: 5 });
    const cuts = fc.array(fc.nat(6), { maxLength: 4 });
    const outcomes = new Set<string>();
    await fc.assert(
      fc.asyncProperty(words, cuts, async (words, cuts) => {
        provider.play({ words, cuts });
        const begun = await postChat(gateway, { ...ASK, stream: true });
        const failed = begun.status === 200 ? undefined : ((await begun.json()) as { error: object });
        const {
          message,
          finishReasons,
          error = failed?.error,
        } = addUpChunks(failed === undefined ? readChunks(await begun.text()) : []);
        provider.play({ words, cuts });
        outcomes.add(error === undefined ? 'completed' : 'failed');
        if (error !== undefined) {
          const { error: other } = (await (await postChat(gateway, ASK)).json()) as { error: object };
          expect(other).toEqual(error);
          return;
        }
        const [choice] = (await complete(gateway, ASK)).choices;
        expect(choice?.message.content).toBe(message.content?.split('\n\n').at(-1));
        expect(finishReasons).toEqual([choice?.finish_reason]);
      }),
      {
        numRuns: 30,
        examples: [
          [
            ['a', 'b'],
            [1, 0, 1, 1],
          ],
          [['a'], []],
        ],
      },
    );
    expect([...outcomes].sort()).toEqual(['completed', 'failed']);
  });
});
