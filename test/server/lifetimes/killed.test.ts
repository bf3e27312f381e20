import { afterAll, beforeAll, expect, it } from 'vitest';
import type { JsonObject } from '../../../protocol/json.ts';
import { Desk } from '../../support/cli/desk.ts';
import { GatedProvider, HANG } from '../../support/responses/gated-provider.ts';
import { until } from '../../support/server/runs-app.ts';
import { ServedDesk } from '../../support/server/served-desk.ts';

type Message = { content: { type: string; id?: string }[] };

/** By title: requests that the server was working on when it was killed. */
const INTERRUPTED = {
  'ask Messages': {
    path: '/v1/messages',
    body: { max_tokens: 100, stream: true, ...saying('ask Messages') },
  },
  'ask Chat': { path: '/v1/chat/completions', body: saying('ask Chat') },
  'ask Responses': { path: '/v1/responses', body: { input: 'ask Responses', store: false, stream: true } },
  'ask for later': { path: '/v1/responses', body: { input: 'ask for later', stream: true } },
} as const;
const ENDED = ['ask Messages', 'ask Chat', 'ask Responses'] as const;

let provider: GatedProvider;
let served: ServedDesk;
/** Messages whose calls the client answers: one before the kill, and both after it. */
let answered: Message;
let unanswered: Message;

beforeAll(async () => {
  provider = await GatedProvider.listen();
  const desk = new Desk([]);
  desk.write('gateway.json', JSON.stringify({ models: { any: 'openai-chat:any' }, keep_unstored: true }));
  const start = async () => {
    const environment = { OPENAI_BASE_URL: provider.url, OPENAI_API_KEY: 'sk-test' };
    served = await ServedDesk.start(desk, { args: ['--config', 'gateway.json'] }, environment);
  };
  await start();
  provider.play([{ call: 'look' }], [{ call: 'look' }], [HANG]);
  unanswered = await message(loop('wait'));
  answered = await message(loop('answer'));
  send('/v1/messages', answering('answer', answered));
  for (const { path, body } of Object.values(INTERRUPTED)) send(path, body);
  await provider.asked(3 + Object.keys(INTERRUPTED).length);
  provider.play(['paid once']);
  await served.stop('SIGKILL');
  await start();
});
afterAll(async () => {
  await served.stop();
  await provider.close();
});

function saying(content: string) {
  return { messages: [{ role: 'user', content }] };
}

function loop(content: string) {
  const tools = [{ name: 'look', input_schema: { type: 'object', properties: {} } }];
  return { max_tokens: 100, tools, ...saying(content) };
}

function answering(said: string, { content }: Message) {
  const call = content.find(({ type }) => type === 'tool_use');
  const result = { type: 'tool_result', tool_use_id: call?.id, content: 'a lamp' };
  const { messages } = saying(said);
  return {
    ...loop(said),
    messages: [...messages, { role: 'assistant', content }, { role: 'user', content: [result] }],
  };
}

/** A client that is gone with its server. */
function send(path: string, body: object): void {
  served
    .post(path, { model: 'any', ...body })
    .then(response => response.text())
    .catch(() => {});
}

async function message(body: object): Promise<Message> {
  return (await (await served.post('/v1/messages', { model: 'any', ...body })).json()) as Message;
}

async function read<Body>(path: string): Promise<Body> {
  return (await (await fetch(served.url + path)).json()) as Body;
}

/** The runs with a title, once none of them is running. */
async function runsOf(title: string): Promise<{ runId: string; status: string }[]> {
  return await until(async () => {
    const { runs } = await read<{ runs: { runId: string; title: string; status: string }[] }>('/runs');
    const found = runs.filter(run => run.title === title);
    return found.some(({ status }) => status === 'running') ? undefined : found;
  });
}

it('ends requests that end with their connection, and calls no model for them', async () => {
  for (const title of ENDED) {
    const [run] = await runsOf(title);
    const { entries } = await read<{ entries: JsonObject[] }>(`/runs/${run?.runId}/entries?before=1000`);
    expect(entries.at(-1)).toMatchObject({
      type: 'run.cancelled',
      reason: expect.stringContaining('The client left'),
    });
  }
  expect(await runsOf('ask for later')).toMatchObject([{ status: 'finished' }]);
  // That of the stored response, which continues.
  expect(provider.requests).toBe(1);
});

it('answers a client that asks again, which pays once more and no more', async () => {
  const before = provider.requests;
  const { path, body } = INTERRUPTED['ask Messages'];
  expect(await (await served.post(path, { model: 'any', ...body })).text()).toContain('paid once');
  expect(await message(answering('answer', answered))).toMatchObject({ content: [{ text: 'paid once' }] });
  expect((await runsOf('answer')).map(({ status }) => status).toSorted()).toEqual(['cancelled', 'finished']);
  expect(provider.requests).toBe(before + 2);
});

it('keeps a run that waits for its client, whose next request continues it', async () => {
  expect(await runsOf('wait')).toMatchObject([{ status: 'waiting' }]);
  expect(await message(answering('wait', unanswered))).toMatchObject({ content: [{ text: 'paid once' }] });
  expect(await runsOf('wait')).toMatchObject([{ status: 'finished' }]);
});
