import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { openaiChat } from '../../../adapters/openai-chat.ts';
import { exportRun } from '../../../engine/replay/export-run.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import type { Store } from '../../../protocol/store.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { errorOf, makeApp, type TestApp } from '../../support/server/runs-app.ts';
import { makeFile } from '../../support/stores/make-file.ts';

const KEY = 'a-key-of-no-known-shape';
const PERSON = 'ann@example.org';

/** A provider that fails once, repeats the key in its error, and then streams or returns an answer. */
function answering(finish: () => Response, failures = 0): typeof fetch {
  let left = failures;
  return async () => {
    left -= 1;
    if (left >= 0)
      return Response.json(
        { error: { message: `Overloaded, says ${KEY} and sk-proj-abcdef123456` } },
        { status: 503 },
      );
    return finish();
  };
}

const whole = () =>
  Response.json({
    model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hello.' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  });

const streamed = () => {
  const chunks = ['Hel', 'lo.'].map(content => ({ model: 'm', choices: [{ index: 0, delta: { content } }] }));
  const end = { model: 'm', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] };
  const text = [...chunks, end].map(chunk => `data: ${JSON.stringify(chunk)}\n\n`).join('');
  return new Response(`${text}data: [DONE]\n\n`, { headers: { 'content-type': 'text/event-stream' } });
};

function open(
  fetch: typeof globalThis.fetch,
  store?: Store,
  capture: { capture?: 'requests' } = { capture: 'requests' },
) {
  const model = openaiChat({ model: 'm', apiKey: KEY, baseURL: 'https://provider.test/v1', fetch });
  return makeApp({ model, agent: { ...capture, retry: { baseMs: 1 } }, ...(store && { store }) });
}

const calls = async ({ store }: TestApp, runId: string) =>
  (await store.read(runId)).filter(
    ({ event }) => event.type === 'turn.completed' || event.type === 'turn.failed',
  );

async function read(desk: TestApp, runId: string, seq: number) {
  const response = await desk.send('GET', `/runs/${runId}/entries/${seq}/requests`);
  const text = await response.text();
  return { response, text, exchanges: response.ok ? JSON.parse(text) : null };
}

describe("an agent with capture: 'requests'", () => {
  test.each([
    ['a complete reply', false, whole],
    ['a streamed reply', true, streamed],
  ])('keeps the request and %s, without the key', async (_, stream, finish) => {
    const desk = open(answering(finish));
    const { runId } = await desk.begin({ input: `Greet ${PERSON}`, stream });
    const [entry] = await calls(desk, runId);
    const { response, text, exchanges } = await read(desk, runId, entry?.seq ?? 0);
    expect(response.headers.get('content-disposition')).toContain('attachment');
    expect(exchanges).toEqual([
      { path: '/chat/completions', request: expect.any(String), status: 200, reply: await finish().text() },
    ]);
    expect(JSON.parse(exchanges[0].request)).toMatchObject({
      model: 'm',
      messages: [{ role: 'user', content: `Greet ${PERSON}` }],
    });
    expect(text).not.toContain(KEY);
  });

  test('keeps the reply of a failed call, without the keys that it repeats', async () => {
    const desk = open(answering(whole, 1));
    const { runId } = await desk.begin();
    const [failed, completed] = await calls(desk, runId);
    expect([failed?.event.type, completed?.event.type]).toEqual(['turn.failed', 'turn.completed']);
    const { exchanges } = await read(desk, runId, failed?.seq ?? 0);
    expect(exchanges).toMatchObject([{ status: 503, reply: expect.stringContaining('Overloaded') }]);
    expect(JSON.stringify(await desk.store.read(runId)) + exchanges[0].reply).not.toMatch(
      /known-shape|sk-proj-/,
    );
  });

  test('cuts a reply after a mebibyte', async () => {
    const long = 'x'.repeat(3 * 1024 * 1024);
    const desk = open(
      answering(() => Response.json({ choices: [{ message: { content: long }, finish_reason: 'stop' }] })),
    );
    const { runId } = await desk.begin();
    const [entry] = await calls(desk, runId);
    const { exchanges } = await read(desk, runId, entry?.seq ?? 0);
    expect(exchanges[0].reply).toHaveLength(1024 * 1024);
  });

  test('finishes its run if the capture cannot be stored', async () => {
    const desk = open(answering(whole));
    desk.store.putBlob = () => Promise.reject(new Error('no space'));
    const { runId, status } = await desk.begin();
    expect(status).toBe('finished');
    const [entry] = await calls(desk, runId);
    expect(entry?.event).not.toHaveProperty('captured');
  });

  test('exports its run without what was captured, and the run replays', async () => {
    const desk = open(answering(whole));
    const { runId } = await desk.begin({ input: 'Hello' });
    expect(JSON.stringify(await exportRun(desk.store, runId))).not.toContain('chat/completions');
    expect(await replayRun(desk.store, runId)).toMatchObject({ equal: true });
  });

  test('loses what was captured with the first redaction of its run', async () => {
    const file = makeFile();
    const store = sqlite(file);
    const desk = open(answering(whole), store);
    const { runId } = await desk.begin({ input: `Greet ${PERSON}` });
    const [entry] = await calls(desk, runId);
    await store.redact(runId, { paths: ['/1/input/0/content/0/text'] });
    const files = readdirSync(dirname(file)).map(name => readFileSync(join(dirname(file), name)));
    expect(files.some(bytes => bytes.includes(PERSON))).toBe(false);
    const { response } = await read(desk, runId, entry?.seq ?? 0);
    expect(response.status).toBe(404);
    await store.close();
  });
});

test('an agent captures nothing by default, and the API says so', async () => {
  const desk = open(answering(whole), undefined, {});
  const { runId } = await desk.begin();
  const [entry] = await calls(desk, runId);
  expect(entry?.event).not.toHaveProperty('captured');
  for (const seq of [entry?.seq, 0, 999, 'x']) {
    const error = await errorOf(await desk.send('GET', `/runs/${runId}/entries/${seq}/requests`));
    expect(error).toMatchObject({ status: 404, code: 'result-missing' });
    expect(error.message).toContain("capture: 'requests'");
  }
});
