import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readBatches, readEvents } from '../../../engine/events/read-events.ts';
import {
  DEFAULT_LIMIT,
  ReaderQueue,
  RunEvents,
  type RunHappening,
} from '../../../engine/events/run-events.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import { Written } from '../../support/engine/written-run.ts';

const place = { turn: 1, attempt: 1 };

function say(events: RunEvents, parts: readonly (readonly ['reasoning' | 'text', string])[]): void {
  for (const [type, text] of parts) events.publishDelta({ type: `${type}.delta`, ...place, text });
}

/** The events a reader receives until it waits. */
async function readUntilWaiting(reader: AsyncGenerator<RunHappening>, run: Written): Promise<RunHappening[]> {
  const read: RunHappening[] = [];
  void (async () => {
    for await (const happening of reader) read.push(happening);
  })();
  await run.host.idle();
  return read;
}

function textIn(happenings: readonly RunHappening[]): string {
  return happenings.map(one => (one.type === 'text.delta' ? one.text : '')).join('');
}

describe('the partial text of a turn', () => {
  test('contains reasoning and text in order, with adjacent parts of one type joined', () => {
    const events = new RunEvents('run_1');
    say(events, [
      ['reasoning', 'a'],
      ['reasoning', 'b'],
      ['text', 'c'],
      ['text', 'd'],
      ['reasoning', 'e'],
    ]);
    expect(events.partialText.parts).toEqual([
      { type: 'reasoning.delta', ...place, text: 'ab' },
      { type: 'text.delta', ...place, text: 'cd' },
      { type: 'reasoning.delta', ...place, text: 'e' },
    ]);
  });

  test('has what another agent answers once, even if two relay it, and all readers get it whole', () => {
    const text = 'You owe 5.';
    const cut = fc.tuple(fc.nat({ max: text.length }), fc.nat({ max: text.length }));
    fc.assert(
      fc.property(fc.array(cut), fc.nat(), (cuts, joinsAt) => {
        const events = new RunEvents('run_1');
        const readers: { from: RunHappening[]; queue: ReaderQueue }[] = [];
        const join = () => {
          const queue = new ReaderQueue(events, DEFAULT_LIMIT);
          readers.push({ from: queue.open(), queue });
        };
        join();
        let known = 0;
        for (const [place, [one, other]] of cuts.entries()) {
          if (place === joinsAt % cuts.length) join();
          const [at, end] = [Math.min(one, other, known), Math.max(one, other)];
          const piece = { callId: 'c', source: '1/1', at, text: text.slice(at, end) };
          events.publishDelta({ type: 'answer.delta', ...piece });
          known = Math.max(known, end);
        }
        const said = (happenings: readonly RunHappening[]) =>
          happenings.map(one => (one.type === 'answer.delta' ? one.text : '')).join('');
        expect(said(events.partialText.parts)).toBe(text.slice(0, known));
        for (const { from, queue } of readers)
          expect(said([...from, ...queue.drain()])).toBe(text.slice(0, known));
      }),
    );
  });

  const ends: RunEvent[] = [
    {
      type: 'turn.failed',
      at: 1,
      generation: 1,
      error: { code: 'x', message: 'x' },
      retryable: true,
      startedAt: 1,
    },
    { type: 'run.claimed', at: 1, by: 'another', epoch: 2 },
    { type: 'run.cancelled', at: 1, unsettled: [] },
  ];

  test.each(ends)('is cleared by $type, whichever process wrote it', event => {
    const events = new RunEvents('run_1');
    say(events, [['text', 'a']]);
    events.publishEntry({ seq: 2, event });
    expect(events.partialText.parts).toEqual([]);
  });

  test('is cleared when it is discarded', () => {
    const events = new RunEvents('run_1');
    say(events, [['text', 'a']]);
    events.publishDelta({ type: 'text.discarded', ...place });
    expect(events.partialText.parts).toEqual([]);
  });

  test('is sent to a late reader, followed by the rest, once', async () => {
    const run = new Written();
    run.say('Hello', { turn: 1, completes: false });
    const first = await readUntilWaiting(readEvents(run.source, { follow: true }), run);
    run.stream(', wor', 1);
    await run.host.idle();
    const second = await readUntilWaiting(readEvents(run.source, { follow: true }), run);
    run.stream('ld', 1);
    await run.host.idle();
    expect(textIn(first)).toBe('Hello, world');
    expect(second.filter(({ type }) => type === 'text.delta')).toEqual([
      { type: 'text.delta', ...place, text: 'Hello, wor' },
      { type: 'text.delta', ...place, text: 'l' },
      { type: 'text.delta', ...place, text: 'd' },
    ]);
  });

  test('is sent in full to a slow reader when it restarts under another claim', async () => {
    const run = new Written();
    const reader = readEvents(run.source, { follow: true });
    run.say('Hel', { turn: 1, completes: false });
    for (let taken = 0; taken < 2; taken += 1) await reader.next();
    for (let data = 0; data < 2_000; data += 1)
      run.events.publishDelta({ type: 'tool.progress', callId: 'call_1', data });
    run.append({ type: 'run.claimed', at: 1, by: 'another', epoch: 2 });
    run.stream('Hello', 1);
    const rest = await readUntilWaiting(reader, run);
    expect(textIn(rest)).toBe('Hello');
  });
});

describe('readers', () => {
  test('share one poll of the store while they wait', async () => {
    const run = new Written();
    for (let count = 0; count < 20; count += 1)
      await readUntilWaiting(readEvents(run.source, { follow: true }), run);
    const before = run.looks;
    await run.host.advance(1_000);
    expect(run.looks - before).toBe(10);
  });

  test('get every delta since they asked first, however long they wait for their turn', async () => {
    const run = new Written();
    run.append({ type: 'text.started', at: 1, generation: 1 });
    const reader = readEvents(run.source, { after: 1, follow: true });
    const first = reader.next();
    run.events.publishDelta({ type: 'tool.progress', callId: 'call_1', data: 'at once' });
    expect((await first).value).toMatchObject({ data: 'at once' });
    await reader.return(undefined);
  });

  test('stop polling when they return while waiting', async () => {
    const run = new Written();
    const reader = readEvents(run.source, { follow: true });
    const waiting = reader.next();
    await run.host.idle();
    void reader.return(undefined);
    expect(await waiting).toEqual({ done: true, value: undefined });
    const before = run.looks;
    await run.host.advance(1_000);
    expect(run.looks - before).toBeLessThanOrEqual(1);
  });
});

test('the deltas of one chunk are one batch, although an adapter yields them one after the other', async () => {
  const run = new Written();
  run.append({ type: 'text.started', at: 1, generation: 1 });
  const batches = readBatches(run.source, { follow: true });
  await batches.next();
  const next = batches.next();
  await run.host.idle();
  for (const char of 'a whole chunk') {
    run.stream(char, 1);
    await Promise.resolve();
  }
  const { value = [] } = await next;
  expect(textIn(value)).toBe('a whole chunk');
  await batches.return(undefined);
});
