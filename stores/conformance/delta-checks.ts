import assert from 'node:assert/strict';
import type { DeltaStore, Store } from '../../protocol/store.ts';
import type { Check } from './check.ts';
import { begin } from './samples.ts';

const TEXT = { seq: 3, json: '[{"type":"text.delta","text":"é漢👩"}]' };
const LATER = { seq: 4, json: '[]' };
const TIME = { now: 1_000, until: 11_000 };

/** A check of a store that carries texts; a store without `deltas` passes it. */
function check(name: string, run: (deltas: DeltaStore, store: Store) => Promise<void>): Check {
  return {
    name,
    async run(store) {
      if (store.deltas !== undefined) await run(store.deltas, store);
    },
  };
}

/** Checks of the texts of turns in progress. */
export const deltaChecks: readonly Check[] = [
  check('a text is kept only while its run has a follower', async (deltas, store) => {
    await store.create(begin('a'));
    await store.create(begin('b'));
    assert.equal(await deltas.save('a', TEXT, 1_000), false);
    assert.equal(await deltas.follow('a', TIME), undefined);
    assert.equal(await deltas.save('a', TEXT, 10_999), true);
    assert.equal(await deltas.save('b', TEXT, 2_000), false);
    assert.deepEqual(await deltas.follow('a', TIME), TEXT);
    assert.equal(await deltas.save('a', LATER, 11_000), false);
    assert.deepEqual(await deltas.follow('a', TIME), TEXT);
  }),
  check('a text replaces the one before it, and following longer keeps it', async (deltas, store) => {
    await store.create(begin('a'));
    await deltas.follow('a', TIME);
    await deltas.save('a', TEXT, 2_000);
    assert.deepEqual(await deltas.follow('a', { now: 9_000, until: 19_000 }), TEXT);
    assert.equal(await deltas.save('a', LATER, 18_000), true);
    assert.deepEqual(await deltas.follow('a', { now: 18_000, until: 28_000 }), LATER);
  }),
  check('a cleared text is gone, and its run is still followed', async (deltas, store) => {
    await store.create(begin('a'));
    await deltas.clear('a');
    await deltas.follow('a', TIME);
    await deltas.save('a', TEXT, 2_000);
    await deltas.clear('a');
    assert.equal(await deltas.follow('a', TIME), undefined);
    assert.equal(await deltas.save('a', LATER, 2_000), true);
  }),
  check('an unknown run has no text, and a deleted run loses its text', async (deltas, store) => {
    assert.equal(await deltas.follow('none', TIME), undefined);
    assert.equal(await deltas.save('none', TEXT, 2_000), false);
    await deltas.clear('none');
    await store.create(begin('a'));
    await deltas.follow('a', TIME);
    await deltas.save('a', TEXT, 2_000);
    await store.delete('a');
    await store.create(begin('a'));
    assert.equal(await deltas.follow('a', TIME), undefined);
  }),
  check('a text leaves the journal and the record of its run alone', async (deltas, store) => {
    await store.create(begin('a'));
    const before = [await store.get('a'), await store.read('a')];
    await deltas.follow('a', TIME);
    await deltas.save('a', TEXT, 2_000);
    assert.deepEqual([await store.get('a'), await store.read('a')], before);
  }),
];
