import assert from 'node:assert/strict';
import type { RunEvent } from '../../protocol/event.ts';
import type { JsonValue } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';
import {
  begin,
  type Checks,
  checksOf,
  DIGEST,
  OTHER_DIGEST,
  RUNNING,
  receive,
  rejectsWith,
  request,
  say,
  settleAll,
  testOwner,
} from './check.ts';

const MEGABYTE = 1024 * 1024;
const STRANGE_TEXT = 'é 漢字 👩‍👩‍👧 "quotes" back\\slash new\nline \u2028 nul\0nul \ud800 lone \udc00';

const turn: RunEvent = {
  type: 'turn.completed',
  at: 2000.5,
  generation: 3,
  provider: 'scripted',
  model: 'one',
  finishReason: 'tool_calls',
  text: '',
  items: [
    { type: 'reasoning', id: 'r', text: 'hm', opaque: { provider: 'scripted', data: { signature: 'ab==' } } },
    { type: 'tool_call', id: 'c', callId: 'call', name: 'refund', arguments: '{"cents": 1e2}' },
  ],
  calls: [
    {
      callId: 'call',
      name: 'refund',
      input: { cents: 100, '2': null, '1': [true, { nested: [] }], ['__proto__']: 'own' },
      digest: 'd',
      sideEffect: 'once',
      reconcilable: false,
      executedBy: 'engine',
      gate: true,
    },
  ],
  usage: {
    inputTokens: 5,
    outputTokens: 7,
    cachedInputTokens: null,
    cacheWriteTokens: null,
    reasoningTokens: 0,
  },
  startedAt: 1500,
};

/** Longer than any part into which a store may divide it, with characters of one to four bytes. */
const BLOB = JSON.stringify('aé漢👩'.repeat(100_000));
const BYTES = Buffer.from(BLOB);

/** Checks of the content of a run `a`, which has its first entry. */
export const contentChecks = checksOf(store => store.create(begin('a')), {
  'an event is read as appended, with its keys in the same order': async store => {
    await store.append('a', { after: 1, epoch: 0 }, [turn], RUNNING);
    const event = (await store.read('a', 1))[0]?.event;
    assert.deepEqual(event, turn);
    assert.equal(JSON.stringify(event), JSON.stringify(turn));
  },
  'any text is read as written, in events, ids and names': async store => {
    const runId = `run ${STRANGE_TEXT}`;
    const item = say(STRANGE_TEXT, `item ${STRANGE_TEXT}`);
    const continues = `older ${STRANGE_TEXT}`;
    const agent = { name: `agent ${STRANGE_TEXT}` };
    const event = begin(runId, { agent, continues, input: [item] });
    await store.create(event, request(STRANGE_TEXT));
    assert.deepEqual((await store.read(runId))[0]?.event, event);
    const record = await store.get(runId);
    assert.deepEqual([record?.runId, record?.agent, record?.continues], [runId, agent.name, continues]);
    assert.deepEqual(record?.owner, testOwner(STRANGE_TEXT));
    await rejectsWith('run-unknown', store.read(`run ${STRANGE_TEXT.toWellFormed()}`));
  },
  'an output of ten megabytes is read in full': async store => {
    const output: JsonValue = { body: 'ab"\n漢'.repeat((10 * MEGABYTE) / 5), after: 1 };
    await store.append('a', { after: 1, epoch: 0 }, [settleAll('call', output)], RUNNING);
    const event = (await store.read('a', 1))[0]?.event;
    assert.ok(event?.type === 'tool.settled');
    assert.deepEqual(event.output, output);
  },
  'changing an appended or returned event does not change the journal': async store => {
    const event = begin('b');
    await store.create(event);
    event.input.push(say('changed'));
    const [read] = await store.read('b');
    assert.deepEqual(read?.event, begin('b'));
    if (read?.event.type === 'run.started') read.event.input.length = 0;
    assert.deepEqual(await store.read('b'), [{ seq: 1, event: begin('b') }]);
  },
  'changing a record, a lease or a snapshot does not change the store': async store => {
    const claim = request('one');
    const state = { value: 'deciding' };
    await store.create(begin('b'), claim);
    await store.saveSnapshot('b', { seq: 2, state });
    claim.owner.id = 'changed';
    state.value = 'changed';
    const record = await store.get('b');
    if (record?.owner !== undefined) record.owner.host = 'changed';
    const held = await store.claim('b', request('two'));
    if (held.type === 'held') held.owner.host = 'changed';
    assert.deepEqual((await store.get('b'))?.owner, testOwner('one'));
    assert.deepEqual(await store.loadSnapshot('b'), { seq: 2, state: { value: 'deciding' } });
  },
  'an event that could not be read back is rejected before anything is written': async store => {
    const cycle: Record<string, JsonValue> = {};
    cycle.self = cycle;
    for (const event of [receive('x', Number.NaN), receive('x', Infinity), settleAll('call', cycle)]) {
      const append = store.append('a', { after: 1, epoch: 0 }, [event], RUNNING);
      await rejectsWith('input-invalid', append);
    }
    await rejectsWith('input-invalid', store.create(begin('b', { at: Number.NaN })));
    assert.equal((await store.read('a')).length, 1);
    assert.equal(await store.get('b'), undefined);
  },
});

