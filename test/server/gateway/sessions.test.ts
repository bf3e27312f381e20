import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { Gateway, type Resource } from '../../support/responses/gateway.ts';

const TURNS = 24;
const ASK = { type: 'function', name: 'ask' };

/** The store, noting each read of an entry that an earlier turn has read: that turn. */
function noteReads(store: Store) {
  const noted = { turn: 0, again: [] as number[] };
  const firstReads = new Map<string, number>();
  const read: Store['read'] = async (runId, ...given) => {
    const page = await store.read(runId, ...given);
    for (const { seq } of page) {
      const first = firstReads.get(`${runId} ${seq}`);
      if (first === undefined) firstReads.set(`${runId} ${seq}`, noted.turn);
      else noted.again.push(first);
    }
    return page;
  };
  return { noted, store: { ...store, read } };
}

let gateway: Gateway;
const { noted, store } = noteReads(memory());

beforeAll(() => {
  const loop = Array.from({ length: TURNS }, () => ({ toolCalls: [{ name: 'ask', arguments: {} }] }));
  const talk = Array.from({ length: TURNS }, () => ({ text: 'Said.' }));
  gateway = new Gateway({ loop, talk }, { store });
});
afterAll(() => gateway.close());

/** How many entries of the first ten turns the last five turns read again. */
async function play(next: (before: Resource | undefined) => object): Promise<number> {
  const begin = noted.turn;
  let before: Resource | undefined;
  for (let turn = 1; turn <= TURNS; turn += 1) {
    noted.turn += 1;
    if (turn === TURNS - 4) noted.again = [];
    before = await gateway.create(next(before));
  }
  return noted.again.filter(turn => turn > begin && turn <= begin + 10).length;
}

function outputFor(before: Resource | undefined) {
  const call_id = before?.output[0]?.call_id;
  return call_id === undefined ? 'Go.' : [{ type: 'function_call_output', call_id, output: 'Done.' }];
}

describe('a late turn reads no entry of early ones', () => {
  test('in a loop of calls that the client answers', async () => {
    const again = await play(before => ({
      model: 'loop',
      tools: [ASK],
      input: outputFor(before),
      ...(before && { previous_response_id: before.id }),
    }));
    expect(again).toBe(0);
  });

  test('in a chain of answers', async () => {
    const again = await play(before => ({
      model: 'talk',
      input: 'Go on.',
      ...(before && { previous_response_id: before.id }),
    }));
    expect(again).toBe(0);
  });

  test('in a conversation', async () => {
    const made = await gateway.app.request('/v1/conversations', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{}',
    });
    const { id } = (await made.json()) as { id: string };
    const again = await play(() => ({ model: 'talk', input: 'Go on.', conversation: id }));
    expect(again).toBe(0);
  });
});

test('a turn goes without what was redacted since the one before it', async () => {
  const secret = 'ann@example.org';
  const first = await gateway.create({ model: 'loop', tools: [ASK], input: `For ${secret}.` });
  const read = async () => JSON.stringify(await gateway.read(`/${first.id}/input_items`));
  expect(await read()).toContain(secret);
  await store.redact(first.id.replace(/^resp_/, 'run_'), { paths: ['/1/input/0/content/0/text'] });
  expect(await read()).not.toContain(secret);
  const { id } = await gateway.create({
    model: 'loop',
    tools: [ASK],
    input: outputFor(first),
    previous_response_id: first.id,
  });
  expect(JSON.stringify(await gateway.read(`/${id}/input_items`))).not.toContain(secret);
});

describe('the instructions and tools of a loop of calls', () => {
  const instructions = 'Measure with care. '.repeat(50);
  const described = { ...ASK, description: 'Asks the person at the desk. '.repeat(20) };
  const ask = { model: 'loop', instructions, tools: [described] };
  const runOf = ({ id }: Resource) => id.replace(/^resp_/, 'run_').replace(/_\d+$/, '');
  const journalOf = async (response: Resource) => JSON.stringify(await store.read(runOf(response)));
  const countIn = (text: string, part: string) => text.split(part).length - 1;

  const begin = async (more: object = {}) => await gateway.create({ ...ask, ...more, input: 'Go.' });
  const answer = async (before: Resource, more: object = {}) =>
    await gateway.create({ ...ask, ...more, input: outputFor(before), previous_response_id: before.id });

  test('are journaled once, and every response shows them', async () => {
    const first = await begin();
    const second = await answer(first);
    const third = await answer(second);
    expect(countIn(await journalOf(third), instructions)).toBe(1);
    expect(countIn(await journalOf(third), described.description)).toBe(1);
    for (const { id } of [first, second, third])
      expect(await gateway.read(`/${id}`)).toMatchObject({ instructions, tools: [described] });
  });

  test('are journaled again if a request changes them, and each response shows its own', async () => {
    const other = 'Measure fast. '.repeat(50);
    const first = await begin();
    const second = await answer(first, { instructions: other });
    const third = await answer(second, { instructions: other });
    const fourth = await answer(third);
    const journal = await journalOf(fourth);
    expect([countIn(journal, instructions), countIn(journal, other)]).toEqual([2, 1]);
    const shown = [first, second, third, fourth].map(({ id }) => gateway.read<Resource>(`/${id}`));
    expect((await Promise.all(shown)).map(response => response.instructions)).toEqual([
      instructions,
      other,
      other,
      instructions,
    ]);
  });

  test('are journaled again in a fork, which outlives its original', async () => {
    const first = await begin();
    await answer(first);
    const forked = await answer(first);
    expect(runOf(forked)).not.toBe(runOf(first));
    expect(await journalOf(forked)).toContain(instructions);
  });
});
