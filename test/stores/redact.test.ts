import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/index.ts';
import { replayRun } from '../../engine/replay/replay-run.ts';
import { memory } from '../../stores/memory.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { calls, makeTool } from '../support/engine/agents.ts';
import { makeFile } from '../support/stores/make-file.ts';

const SECRET = 'ann@example.org';

/** The files of a folder that contain the secret. */
function findSecret(folder: string): string[] {
  return readdirSync(folder).filter(name => readFileSync(join(folder, name)).includes(SECRET));
}

async function payIn(store: ReturnType<typeof memory>) {
  const agent = createAgent({
    name: 'desk',
    store,
    model: scripted([calls('pay'), { text: 'Done.' }]),
    tools: [makeTool('pay', { approval: true })],
  });
  const run = await agent.start(`Pay ${SECRET}`, { labels: { user: '7' } });
  await run.settled();
  return { agent, run };
}

describe.each([
  ['memory', () => memory()],
  ['sqlite', () => sqlite(makeFile())],
])('store.redact of %s', (_, makeStore) => {
  test('replaces the values at JSON Pointers; the record shows none of them, and the run continues and replays', async () => {
    const store = makeStore();
    const { agent, run } = await payIn(store);
    const redacted = await store.redact(run.id, { paths: ['/1/input/0/content/0/text'], by: 'eve' });
    expect(redacted).toEqual({ runId: run.id, values: 1, elsewhere: [] });
    expect(JSON.stringify([await store.get(run.id), await store.list()])).not.toContain(SECRET);
    const later = await agent.open(run.id);
    await later.approve('call_0_0');
    expect((await later.settled()).status).toBe('finished');
    expect(await replayRun(store, run.id)).toMatchObject({ equal: true, redacted: 1 });
    expect(JSON.stringify(await store.read(run.id))).not.toContain(SECRET);
    await store.close();
  });

  test('refuses what an open call needs, and paths that lead nowhere', async () => {
    const store = makeStore();
    const { run } = await payIn(store);
    const before = await store.read(run.id);
    const turn = before.find(({ event }) => event.type === 'turn.completed')?.seq;
    const redact = (...paths: string[]) => store.redact(run.id, { paths });
    await expect(redact(`/${turn}/calls/0/input`)).rejects.toMatchObject({ code: 'refused' });
    await expect(redact('/1/labels/user')).rejects.toMatchObject({
      code: 'refused',
      message: expect.stringContaining('opened by its labels. To remove them, delete the run'),
    });
    await expect(redact('/99/text')).rejects.toMatchObject({ code: 'input-invalid' });
    await expect(redact()).rejects.toMatchObject({ code: 'input-invalid' });
    await expect(store.redact(run.id, {} as never)).rejects.toMatchObject({ code: 'input-invalid' });
    await expect(store.redact('none', { paths: ['/1'] })).rejects.toMatchObject({ code: 'run-unknown' });
    expect(await store.read(run.id)).toEqual(before);
    await store.close();
  });
});

test('store.redact of sqlite leaves the value in no file', async () => {
  const file = makeFile();
  const store = sqlite(file);
  const { run } = await payIn(store);
  expect(findSecret(dirname(file))).not.toEqual([]);
  await store.redact(run.id, { paths: ['/1/input/0/content/0/text'] });
  expect(findSecret(dirname(file))).toEqual([]);
  await store.close();
});