function bytesOf(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text));
}

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

export const blobChecks = checksOf(store => store.create(begin('a')), {
  'a blob is read as written, in pages of any length': async store => {
    await store.putBlob('a', DIGEST, BLOB);
    for (const length of [65_536, 100_001, 10 * BYTES.length]) {
      assert.ok((await readAll(store, 'a', DIGEST, length)).equals(BYTES));
    }
    const middle = await store.readBlob('a', DIGEST, 65_530, 20);
    assert.deepEqual(middle, new Uint8Array(BYTES.subarray(65_530, 65_550)));
  },
  'a page after the end of a blob is empty, and so is a page of length 0': async store => {
    await store.putBlob('a', DIGEST, '"abc"');
    assert.deepEqual(await store.readBlob('a', DIGEST, 3, 100), bytesOf('c"'));
    assert.deepEqual(await store.readBlob('a', DIGEST, 5, 100), new Uint8Array());
    assert.deepEqual(await store.readBlob('a', DIGEST, 1_000_000, 100), new Uint8Array());
    assert.deepEqual(await store.readBlob('a', DIGEST, 0, 0), new Uint8Array());
  },
  'writing a blob again changes nothing': async store => {
    await store.create(begin('b'));
    for (const runId of ['a', 'a', 'b', 'a']) await store.putBlob(runId, DIGEST, BLOB);
    assert.ok((await readAll(store, 'a', DIGEST, BYTES.length)).equals(BYTES));
    assert.ok((await readAll(store, 'b', DIGEST, BYTES.length)).equals(BYTES));
  },
  'a blob belongs only to the run for which it was written': async store => {
    await store.create(begin('b', { continues: 'a' }));
    await store.putBlob('a', DIGEST, BLOB);
    assert.equal(await store.readBlob('b', DIGEST, 0, 10), undefined);
    assert.equal(await store.readBlob('a', OTHER_DIGEST, 0, 10), undefined);
    assert.equal(await store.readBlob('none', DIGEST, 0, 10), undefined);
    await rejectsWith('run-unknown', store.putBlob('none', DIGEST, BLOB));
  },
  'a fork has the blobs that its original had at the time of forking': async store => {
    await store.putBlob('a', DIGEST, BLOB);
    await store.create(begin('fork', { forkOf: { runId: 'a', at: 1 } }));
    await store.putBlob('a', OTHER_DIGEST, '"later"');
    assert.ok((await readAll(store, 'fork', DIGEST, BYTES.length)).equals(BYTES));
    assert.equal(await store.readBlob('fork', OTHER_DIGEST, 0, 10), undefined);
    await store.create(begin('again', { forkOf: { runId: 'fork', at: 1 } }));
    assert.deepEqual(await store.readBlob('again', DIGEST, 0, 3), new Uint8Array(BYTES.subarray(0, 3)));
    await store.create(begin('stranger', { forkOf: { runId: 'none', at: 1 } }));
  },
  'a run is created with its blobs, or not at all': async store => {
    await store.putBlob('a', DIGEST, BLOB);
    const blobs = [
      { digest: DIGEST, text: BLOB },
      { digest: OTHER_DIGEST, text: '"other"' },
    ];
    const rest = { events: [], status: 'running', blobs } as const;
    await store.create(begin('fork', { forkOf: { runId: 'a', at: 1 } }), undefined, rest);
    assert.ok((await readAll(store, 'fork', DIGEST, BYTES.length)).equals(BYTES));
    assert.deepEqual(await store.readBlob('fork', OTHER_DIGEST, 0, 9), bytesOf('"other"'));
    await rejectsWith('run-exists', store.create(begin('a'), undefined, rest));
    assert.equal(await store.readBlob('a', OTHER_DIGEST, 0, 9), undefined);
  },
  'changing a returned page does not change the blob': async store => {
    await store.putBlob('a', DIGEST, '"abc"');
    (await store.readBlob('a', DIGEST, 0, 5))?.fill(0);
    assert.deepEqual(await store.readBlob('a', DIGEST, 0, 5), bytesOf('"abc"'));
  },
});

