import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { readEvents } from '../../../engine/events/read-events.ts';
import type { RunHappening } from '../../../engine/run/run.ts';
import { memory } from '../../../stores/memory.ts';
import { makeTool } from '../../support/engine/agents.ts';
import { Written } from '../../support/engine/written-run.ts';

const LONG = Array.from({ length: 3_000 }, (_, place) => String(place % 10)).join('');

function seqsOf(happenings: readonly RunHappening[]): number[] {
  return happenings.flatMap(happening => ('seq' in happening ? [happening.seq] : []));
}

describe('a slow reader', () => {
  test('gets every entry once and in order, and the current turn from where it stopped', async () => {
    const run = new Written();
    const reader = readEvents(run.source, { follow: true });
    run.say('Before.', { turn: 1 });
    const read: RunHappening[] = [];
    const take = async () => {
      const { value } = await reader.next();
      if (value) read.push(value);
    };
    await take();
    run.say(LONG, { turn: 2, completes: false });
    for (let taken = 0; taken < 3; taken += 1) await take();
    for (let turn = 3; turn < 6; turn += 1) run.say(LONG, { turn });
    run.say(LONG.slice(0, 50), { turn: 6, completes: false });
    run.ended = true;
    for await (const happening of reader) read.push(happening);
    expect(seqsOf(read)).toEqual(run.journal.map(({ seq }) => seq));
    const last = read.flatMap(event => (event.type === 'text.delta' && event.turn === 6 ? [event.text] : []));
    expect(last.join('')).toBe(LONG.slice(0, 50));
  });

  test('of text gets all of it, each character once', async () => {
    for (const taken of [0, 1, 10, 100]) {
      const read: string[] = [];
      let reader: AsyncIterator<string> | undefined;
      const take = async () => void read.push((await reader?.next())?.value ?? '');
      let rounds = 0;
      const look = makeTool('look', {
        run: async () => {
          rounds += 1;
          for (let count = 0; rounds === 1 && count < taken; count += 1) await take();
        },
      });
      const calls = { toolCalls: [{ name: 'look' }] };
      const words = LONG.replaceAll('0', ' ');
      const model = scripted([{ text: words, ...calls }, { text: 'x', ...calls }, { text: words }]);
      const agent = createAgent({ name: 'a', store: memory(), model, tools: [look] });
      const run = await agent.start('go');
      reader = run.text()[Symbol.asyncIterator]();
      const first = take();
      await run.settled();
      await first;
      for (let step = await reader.next(); step.done !== true; step = await reader.next())
        read.push(step.value);
      expect(read.join('') === `${words}x${words}`, `${taken} taken`).toBe(true);
    }
  });

  test('receives a bounded number of events until it reads again', async () => {
    const run = new Written();
    const { events } = run;
    const subscribe = events.subscribe.bind(events);
    let received = 0;
    events.subscribe = reader =>
      subscribe({
        wake: () => reader.wake(),
        receive: happening => {
          received += 1;
          reader.receive(happening);
        },
      });
    const reader = readEvents(run.source, { follow: true });
    run.say('a', { turn: 1 });
    await reader.next();
    for (let data = 0; data < 30_000; data += 1)
      events.publishDelta({ type: 'tool.progress', callId: 'call_1', data });
    expect(received).toBeLessThan(1_100);
    await reader.return(undefined);
  });
});

test('a reader that takes an event only occasionally gets the whole journal of a run with many turns', async () => {
  const store = memory();
  const text = Array.from({ length: 40 }, (_, n) => `word ${n}`).join(' ');
  const read: RunHappening[] = [];
  let reader: AsyncIterator<RunHappening> | undefined;
  const take = async () => {
    const step = await reader?.next();
    if (step?.done === false) read.push(step.value);
    return step?.done === false;
  };
  let calls = 0;
  const look = makeTool('look', {
    run: async () => {
      calls += 1;
      if (calls % 10 === 0) await take();
    },
  });
  const turns = Array.from({ length: 40 }, () => ({ text, toolCalls: [{ name: 'look' }] }));
  const model = scripted([...turns, { text }]);
  const agent = createAgent({ name: 'a', store, model, tools: [look], limits: { turns: 50 } });
  const run = await agent.start('go');
  reader = run.events()[Symbol.asyncIterator]();
  await take();
  await run.settled();
  while (await take());
  const journal = await store.read(run.id);
  expect(journal.filter(({ event }) => event.type === 'turn.completed')).toHaveLength(41);
  expect(seqsOf(read)).toEqual(journal.map(({ seq }) => seq));
  expect(read.filter(({ type }) => type === 'text.delta').length).toBeLessThan(1_200);
});
