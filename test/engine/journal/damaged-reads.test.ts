import { expect, test } from 'vitest';
import { readImage } from '../../../engine/journal/load-run.ts';
import { readFromStart } from '../../../engine/journal/read-journal.ts';
import { findBlobFaults, RunBlobs } from '../../../engine/journal/run-blobs.ts';
import type { JournalEntry } from '../../../protocol/event.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { watchStore } from '../../support/engine/watched-store.ts';
import { makeConfig, makeStarted } from '../../support/machines/builders.ts';

const RUN = 'run';

const MESSAGE: JournalEntry = {
  seq: 1,
  event: { type: 'message.received', at: 1, items: [userMessage('hello')] },
};

const STATE = { chart: {}, context: {}, value: 'finished', status: 'done' };

test.each<[string, JsonValue]>([
  ['no object', 'x'],
  ['an object without a state', { format: 1 }],
  ['a state without a format', { state: STATE }],
  ['a state that is no object', { format: 1, state: 1 }],
  ...Object.keys(STATE).map((missing): [string, JsonValue] => [
    `a state without ${missing}`,
    { format: 1, state: Object.fromEntries(Object.entries(STATE).filter(([name]) => name !== missing)) },
  ]),
])('a snapshot that is %s is damaged', (_, image) => {
  expect(() => readImage(image, RUN)).toThrow(expect.objectContaining({ code: 'journal-damaged' }));
  expect(readImage({ format: 1, state: STATE }, RUN)).toEqual({ format: 1, state: STATE });
});

test('a journal whose first entry is not the start of its run is damaged', async () => {
  const store: Store = {
    ...watchStore(memory(), {}),
    read: async (_, after) => (after === 0 ? [MESSAGE] : []),
  };
  await expect(readFromStart(store, RUN, 'Fork it')).rejects.toMatchObject({ code: 'journal-damaged' });
});

test('a result beside the journal has a fault if the store lacks it, or has another text', async () => {
  const inner = memory();
  await inner.create(makeStarted(makeConfig()));
  const texts = new Map<string, string>();
  const store: Store = {
    ...watchStore(inner, {}),
    putBlob: (runId, digest, text) => inner.putBlob(runId, digest, texts.get(text) ?? text),
  };
  const blobs = new RunBlobs({ store, host: new ManualHost(), runId: RUN });
  texts.set('"changed"', '"other"');
  const [intact, changed] = [await blobs.capture('intact'), await blobs.capture('changed')];
  const absent = { digest: '0'.repeat(64), bytes: 9 };
  const entries = [intact, changed, absent, changed].map(
    (blob, index): JournalEntry => ({
      seq: index + 2,
      event: {
        type: 'tool.settled',
        at: 1,
        generation: 1,
        callId: `call_${index}`,
        output: 'cut',
        isError: false,
        blob,
      },
    }),
  );
  const faults = await findBlobFaults(entries, blob => blobs.findFault(blob));
  expect([...faults]).toEqual([
    [3, 'names a result that is damaged: its hash differs'],
    [4, 'names a result of 9 bytes that is not in the store'],
    [5, 'names a result that is damaged: its hash differs'],
  ]);
});
