import { expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import type { Run } from '../../../engine/run/run.ts';
import type { StoryEvent } from '../../../engine/story/tell-story.ts';
import { memory } from '../../../stores/memory.ts';
import { calls, makeTool } from '../../support/engine/agents.ts';
import { BACK, BILLING, heard } from '../../support/engine/front-desk.ts';
import { PushedModel } from '../../support/engine/pushed-model.ts';
import { until } from '../../support/server/runs-app.ts';

type Parts = { front?: Partial<AgentOptions>; billing?: Partial<AgentOptions> };

/** A run that was handed to billing, which says what the test pushes. */
async function handOver({ front = {}, billing = {} }: Parts = {}) {
  const model = new PushedModel();
  const store = memory();
  const below = createAgent({
    name: 'billing',
    model,
    tools: [makeTool('look_up'), makeTool('refund', { approval: () => true })],
    ...(billing as object),
  });
  const agent = createAgent({
    name: 'front_desk',
    model: heard([calls(BILLING), { text: 'I am back.' }]).model,
    handoffs: [below],
    store,
    ...(front as object),
  });
  const run = await agent.start('What do I owe?');
  return { agent, store, model, run: run as Run<never> };
}

/** Reads the story of a run, and what it says of the answer: the pieces, and `×` for what was discarded. */
function follow(run: Run<never>, how: { follow?: boolean } = {}) {
  const told: StoryEvent[] = [];
  const reading = (async () => {
    for await (const event of run.story(how)) told.push(event);
  })();
  const said = () =>
    told.flatMap(event => {
      if (event.type === 'answer.text') return [event.text];
      if (event.type === 'answer.discarded') return ['×'];
      return event.type === 'answer.taken' ? [`= ${event.text}`] : [];
    });
  const says = async (words: string[]) => await expect.poll(said).toEqual(words);
  return { told, reading, said, says };
}

const text = (words: string) => ({ type: 'text' as const, text: words });
const callOf = (name: string) => [
  { callId: 'c1', name, arguments: '{}', input: {}, executedBy: 'engine' as const },
];

test('the text of the agent that has the conversation reaches readers while it streams', async () => {
  const { model, run } = await handOver();
  const { says, reading, told } = follow(run);
  model.push(text('You owe '));
  await says(['You owe ']);
  const late = follow(run);
  await late.says(['You owe ']);
  model.push(text('5'));
  await says(['You owe ', '5']);
  model.end('You owe 5.');
  await reading;
  await says(['You owe ', '5', '.', '= You owe 5.']);
  await late.reading;
  expect(late.said().at(-1)).toBe('= You owe 5.');
  expect(told.map(({ type }) => type).slice(-4)).toEqual([
    'call.settled',
    'answer.text',
    'answer.taken',
    'settled',
  ]);
});

test('what it says before a call is taken back', async () => {
  const { model, run } = await handOver();
  const { says, reading } = follow(run);
  model.push(text('I look.'));
  await says(['I look.']);
  model.end('I look.', callOf('look_up'));
  model.push(text('You '));
  await says(['I look.', '×', 'You ']);
  model.end('You owe 5.');
  await reading;
  await says(['I look.', '×', 'You ', 'owe 5.', '= You owe 5.']);
});

test('what it says before it hands the conversation back is taken back', async () => {
  const { model, run } = await handOver();
  const { says, reading } = follow(run);
  model.push(text('Not mine.'));
  await says(['Not mine.']);
  model.end('Not mine.', callOf(BACK));
  await reading;
  await says(['Not mine.', '×']);
  expect(await run.settled()).toMatchObject({ status: 'finished', text: 'I am back.' });
});

test('an answer that its own guardrail replaces is told as it was left', async () => {
  const { model, run } = await handOver({
    billing: { guardrails: { answer: [() => ({ type: 'replace', value: 'You owe nothing.' })] } } as never,
  });
  const { says, reading } = follow(run);
  model.push(text('You owe 5.'));
  await says(['You owe 5.']);
  model.end('You owe 5.');
  await reading;
  await says(['You owe 5.', '×', 'You owe nothing.', '= You owe nothing.']);
});

test.each([
  ['held', { finalAnswer: 'held' }],
  ['to be checked', { guardrails: { answer: [() => ({ type: 'pass' })] } }],
  ['not streamed', { stream: false, model: scripted([calls(BILLING)]) }],
])('an answer that is %s arrives whole', async (_how, front) => {
  const { model, run, store } = await handOver({ front: front as never });
  const { says, said, reading } = follow(run);
  const child = await until(async () => (await store.list({ agent: 'billing' })).runs[0]);
  model.push(text('You owe '));
  await until(async () => ((await store.read(child.runId)).length > 1 ? true : undefined));
  model.end('You owe 5.');
  await reading;
  await says(['You owe 5.', '= You owe 5.']);
  expect(said()).toHaveLength(2);
});

test('the text filters of both agents apply to each piece', async () => {
  const filter = (from: string, to: string) => () => ({
    push: (piece: string) => piece.replaceAll(from, to),
    end: () => '',
  });
  const { model, run } = await handOver({
    billing: { textFilters: [filter('5', 'five')] },
    front: { textFilters: [filter('five', 'V')] },
  });
  const { says, reading } = follow(run);
  model.push(text('You owe 5'));
  await says(['You owe V']);
  model.end('You owe 5');
  await reading;
  await says(['You owe V', '= You owe V']);
});

test('it passes through several hand-offs', async () => {
  const model = new PushedModel();
  const clerk = createAgent({ name: 'clerk', model });
  const { run } = await handOver({
    billing: { model: heard([calls('transfer_to_clerk')]).model, handoffs: [clerk] },
  });
  const { says, reading } = follow(run);
  model.push(text('You '));
  await says(['You ']);
  model.end('You owe 5.');
  await reading;
  await says(['You ', 'owe 5.', '= You owe 5.']);
});

test('after an approval it streams again, to readers that only wait', async () => {
  const { model, run, agent } = await handOver();
  const { says, reading } = follow(run, { follow: true });
  model.push(text('I ask.'));
  await says(['I ask.']);
  model.end('I ask.', callOf('refund'));
  await says(['I ask.', '×']);
  const elsewhere = (await agent.open(run.id)) as Run<never>;
  const settled = await elsewhere.settled();
  if (settled.status !== 'waiting') throw new Error(settled.status);
  await elsewhere.approve(settled.approvals[0] as never);
  model.push(text('Paid '));
  await says(['I ask.', '×', 'Paid ']);
  const others = [run.settled(), elsewhere.settled(), elsewhere.settled()];
  model.push(text('back'));
  await says(['I ask.', '×', 'Paid ', 'back']);
  model.end('Paid back.');
  await Promise.all(others);
  await reading;
  await says(['I ask.', '×', 'Paid ', 'back', '.', '= Paid back.']);
});

test('another process that follows the run gets it too', async () => {
  const { model, run, store } = await handOver();
  const front = createAgent({
    name: 'front_desk',
    model: heard([]).model,
    handoffs: [createAgent({ name: 'billing', model })],
    store,
  });
  const elsewhere = follow((await front.open(run.id)) as Run<never>);
  model.push(text('You '));
  await elsewhere.says(['You ']);
  model.push(text('owe '));
  await elsewhere.says(['You ', 'owe ']);
  model.end('You owe 5.');
  await elsewhere.reading;
  await elsewhere.says(['You ', 'owe ', '5.', '= You owe 5.']);
});
