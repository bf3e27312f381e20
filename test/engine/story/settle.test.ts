import { expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { StoryEvent } from '../../../engine/story/tell-story.ts';
import { memory } from '../../../stores/memory.ts';
import { calls, makeGate, makeTool } from '../../support/engine/agents.ts';
import { watchStore } from '../../support/engine/watched-store.ts';

const ALL = { settle: true } as const;

async function read(story: AsyncIterable<StoryEvent>): Promise<StoryEvent[]> {
  const told: StoryEvent[] = [];
  for await (const event of story) told.push(event);
  return told;
}

test('a story that settles drives the run, and ends with all of the entry at which it rests', async () => {
  const store = memory();
  const options = { name: 'a', store, tools: [makeTool('pay', { approval: true })] };
  const model = scripted([calls('pay'), { text: 'Paid.' }]);
  const begun = await createAgent({ ...options, model }).start('go', { paused: true });
  await begun.settled();
  const run = await createAgent({ ...options, model }).open(begun.id);
  await run.unpause();
  const told = await read(run.story(ALL));
  expect(told.at(-1)).toMatchObject({
    type: 'settled',
    seq: run.durable.seq,
    settled: { status: 'waiting' },
  });
  await run.approve('call_0_0');
  const rest = await read(run.story({ after: run.durable.seq, ...ALL }));
  expect(rest.at(-1)).toMatchObject({ type: 'settled', settled: { status: 'finished', text: 'Paid.' } });
  expect(await read(run.story({ after: run.durable.seq, ...ALL }))).toEqual([]);
});

test('a story that settles waits for the run of a sub-agent, which works while the run rests', async () => {
  const gate = makeGate();
  const pay = makeTool('pay', { approval: true, run: () => gate.promise.then(() => 'paid') });
  const clerk = createAgent({
    name: 'clerk',
    model: scripted([calls('pay'), { text: 'Paid.' }]),
    tools: [pay],
  });
  const agent = createAgent({
    name: 'desk',
    store: memory(),
    model: scripted([calls(['clerk', { input: 'pay' }]), { text: 'All paid.' }]),
    tools: [clerk.asTool({ name: 'clerk', description: 'Pays.' })],
  });
  const run = await agent.start('go');
  const settled = await run.settled();
  if (settled.status !== 'waiting' || settled.approvals[0] === undefined) throw new Error(settled.status);
  await run.approve(settled.approvals[0]);
  const reading = read(run.story(ALL));
  gate.open();
  expect((await reading).at(-1)).toMatchObject({ settled: { status: 'finished', text: 'All paid.' } });
});

test('return() ends a story that waits for the run to settle', async () => {
  const agent = createAgent({
    name: 'a',
    store: memory(),
    model: scripted([calls('wait')]),
    tools: [makeTool('wait', { run: () => new Promise<never>(() => {}) })],
  });
  const run = await agent.start('go');
  const story = run.story(ALL);
  const reading = read(story);
  await story.return(undefined);
  expect((await reading).some(({ type }) => type === 'settled')).toBe(false);
  void run.cancel();
});

test('a story that settles rejects if the run cannot be driven', async () => {
  let isBroken = false;
  const store = watchStore(memory(), {
    before: method => {
      if (isBroken && method !== 'get') throw new Error('the disk is gone');
    },
  });
  const agent = createAgent({ name: 'a', store, model: scripted([{ text: 'Hi.' }]) });
  const run = await agent.start('go', { paused: true });
  await run.settled();
  isBroken = true;
  await expect(read(run.story(ALL))).rejects.toThrow('the disk is gone');
});
