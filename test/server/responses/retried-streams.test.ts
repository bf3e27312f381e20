import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { type JsonObject, toJson } from '../../../protocol/json.ts';
import { addUp } from '../../support/responses/add-up.ts';
import { CutProvider } from '../../support/responses/cut-provider.ts';
import { endOf, fastHost, Gateway, typesOf } from '../../support/responses/gateway.ts';

let provider: CutProvider;
let gateway: Gateway;

beforeAll(async () => {
  provider = await CutProvider.listen();
  gateway = new Gateway({}, { host: fastHost });
});
beforeEach(() => {
  vi.stubEnv('OPENAI_BASE_URL', provider.url);
  vi.stubEnv('OPENAI_API_KEY', 'sk-test');
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await gateway.close();
  await provider.close();
});

const ASK = { model: 'openai-chat:any', input: 'go' };

function textOf({ content }: JsonObject): unknown {
  return (content as JsonObject[]).map(({ text }) => text).join('');
}

describe('a response whose provider stream breaks off in the middle of a text', () => {
  it('equals the sum of its deltas: the text of the failed attempt is an incomplete item', async () => {
    provider.play({ words: ['alpha', 'beta', 'gamma'], cuts: [2] });
    const events = await gateway.stream(ASK);
    const response = endOf(events);
    expect(addUp(events)).toEqual(response.output);
    expect(response.status).toBe('completed');
    expect(response.output.map(item => [item.status, textOf(item)])).toEqual([
      ['incomplete', 'alpha beta '],
      ['completed', 'alpha beta gamma '],
    ]);
  });

  it('is stored with the items of the last attempt only, under their ids in the stream', async () => {
    provider.play({ words: ['alpha', 'beta', 'gamma'], cuts: [1] });
    const response = endOf(await gateway.stream(ASK));
    expect((await gateway.get(response.id)).output).toEqual(response.output.slice(1));
  });

  it('fails with the texts of all attempts if every attempt breaks off', async () => {
    provider.play({ words: ['alpha', 'beta', 'gamma'], cuts: [2, 0, 1, 1] });
    const events = await gateway.stream(ASK);
    const response = endOf(events);
    expect(events.at(-1)?.type).toBe('response.failed');
    expect(addUp(events)).toEqual(response.output);
    expect(response.output.map(item => [item.status, textOf(item)])).toEqual([
      ['incomplete', 'alpha beta '],
      ['incomplete', 'alpha '],
    ]);
  });

  it('can be continued with references to all its items; those of failed attempts are ignored', async () => {
    provider.play({ words: ['alpha', 'beta'], cuts: [1] });
    const { output } = endOf(await gateway.stream(ASK));
    provider.play({ words: ['more'], cuts: [] });
    const input = [
      { role: 'user', content: 'go' },
      ...output.map(({ id }) => ({ type: 'item_reference', id })),
      { role: 'user', content: 'on' },
    ];
    await gateway.create({ ...ASK, input });
    expect(provider.messages.map(({ content }) => content)).toEqual(['go', 'alpha beta ', 'on']);
  });

  it('equals the sum of its events wherever the stream breaks off', async () => {
    const words = fc.array(fc.constantFrom('a', 'be', 'see'), { minLength: 1, maxLength: 5 });
    const cuts = fc.array(fc.nat(6), { maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(words, cuts, async (words, cuts) => {
        provider.play({ words, cuts });
        const events = await gateway.stream(ASK);
        const response = endOf(events);
        expect(addUp(events)).toEqual(response.output);
        expect(typesOf(events).filter(type => /^response\.(completed|failed)$/.test(type))).toHaveLength(1);
        const completed = response.output.filter(({ status }) => status === 'completed');
        expect(toJson((await gateway.get(response.id)).output)).toEqual(completed);
      }),
      { numRuns: 40 },
    );
  });
});

it('penalties reach a provider that has them, and the response shows them', async () => {
  provider.play({ words: ['ok'], cuts: [] });
  const penalties = { presence_penalty: 0.5, frequency_penalty: -1 };
  const response = endOf(await gateway.stream({ ...ASK, ...penalties }));
  expect(provider.body).toMatchObject(penalties);
  expect(response).toMatchObject(penalties);
});
