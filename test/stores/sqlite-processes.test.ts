import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import type { JournalEntry } from '../../protocol/event.ts';
import { begin, receive, request, testOwner } from '../../stores/conformance/check.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { makeFile } from '../support/stores/make-file.ts';

const script = fileURLToPath(new URL('../support/stores/append-messages.ts', import.meta.url));

function startWriter(file: string, writer: string, count: number): ChildProcess {
  const args = [script, file, 'a', writer, String(count)];
  return spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
}

/** The numbers that `writer` has in the journal, in order. */
function numbersOf(journal: readonly JournalEntry[], writer: string): number[] {
  const texts = journal.flatMap(({ event }) => (event.type === 'message.received' ? event.items : []));
  return texts.flatMap(item => {
    const part = item.type === 'message' ? item.content[0] : undefined;
    const [name, number] = part?.type === 'text' ? part.text.split(' ') : [];
    return name === writer ? [Number(number)] : [];
  });
}

const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

describe('two stores on one file', () => {
  test("see each other's writes immediately", async () => {
    const file = makeFile();
    const [one, two] = [sqlite(file), sqlite(file)];
    await one.create(begin('a'));
    expect(await two.read('a', 1)).toEqual([]);
    await one.append('a', { after: 1, input: true }, [receive('x')], { status: 'waiting' });
    expect(await two.read('a', 1)).toEqual([{ seq: 2, event: receive('x') }]);
    expect((await two.get('a'))?.status).toBe('waiting');
    await Promise.all([one.close(), two.close()]);
  });

  test('append each entry through exactly one of them', async () => {
    const file = makeFile();
    const [one, two] = [sqlite(file), sqlite(file)];
    await one.create(begin('a'));
    for (let after = 1; after <= 20; after += 1) {
      const results = await Promise.all(
        [one, two].map(store =>
          store.append('a', { after, input: true }, [receive('x')], { status: 'running' }),
        ),
      );
      expect(results.map(({ type }) => type).sort()).toEqual(['appended', 'conflict']);
    }
    expect(await two.read('a')).toHaveLength(21);
    await Promise.all([one.close(), two.close()]);
  });

  test('grant the lease to one of them; the other takes it over once it has expired', async () => {
    const file = makeFile();
    const [one, two] = [sqlite(file), sqlite(file)];
    await one.create(begin('a'), request('one'));
    expect(await two.claim('a', request('two'))).toEqual({
      type: 'held',
      owner: testOwner('one'),
      until: 6000,
    });
    expect(await two.claim('a', request('two', { now: 6000 }))).toMatchObject({ type: 'claimed', epoch: 2 });
    const late = await one.append('a', { after: 3, epoch: 1 }, [receive('late')], { status: 'running' });
    expect(late).toEqual({ type: 'superseded' });
    const lost = [{ runId: 'a', epoch: 1 }];
    expect(await one.renew(lost, { now: 98_000, leaseMs: 1000 })).toEqual(lost);
    await Promise.all([one.close(), two.close()]);
  });

  test('keep working when one of them is closed', async () => {
    const file = makeFile();
    const [one, two] = [sqlite(file), sqlite(file)];
    await one.create(begin('a'));
    await two.get('a');
    await one.close();
    const result = await two.append('a', { after: 1, input: true }, [receive('x')], { status: 'running' });
    expect(result).toEqual({ type: 'appended', seq: 2 });
    await two.close();
  });
});

describe('processes on one file', () => {
  test('lose no entry and write none twice, though all create the file and append at the same time', async () => {
    const file = makeFile();
    const writers = ['p', 'q', 'r'];
    const processes = writers.map(writer => startWriter(file, writer, 60));
    const codes = await Promise.all(processes.map(process => once(process, 'exit')));
    expect(codes.map(([code]) => code)).toEqual([0, 0, 0]);
    const journal = await sqlite(file).read('a');
    expect(journal.map(({ seq }) => seq)).toEqual(upTo(181));
    for (const writer of writers) expect(numbersOf(journal, writer)).toEqual(upTo(60));
  });

  test('lose no acknowledged write when they are killed', async () => {
    const file = makeFile();
    const killed = startWriter(file, 'k', 1_000_000);
    let output = '';
    killed.stdout?.on('data', chunk => {
      output += chunk;
      if (output.split('\n').length > 200) killed.kill('SIGKILL');
    });
    await once(killed, 'close');
    const acknowledged = output.split('\n').length - 1;
    const store = sqlite(file);
    const stored = numbersOf(await store.read('a'), 'k');
    expect(acknowledged).toBeGreaterThanOrEqual(200);
    expect(stored.length).toBeGreaterThanOrEqual(acknowledged);
    expect(stored).toEqual(upTo(stored.length));
    const after = stored.length + 1;
    const result = await store.append('a', { after, input: true }, [receive('x')], { status: 'running' });
    expect(result).toEqual({ type: 'appended', seq: after + 1 });
    await store.close();
  });
});
