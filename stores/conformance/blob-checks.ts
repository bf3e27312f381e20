import assert from 'node:assert/strict';
import type { Store } from '../../protocol/store.ts';
import type { Checks, DurabilityChecks } from './check.ts';
import { begin, rejectsWith } from './samples.ts';

const DIGEST = 'ab'.repeat(32);
const OTHER = 'cd'.repeat(32);
/** Longer than any part into which a store may divide it, with characters of one to four bytes. */
const TEXT = JSON.stringify('aé漢👩'.repeat(100_000));
const BYTES = Buffer.from(TEXT);

async function readAll(store: Store, runId: string, digest: string, length: number): Promise<Buffer> {
  const pages: Uint8Array[] = [];
  let offset = 0;
  while (offset <= BYTES.length) {
    const page = await store.readBlob(runId, digest, offset, length);
    if (page === undefined || page.length === 0) break;
    pages.push(page);
    offset += page.length;
  }
  return Buffer.concat(pages);
}

/** Checks of large results. */
export const blobChecks: Checks = {
  'a blob is read as written, in pages of any length': async store => {
    await store.create(begin('a'));
    await store.putBlob('a', DIGEST, TEXT);
    for (const length of [65_536, 100_001, 10 * BYTES.length]) {
      assert.ok((await readAll(store, 'a', DIGEST, length)).equals(BYTES));
    }
    const middle = await store.readBlob('a', DIGEST, 65_530, 20);
    assert.deepEqual(middle, new Uint8Array(BYTES.subarray(65_530, 65_550)));
  },
  'a page after the end of a blob is empty, and so is a page of length 0': async store => {
    await store.create(begin('a'));
    await store.putBlob('a', DIGEST, '"abc"');
    assert.deepEqual(await store.readBlob('a', DIGEST, 3, 100), new Uint8Array(Buffer.from('c"')));
    assert.deepEqual(await store.readBlob('a', DIGEST, 5, 100), new Uint8Array());
    assert.deepEqual(await store.readBlob('a', DIGEST, 1_000_000, 100), new Uint8Array());
    assert.deepEqual(await store.readBlob('a', DIGEST, 0, 0), new Uint8Array());
  },
  'writing a blob again changes nothing': async store => {
    await store.create(begin('a'));
    await store.create(begin('b'));
    for (const runId of ['a', 'a', 'b', 'a']) await store.putBlob(runId, DIGEST, TEXT);
    assert.ok((await readAll(store, 'a', DIGEST, BYTES.length)).equals(BYTES));
    assert.ok((await readAll(store, 'b', DIGEST, BYTES.length)).equals(BYTES));
  },
  'a blob belongs only to the run for which it was written': async store => {
    await store.create(begin('a'));
    await store.create(begin('b', { continues: 'a' }));
    await store.putBlob('a', DIGEST, TEXT);
    assert.equal(await store.readBlob('b', DIGEST, 0, 10), undefined);
    assert.equal(await store.readBlob('a', OTHER, 0, 10), undefined);
    assert.equal(await store.readBlob('none', DIGEST, 0, 10), undefined);
    await rejectsWith('run-unknown', store.putBlob('none', DIGEST, TEXT));
  },
  'a fork has the blobs that its original had at the time of forking': async store => {
    await store.create(begin('a'));
    await store.putBlob('a', DIGEST, TEXT);
    await store.create(begin('fork', { forkOf: { runId: 'a', at: 1 } }));
    await store.putBlob('a', OTHER, '"later"');
    assert.ok((await readAll(store, 'fork', DIGEST, BYTES.length)).equals(BYTES));
    assert.equal(await store.readBlob('fork', OTHER, 0, 10), undefined);
    await store.create(begin('again', { forkOf: { runId: 'fork', at: 1 } }));
    assert.deepEqual(await store.readBlob('again', DIGEST, 0, 3), new Uint8Array(BYTES.subarray(0, 3)));
    await store.create(begin('stranger', { forkOf: { runId: 'none', at: 1 } }));
  },
  'a run is created with its blobs, or not at all': async store => {
    await store.create(begin('a'));
    await store.putBlob('a', DIGEST, TEXT);
    const blobs = [
      { digest: DIGEST, text: TEXT },
      { digest: OTHER, text: '"other"' },
    ];
    const rest = { events: [], status: 'running', blobs } as const;
    await store.create(begin('fork', { forkOf: { runId: 'a', at: 1 } }), undefined, rest);
    assert.ok((await readAll(store, 'fork', DIGEST, BYTES.length)).equals(BYTES));
    assert.deepEqual(await store.readBlob('fork', OTHER, 0, 9), new Uint8Array(Buffer.from('"other"')));
    await rejectsWith('run-exists', store.create(begin('a'), undefined, rest));
    assert.equal(await store.readBlob('a', OTHER, 0, 9), undefined);
  },
  'changing a returned page does not change the blob': async store => {
    await store.create(begin('a'));
    await store.putBlob('a', DIGEST, '"abc"');
    (await store.readBlob('a', DIGEST, 0, 5))?.fill(0);
    assert.deepEqual(await store.readBlob('a', DIGEST, 0, 5), new Uint8Array(Buffer.from('"abc"')));
  },
};

/** Durability checks of large results. */
export const blobDurabilityChecks: DurabilityChecks = {
  'a blob and its copy in a fork survive reopening the store': async (store, reopen) => {
    await store.create(begin('a'));
    await store.putBlob('a', DIGEST, TEXT);
    await store.create(begin('fork', { forkOf: { runId: 'a', at: 1 } }));
    const later = await reopen();
    for (const runId of ['a', 'fork']) assert.ok((await readAll(later, runId, DIGEST, 65_536)).equals(BYTES));
  },
};