export const lastingContentChecks: Checks = {
  'a blob and its copy in a fork survive reopening the store': async (store, { reopen }) => {
    await store.create(begin('a'));
    await store.putBlob('a', DIGEST, BLOB);
    await store.create(begin('fork', { forkOf: { runId: 'a', at: 1 } }));
    const later = await reopen();
    for (const runId of ['a', 'fork']) assert.ok((await readAll(later, runId, DIGEST, 65_536)).equals(BYTES));
  },
};

const TEXT = { seq: 3, json: '[{"type":"text.delta","text":"é漢👩"}]' };
const LATER = { seq: 4, json: '[]' };
const TIME = { now: 1_000, until: 11_000 };

async function startedWithDeltas(store: Store) {
  await store.create(begin('a'));
  return store.deltas;
}

/** Checks of the texts of turns in progress. A store without `deltas` passes them. */
export const deltaChecks = checksOf(startedWithDeltas, {
  'a text is kept only while its run has a follower': async (store, deltas) => {
    await store.create(begin('b'));
    assert.equal(await deltas.save('a', TEXT, 1_000), false);
    assert.equal(await deltas.follow('a', TIME), undefined);
    assert.equal(await deltas.save('a', TEXT, 10_999), true);
    assert.equal(await deltas.save('b', TEXT, 2_000), false);
    assert.deepEqual(await deltas.follow('a', TIME), TEXT);
    assert.equal(await deltas.save('a', LATER, 11_000), false);
    assert.deepEqual(await deltas.follow('a', TIME), TEXT);
  },
  'a text replaces the one before it, and following longer keeps it': async (_, deltas) => {
    await deltas.follow('a', TIME);
    await deltas.save('a', TEXT, 2_000);
    assert.deepEqual(await deltas.follow('a', { now: 9_000, until: 19_000 }), TEXT);
    assert.equal(await deltas.save('a', LATER, 18_000), true);
    assert.deepEqual(await deltas.follow('a', { now: 18_000, until: 28_000 }), LATER);
  },
  'a cleared text is gone, and its run is still followed': async (_, deltas) => {
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
    await deltas.follow('a', TIME);
    await deltas.save('a', TEXT, 2_000);
    await store.delete('a');
    await store.create(begin('a'));
    assert.equal(await deltas.follow('a', TIME), undefined);
  },
  'a text leaves the journal and the record of its run alone': async (store, deltas) => {
    const before = [await store.get('a'), await store.read('a')];
    await deltas.follow('a', TIME);
    await deltas.save('a', TEXT, 2_000);
    assert.deepEqual([await store.get('a'), await store.read('a')], before);
  },
});
