import assert from 'node:assert/strict';
import { checksOf } from './check.ts';
import { begin } from './samples.ts';

const TEXT = { seq: 3, json: '[{"type":"text.delta","text":"é漢👩"}]' };
const LATER = { seq: 4, json: '[]' };
const TIME = { now: 1_000, until: 11_000 };

/** Checks of the texts of turns in progress. A store without `deltas` passes them. */
export const deltaChecks = checksOf(({ deltas }) => deltas, {
  'a text is kept only while its run has a follower': async (store, deltas) => {
    await store.create(begin('a'));
    await store.create(begin('b'));
    assert.equal(await deltas.save('a', TEXT, 1_000), false);
    assert.equal(await deltas.follow('a', TIME), undefined);
    assert.equal(await deltas.save('a', TEXT, 10_999), true);
    assert.equal(await deltas.save('b', TEXT, 2_000), false);
    assert.deepEqual(await deltas.follow('a', TIME), TEXT);
    assert.equal(await deltas.save('a', LATER, 11_000), false);
    assert.deepEqual(await deltas.follow('a', TIME), TEXT);
  },
  'a text replaces the one before it, and following longer keeps it': async (store, deltas) => {
    await store.create(begin('a'));
    await deltas.follow('a', TIME);
    await deltas.save('a', TEXT, 2_000);
    assert.deepEqual(await deltas.follow('a', { now: 9_000, until: 19_000 }), TEXT);
    assert.equal(await deltas.save('a', LATER, 18_000), true);
    assert.deepEqual(await deltas.follow('a', { now: 18_000, until: 28_000 }), LATER);
  },
  'a cleared text is gone, and its run is still followed': async (store, deltas) => {
    await store.create(begin('a'));
    await deltas.clear('a');
    await deltas.follow('a', TIME);
    await deltas.save('a', TEXT, 2_000);
    await deltas.clear('a');
    assert.equal(await deltas.follow('a', TIME), undefined);
    assert.equal(await deltas.save('a', LATER, 2_000), true);
  },
  'an unknown run has no text, and a deleted run loses its text': async (store, deltas) => {
    assert.equal(await deltas.follow('none', TIME), undefined);
    assert.equal(await deltas.save('none', TEXT, 2_000), false);
    await deltas.clear('none');
    await store.create(begin('a'));
    await deltas.follow('a', TIME);
    await deltas.save('a', TEXT, 2_000);
    await store.delete('a');
    await store.create(begin('a'));
    assert.equal(await deltas.follow('a', TIME), undefined);
  },
  'a text leaves the journal and the record of its run alone': async (store, deltas) => {
    await store.create(begin('a'));
    const before = [await store.get('a'), await store.read('a')];
    await deltas.follow('a', TIME);
    await deltas.save('a', TEXT, 2_000);
    assert.deepEqual([await store.get('a'), await store.read('a')], before);
  },
});
