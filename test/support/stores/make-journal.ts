import { DatabaseSync } from 'node:sqlite';
import { expect } from 'vitest';
import type { EngineError } from '../../../protocol/error.ts';
import type { Store } from '../../../protocol/store.ts';
import { begin, receive, say } from '../../../stores/conformance/check.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { makeFile } from './make-file.ts';

/** The error that `work` rejects with; the test fails if it resolves. */
export async function fail(work: Promise<unknown>): Promise<EngineError> {
  return work.then(
    () => expect.unreachable('it did not reject'),
    error => error,
  );
}

/** The file of a closed database with one run "a" of `length` entries. */
export async function makeJournal(length: number): Promise<string> {
  const file = makeFile();
  const store = sqlite(file);
  await store.create(begin('a', { input: [say('hello', 'i0')] }));
  for (let seq = 2; seq <= length; seq += 1) await appendOne(store, seq);
  await store.close();
  return file;
}

/** Appends entry `seq` of about 1.5 KB. */
export async function appendOne(store: Store, seq: number, runId = 'a'): Promise<void> {
  const text = `${seq} ${'text '.repeat(300)}`;
  await store.append(runId, { after: seq - 1, input: true }, [receive(text)], { status: 'running' });
}

/** Changes a database without the store. */
export function change(file: string, sql: string): void {
  const db = new DatabaseSync(file, { enableForeignKeyConstraints: false });
  db.exec(sql);
  db.close();
}
