import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { exportRun } from '../../../engine/replay/export-run.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
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

describe('the instructions and tools of a chain of runs', () => {
  const instructions = 'Measure with care. '.repeat(2_500);
  const described = { ...ASK, description: 'Asks the person at the desk. '.repeat(2_000) };
  const shared = { instructions, tools: [described] };
  const runOf = ({ id }: Resource) => id.replace(/^resp_/, 'run_').replace(/_\d+$/, '');
  const journalOf = async (response: Resource) => JSON.stringify(await store.read(runOf(response)));

  async function ask(before?: Resource, more: object = {}): Promise<Resource> {
    const previous = before && { previous_response_id: before.id };
    return await gateway.create({ model: 'talk', input: 'Go.', ...shared, ...more, ...previous });
  }

  test('are journaled once, by digest, and every response shows them, in any process', async () => {
    const first = await ask();
    const second = await ask(first);
    const third = await ask(second);
    expect((await journalOf(first)).length).toBeGreaterThan(100_000);
    for (const later of [second, third]) expect((await journalOf(later)).length).toBeLessThan(3_000);
    const other = new Gateway({ talk: [{ text: 'Said.' }] }, { store });
    for (const one of [gateway, other])
      for (const { id } of [third, second, first]) expect(await one.read(`/${id}`)).toMatchObject(shared);
    await other.close();
  });

  test('are journaled again where a request changes them', async () => {
    const first = await ask();
    const second = await ask(first, { instructions: 'Measure fast. '.repeat(50) });
    const third = await ask(second);
    const [changed, back] = [await journalOf(second), await journalOf(third)];
    expect([changed.includes('Measure fast.'), changed.includes(described.description)]).toEqual([
      true,
      false,
    ]);
    expect([back.includes(instructions), back.includes(described.description)]).toEqual([true, false]);
    expect(await gateway.read(`/${third.id}`)).toMatchObject(shared);
  });

  test('stay as long as a run of the chain is there, also a fork whose original is deleted', async () => {
    const first = await ask();
    const loop = { model: 'loop' };
    const asked = await ask(first, loop);
    const answer = (input: string) => [
      { type: 'function_call_output', call_id: asked.output[0]?.call_id, output: input },
    ];
    const original = await ask(asked, { ...loop, input: answer('Done.') });
    const forked = await ask(asked, { ...loop, input: answer('Not yet.') });
    expect(runOf(original)).toBe(runOf(asked));
    expect(runOf(forked)).not.toBe(runOf(asked));
    await expect(store.delete(runOf(first))).rejects.toThrow(/continued by/);
    await store.delete(runOf(asked));
    expect((await journalOf(forked)).length).toBeLessThan(6_000);
    const other = new Gateway({ talk: [{ text: 'Said.' }] }, { store });
    expect(await other.read(`/${forked.id}`)).toMatchObject(shared);
    await other.close();
  });

  test('are in an export of the last run, which can be replayed', async () => {
    const last = await ask(await ask());
    const exported = JSON.stringify(await exportRun(store, runOf(last)));
    expect(exported.split(instructions)).toHaveLength(2);
    expect(await replayRun(store, runOf(last))).toMatchObject({ equal: true });
  });

  test('are journaled with a run in another store', async () => {
    const first = await ask();
    const unstored = await ask(first, { store: false });
    expect(unstored).toMatchObject({ status: 'completed', ...shared });
  });

  test('are not those that another entry has now', async () => {
    const first = await ask();
    const second = await ask(first);
    const read: Store['read'] = async (...given) => {
      const text = JSON.stringify(await store.read(...given));
      return JSON.parse(given[0] === runOf(first) ? text.replace('with care', 'in haste') : text);
    };
    const other = new Gateway({ talk: [] }, { store: { ...store, read } });
    await expect(other.service.library.load(runOf(second))).rejects.toMatchObject({
      code: 'journal-damaged',
    });
    await expect(gateway.service.library.load(runOf(second))).resolves.toBeDefined();
    await other.close();
  });
});
