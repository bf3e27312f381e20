import { describe, expect, test } from 'vitest';
import { KEEP_ALIVE_COMMENT } from '../../../../engine/events/streamed-body.ts';
import type { Store } from '../../../../protocol/store.ts';
import { memory } from '../../../../stores/memory.ts';
import {
  countTo,
  DONE,
  idsOf,
  makeApp,
  parseEvents,
  type TestApp,
} from '../../../support/server/runs-app.ts';

const ENTRIES = 2_000;
const SECRET = 'the secret word is mellon';

async function lengthen(store: Store, runId: string): Promise<void> {
  const { seq = 0 } = (await store.get(runId)) ?? {};
  const noted = { type: 'run.noted' as const, at: 1, by: 'test', note: 'x'.repeat(300) };
  const events = Array.from({ length: ENTRIES - seq }, () => noted);
  await store.append(runId, { after: seq, input: true }, events, { status: 'finished' });
}

/** Without keep-alive comments, which a reader that waits long gets too. */
async function readAll({ send }: TestApp, path: string): Promise<string> {
  return (await (await send('GET', path)).text()).replaceAll(KEEP_ALIVE_COMMENT, '');
}

/** A reader that keeps a run open, and reads on later. */
async function holdOpen({ send }: TestApp, path: string): Promise<ReadableStreamDefaultReader<Uint8Array>> {
  const { body } = await send('GET', path);
  if (body === null) throw new Error('no body');
  const reader = body.getReader();
  for (let parts = 0; parts < 2; parts += 1) await reader.read();
  return reader;
}

async function readRest(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  for (let read = await reader.read(); !read.done; read = await reader.read())
    text += decoder.decode(read.value);
  return text;
}

async function makeLongRun() {
  const store = memory();
  let reads = 0;
  const { read } = store;
  store.read = async (...asked) => {
    const entries = await read.apply(store, asked);
    if (entries.length > 0) reads += 1;
    return entries;
  };
  const desk = makeApp({ turns: [DONE], store });
  const { runId } = await desk.begin({ input: SECRET });
  await lengthen(store, runId);
  const reset = () => {
    reads = 0;
  };
  return { store, desk, runId, path: `/runs/${runId}/events`, reset, reads: () => reads };
}

describe('many readers of a run', () => {
  test('cause one read of each page of its journal, and get the same bytes', async () => {
    const { desk, path, reads, reset } = await makeLongRun();
    reset();
    const alone = await readAll(desk, path);
    const once = reads();
    reset();
    const texts = await Promise.all(Array.from({ length: 50 }, () => readAll(desk, path)));
    expect(reads()).toBeLessThanOrEqual(once + 1);
    expect(new Set([...texts, alone]).size).toBe(1);
    expect(idsOf(parseEvents(alone))).toEqual(countTo(ENTRIES));
  });

  test('let the server answer other requests while they catch up', async () => {
    const { desk, path } = await makeLongRun();
    let done = 0;
    const readers = Promise.all(
      Array.from({ length: 100 }, async () => {
        await readAll(desk, path);
        done += 1;
      }),
    );
    for (let asked = 0; asked < 20; asked += 1) {
      await new Promise(resolve => setImmediate(resolve));
      expect((await desk.send('GET', '/healthz')).status).toBe(200);
    }
    expect(done).toBe(0);
    await readers;
  });

  test('do not see what another process redacted after they shared it', async () => {
    const { store, desk, path, runId } = await makeLongRun();
    const [slow, slower] = [await holdOpen(desk, path), await holdOpen(desk, path)];
    expect(await readAll(desk, path)).toContain(SECRET);
    await store.redact(runId, { paths: ['/1/input/0/content/0/text'], by: 'ann' });
    const after = await readAll(desk, path);
    expect(after).not.toContain(SECRET);
    expect(idsOf(parseEvents(after))).toEqual(countTo(ENTRIES + 1));
    for (const reader of [slow, slower]) expect(await readRest(reader)).toContain(`id: ${ENTRIES + 1}\n`);
  });

  test('get nothing more of a run that was deleted', async () => {
    const { store, desk, path, runId } = await makeLongRun();
    const [slow, slower] = [await holdOpen(desk, path), await holdOpen(desk, path)];
    await readAll(desk, path);
    await store.delete(runId);
    expect((await desk.send('GET', path)).status).toBe(404);
    for (const reader of [slow, slower]) expect(await readRest(reader)).not.toContain(`id: ${ENTRIES}\n`);
  });
});
