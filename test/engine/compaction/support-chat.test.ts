import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import type { RunEvent } from '../../../protocol/event.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { type ChatPart, isRefund, orderOf } from '../../support/engine/support-chat.ts';
import { makeTemporaryFolder } from '../../support/temporary-folders.ts';

const PROGRAM = join(import.meta.dirname, '../../support/engine/support-chat.ts');
const MESSAGES = 200;
const numbers = Array.from({ length: MESSAGES }, (_, at) => at);
const REFUNDS = numbers.filter(isRefund).map(orderOf);

type Part = Omit<ChatPart, 'db' | 'payments'>;

/** Runs each part in a process of its own, and returns what was paid for, and all events of the chat. */
async function chatIn(parts: readonly Part[]) {
  const folder = makeTemporaryFolder('support-chat-');
  const files = { db: join(folder, 'runs.db'), payments: join(folder, 'payments') };
  const deaths: (string | null)[] = [];
  for (const part of parts) {
    const args = ['--no-warnings', PROGRAM, JSON.stringify({ ...files, ...part })];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe'] });
    const errors = text(child.stderr);
    const [code, signal] = await once(child, 'close');
    if (code !== 0 && signal === null) throw new Error(await errors);
    deaths.push(signal);
  }
  const store = sqlite(files.db);
  const events: RunEvent[] = [];
  for (const message of numbers)
    for (const { event } of await store.read(`run_${message}`, 0)) events.push(event);
  await store.close();
  const paid = readFileSync(files.payments, 'utf8').trim().split('\n');
  const compactions = events.filter(({ type }) => type === 'transcript.compacted');
  return { deaths, paid, events, compactions };
}

test('400 messages over three days, two crashes and four compactions refund nothing twice', async () => {
  const order = orderOf(numbers.findLast(isRefund) ?? 0);
  const { deaths, paid, events, compactions } = await chatIn([
    { from: 0, to: 67, dieAt: { compaction: true } },
    { from: 0, to: 67, lateMs: 30_000 },
    { from: 67, to: 134 },
    { from: 134, to: MESSAGES, dieAt: { order } },
    { from: 134, to: MESSAGES, lateMs: 30_000 },
  ]);
  expect(deaths).toEqual(['SIGKILL', null, null, 'SIGKILL', null]);
  expect(paid.toSorted()).toEqual(REFUNDS.toSorted());
  expect(compactions).toHaveLength(4);
  const ended = events.filter(event => event.type === 'turn.completed' && event.finishReason === 'stop');
  expect(ended).toHaveLength(MESSAGES);
  const causes = events.flatMap(event => (event.type === 'turn.completed' ? (event.broken?.by ?? []) : []));
  expect(causes).toEqual(compactions.map(() => 'compaction'));
});

test('without what was done, the same model refunds twice', async () => {
  const { paid } = await chatIn([{ from: 0, to: MESSAGES, repeatable: true }]);
  expect(paid.length).toBeGreaterThan(REFUNDS.length);
});
