import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { scripted } from '../../../../adapters/scripted.ts';
import { createAgent } from '../../../../agent/agent.ts';
import { isJsonObject, type JsonObject } from '../../../../protocol/json.ts';
import { sqlite } from '../../../../stores/sqlite.ts';
import { fetchFrom } from '../../../support/messages/client.ts';
import { GATE, GatedProvider } from '../../../support/responses/gated-provider.ts';
import { fastHost, Gateway } from '../../../support/responses/gateway.ts';
import { makeFile } from '../../../support/stores/make-file.ts';
import { makeDisk } from '../../../support/stores/sqlite-disk.ts';

const disk = makeDisk();
let provider: GatedProvider;
let gateway: Gateway;

beforeAll(async () => {
  provider = await GatedProvider.listen();
  const store = sqlite(makeFile());
  const desk = createAgent({ name: 'desk', store, model: scripted([{ text: 'Hello.' }]) });
  gateway = new Gateway({}, { host: fastHost, store, agents: new Map([['desk', desk]]) });
});
beforeEach(() => {
  vi.stubEnv('OPENAI_BASE_URL', provider.url);
  vi.stubEnv('OPENAI_API_KEY', 'sk-test');
});
afterAll(async () => {
  disk.restore();
  await gateway.close();
  await provider.close();
});

/** Fills many pages of the file. */
const LONG = 'long '.repeat(40_000);
const model = 'openai-chat:any';

const APIS = {
  Responses: (content: string) => ({ path: '/v1/responses', body: { model, input: content } }),
  'Chat Completions': (content: string) => ({
    path: '/v1/chat/completions',
    body: { model, messages: [{ role: 'user', content }] },
  }),
  Messages: (content: string) => ({
    path: '/v1/messages',
    body: { model, max_tokens: 100, messages: [{ role: 'user', content }] },
  }),
  runs: (content: string) => ({ path: '/runs', body: { input: content } }),
};
type Api = keyof typeof APIS;

async function ask(api: Api, content: string, more: JsonObject = {}): Promise<Response> {
  const { path, body } = APIS[api](content);
  return await fetchFrom(gateway)(`http://127.0.0.1:4100${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...body, ...more }),
  });
}

/** The code of an error, where the API has it. */
function codeIn(error: unknown): unknown {
  const { code, details } = isJsonObject(error) ? error : {};
  return isJsonObject(details) && 'error_code' in details ? details.error_code : code;
}

function readReady() {
  return fetchFrom(gateway)('http://127.0.0.1:4100/readyz');
}

/** Asks, and fills the disk while the model answers, so that its answer cannot be committed. */
async function askWhileFilling(api: Api, more: JsonObject): Promise<Response> {
  provider.play(['one ', GATE, LONG]);
  const answered = ask(api, 'go', more);
  await expect.poll(() => provider.requests).toBe(1);
  disk.fill();
  provider.open();
  return await answered;
}

/** The id of the response that an error names, with which its client finds it. */
function namedIn({ message }: JsonObject): string {
  return /GET \/v1\/responses\/(resp_\w+)/.exec(String(message))?.[1] ?? '';
}

async function expectContinued(id: string): Promise<void> {
  expect((await gateway.get(id)).status).toBe('in_progress');
  expect((await readReady()).status).toBe(503);
  disk.empty();
  expect((await readReady()).status).toBe(200);
  await gateway.app.pickUp();
  await expect.poll(async () => (await gateway.get(id)).status).toBe('completed');
  expect((await gateway.get(id)).output).toMatchObject([{ content: [{ text: `one ${LONG}` }] }]);
}

async function readBrokenOff(answer: Response): Promise<JsonObject> {
  const text = await answer.text();
  expect(text).not.toMatch(/response\.(failed|completed|incomplete)|message_stop|finish_reason":"/);
  const frames = text.split('\n\n').filter(frame => frame.includes('data: {'));
  const { error } = JSON.parse(frames.at(-1)?.split('data: ').at(-1) ?? '');
  expect(codeIn(error)).toBe('store_full');
  return error;
}

describe('a disk that fills up during a stored response', () => {
  it('breaks the stream off with an error that says where the answer will be, and it is there later', async () => {
    const error = await readBrokenOff(await askWhileFilling('Responses', { stream: true }));
    await expectContinued(namedIn(error));
  });

  it('is a 503 for a request without a stream, which clients do not repeat', async () => {
    const answer = await askWhileFilling('Responses', {});
    const { error } = (await answer.json()) as { error: JsonObject };
    expect([answer.status, codeIn(error)]).toEqual([503, 'store_full']);
    expect(answer.headers.get('retry-after')).toBe('5');
    expect(answer.headers.get('x-should-retry')).toBe('false');
    await expectContinued(namedIn(error));
  });
});

/** The newest run has ended with its request once there is room. */
async function expectEnded(): Promise<void> {
  disk.empty();
  await gateway.app.pickUp();
  const newest = async () => (await gateway.store.list({ limit: 1 })).runs[0];
  await expect.poll(async () => (await newest())?.status).toBe('cancelled');
  expect(provider.requests).toBe(1);
}

describe.each(['Chat Completions', 'Messages'] as const)(
  'a disk that fills up during an answer of %s',
  api => {
    it('breaks the stream off, and nothing of it continues', async () => {
      const error = await readBrokenOff(await askWhileFilling(api, { stream: true }));
      expect(error.message).toContain('nothing of it continues');
      await expectEnded();
    });

    it('is a 503 for a request without a stream, which clients repeat', async () => {
      const answer = await askWhileFilling(api, {});
      const { error } = (await answer.json()) as { error: JsonObject };
      expect([answer.status, codeIn(error)]).toEqual([503, 'store_full']);
      expect(answer.headers.get('retry-after')).toBe('5');
      expect(answer.headers.get('x-should-retry')).toBeNull();
      await expectEnded();
    });
  },
);

it('a full disk refuses a request on every API as one error, until there is room', async () => {
  disk.fill();
  for (const api of Object.keys(APIS) as Api[]) {
    const answer = await ask(api, LONG);
    const { error } = (await answer.json()) as { error: JsonObject };
    const code = api === 'runs' ? 'store-full' : 'store_full';
    expect([api, answer.status, codeIn(error)]).toEqual([api, 503, code]);
    expect(answer.headers.get('retry-after')).toBe('5');
    expect(answer.headers.get('x-should-retry')).toBeNull();
  }
  const ready = await readReady();
  expect(ready.status).toBe(503);
  expect(await ready.json()).toMatchObject({ error: { code: 'store-full' } });
  disk.empty();
  expect((await readReady()).status).toBe(200);
  expect((await ask('runs', LONG)).status).toBe(201);
});
