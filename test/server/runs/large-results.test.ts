import { expect, test } from 'vitest';
import * as z from 'zod';
import { tool } from '../../../agent/index.ts';
import { DONE, errorOf, makeApp } from '../../support/server/runs-app.ts';

const WHOLE = { rows: 'é漢👩'.repeat(20_000), tail: 'ends' };

async function finish(given: unknown = WHOLE, maxResultBytes = 10_000) {
  const dump = tool({
    name: 'dump',
    description: 'Much.',
    input: z.object({}),
    maxResultBytes,
    run: () => given,
  });
  const desk = makeApp({ turns: [{ toolCalls: [{ name: 'dump' }] }, DONE], agent: { tools: [dump] } });
  const { runId } = await desk.begin();
  return { ...desk, runId, path: `/runs/${runId}/results/call_0_0` };
}

type Page = { text: string; bytes: number; next?: number; digest?: string };

test('a run and its events show the head, the tail and the digest of a large result', async () => {
  const { send, view, runId } = await finish();
  const { transcript, settled } = await view(runId);
  const item = transcript.find(({ type }) => type === 'tool_result');
  const blob = {
    digest: expect.stringMatching(/^[0-9a-f]{64}$/),
    bytes: Buffer.byteLength(JSON.stringify(WHOLE)),
  };
  expect(item).toMatchObject({ output: expect.stringMatching(/bytes were left out here.*ends"\}$/s), blob });
  expect(settled).toMatchObject({ results: [{ blob }] });
  const events = await (await send('GET', `/runs/${runId}/events`)).text();
  expect(events).toContain(JSON.stringify(blob.bytes));
  expect(Buffer.byteLength(events)).toBeLessThan(40_000);
});

test.each([4, 7, 1000, 65_536])(
  'pages of %s bytes hold complete characters and add up to the full result',
  async limit => {
    const rows = limit < 100 ? 'é漢👩'.repeat(120) : WHOLE.rows;
    const { send, path } = await finish({ rows }, rows.length);
    let [text, offset]: [string, number | undefined] = ['', 0];
    while (offset !== undefined) {
      const response = await send('GET', `${path}?offset=${offset}&limit=${limit}`);
      expect(response.status).toBe(200);
      const page = (await response.json()) as Page;
      expect(Buffer.byteLength(page.text)).toBeLessThanOrEqual(limit);
      expect(page.next ?? offset + 1).toBeGreaterThan(offset);
      text += page.text;
      offset = page.next;
    }
    expect(JSON.parse(text)).toEqual({ rows });
  },
);

test('the page size is limited, and an invalid page is refused', async () => {
  const { send, path } = await finish();
  for (const query of ['limit=0', 'limit=3', 'limit=1048577', 'offset=-1', 'offset=x', 'limit=1e9']) {
    expect((await send('GET', `${path}?${query}`)).status).toBe(400);
  }
  const behind = (await (await send('GET', `${path}?offset=999999999`)).json()) as Page;
  expect(behind).toMatchObject({ text: '' });
  expect(behind.next).toBeUndefined();
});

test('the full result is downloaded as text, and no browser treats it as anything else', async () => {
  const { send, path } = await finish();
  const response = await send('GET', `${path}/download`);
  expect(response.headers.get('content-type')).toBe('text/plain; charset=utf-8');
  expect(response.headers.get('content-disposition')).toContain('attachment');
  expect(response.headers.get('x-content-type-options')).toBe('nosniff');
  expect(await response.json()).toEqual(WHOLE);
});

test('a result that is not large is read the same way', async () => {
  const { send, path } = await finish({ paid: 1 });
  const page = (await (await send('GET', path)).json()) as Page;
  expect(page).toMatchObject({ text: '{"paid":1}', bytes: 10 });
  expect(page.digest).toBeUndefined();
  expect(await (await send('GET', `${path}/download`)).text()).toBe('{"paid":1}');
});

test('the error names an unknown run, call or result', async () => {
  const { send, store, runId, path } = await finish();
  expect(await errorOf(await send('GET', '/runs/none/results/call_0_0'))).toMatchObject({
    status: 404,
    code: 'run-unknown',
  });
  expect(await errorOf(await send('GET', `/runs/${runId}/results/none`))).toMatchObject({
    status: 404,
    code: 'call-unknown',
  });
  store.readBlob = async () => undefined;
  for (const url of [path, `${path}/download`])
    expect(await errorOf(await send('GET', url))).toMatchObject({ status: 404, code: 'result-missing' });
});
