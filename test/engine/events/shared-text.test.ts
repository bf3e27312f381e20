import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, describe, expect, test } from 'vitest';
import { createAgent } from '../../../agent/index.ts';
import type { RunHappening } from '../../../engine/run/run.ts';
import { ProviderError } from '../../../protocol/error.ts';
import type { DeltaStore, Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { PushedModel } from '../../support/engine/pushed-model.ts';
import { until } from '../../support/server/runs-app.ts';
import { makeTemporaryFolder } from '../../support/temporary-folders.ts';

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

/** One run, driven through one store and followed through another. */
async function begin(open: () => Store) {
  const [first, second] = [open(), open()];
  closing.push(
    () => first.close(),
    () => second.close(),
  );
  const model = new PushedModel();
  const parts = { name: 'teller', model, retry: { baseMs: 1, maxMs: 1 } };
  const run = await createAgent({ ...parts, store: first }).start('go');
  const followed = await createAgent({ ...parts, store: second }).open(run.id);
  const seen: RunHappening[] = [];
  const reading = (async () => {
    for await (const happening of followed.events()) seen.push(happening);
  })();
  const textOf = (attempt: number) =>
    seen.map(one => (one.type === 'text.delta' && one.attempt === attempt ? one.text : '')).join('');
  return { run, followed, model, seen, reading, textOf, second };
}

const STORES: Record<string, () => () => Store> = {
  memory: () => {
    const store = memory();
    return () => store;
  },
  sqlite: () => {
    const file = join(makeTemporaryFolder('deltas'), 'runs.db');
    return () => sqlite(file);
  },
};

describe.each(Object.entries(STORES))(
  'with a store in %s, a process that follows a run',
  (_store, makeOpen) => {
    test('gets text, reasoning and arguments while they stream, once, and then the same journal', async () => {
      const { run, model, seen, reading, textOf, second } = await begin(makeOpen());
      model.push({ type: 'reasoning', text: 'Hm. ' }, { type: 'text', text: 'Once upon ' });
      await until(() => (textOf(1) === 'Once upon ' ? true : undefined));
      model.push({ type: 'text', text: 'a time' });
      await until(() => (textOf(1) === 'Once upon a time' ? true : undefined));
      model.push(
        { type: 'call_started', index: 0, name: 'look', callId: 'c1' },
        { type: 'call_arguments', index: 0, text: '{}' },
      );
      await until(() => seen.find(one => one.type === 'call.delta' && one.text === '{}'));
      model.end('Once upon a time.');
      await run.settled();
      await reading;
      expect(seen.flatMap(one => (one.type === 'reasoning.delta' ? [one.text] : []))).toEqual(['Hm. ']);
      expect(seen.find(one => one.type === 'call.delta')).toMatchObject({
        index: 0,
        callId: 'c1',
        name: 'look',
      });
      expect(seen.flatMap(one => ('seq' in one ? [one.seq] : []))).toEqual(
        (await second.read(run.id)).map(({ seq }) => seq),
      );
      await until(async () =>
        (await second.deltas?.follow(run.id, { now: 0, until: 0 })) === undefined ? true : undefined,
      );
    });

    test('gets the text of the next attempt, not what the failed one said', async () => {
      const { run, model, reading, textOf, seen } = await begin(makeOpen());
      model.push({ type: 'text', text: 'Wrong' });
      await until(() => (textOf(1) === 'Wrong' ? true : undefined));
      model.push(
        new ProviderError('overloaded', {
          code: 'overloaded',
          status: 529,
          retryable: true,
          retryAfterMs: null,
          raw: null,
          provider: 'pushed',
          model: 'pushed',
        }),
        { type: 'text', text: 'Right' },
      );
      await until(() => (textOf(2) === 'Right' ? true : undefined));
      model.end('Right.');
      await run.settled();
      await reading;
      expect(textOf(1)).toBe('Wrong');
      expect(seen.filter(({ type }) => type === 'turn.failed')).toHaveLength(1);
    });
  },
);

test('nothing is written while no one follows the run', async () => {
  const file = join(makeTemporaryFolder('deltas'), 'runs.db');
  const store = sqlite(file);
  const model = new PushedModel();
  const run = await createAgent({ name: 'teller', model, store }).start('go');
  const seen = run.text()[Symbol.asyncIterator]();
  model.push({ type: 'text', text: 'Hello' });
  expect((await seen.next()).value).toBe('Hello');
  model.end('Hello');
  await run.settled();
  await store.close();
  const db = new DatabaseSync(file);
  expect(db.prepare('SELECT count(*) AS rows FROM deltas').get()).toEqual({ rows: 0 });
  db.close();
});

test('a run continues when the store cannot carry its text', async () => {
  const broken: DeltaStore = {
    follow: async () => {
      throw new Error('down');
    },
    save: async () => {
      throw new Error('down');
    },
    clear: async () => {
      throw new Error('down');
    },
  };
  const store = Object.assign(memory(), { deltas: broken });
  const { run, model, reading, seen } = await begin(() => store);
  model.push({ type: 'text', text: 'Hello' });
  model.end('Hello');
  expect(await run.settled()).toMatchObject({ status: 'finished', text: 'Hello' });
  await reading;
  expect(seen.at(-1)).toMatchObject({ type: 'turn.completed' });
});
