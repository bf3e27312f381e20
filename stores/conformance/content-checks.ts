import assert from 'node:assert/strict';
import type { RunEvent } from '../../protocol/event.ts';
import type { JsonValue } from '../../protocol/json.ts';
import type { Checks } from './check.ts';
import { begin, makeOwner, RUNNING, receive, rejectsWith, request, say, settle } from './samples.ts';

const MEGABYTE = 1024 * 1024;
const STRANGE_TEXT = 'é 漢字 👩‍👩‍👧 "quotes" back\\slash new\nline \u2028 nul\0nul \ud800 lone \udc00';

const turn: RunEvent = {
  type: 'turn.completed',
  at: 2000.5,
  generation: 3,
  provider: 'scripted',
  model: 'one',
  finishReason: 'tool_calls',
  text: '',
  items: [
    { type: 'reasoning', id: 'r', text: 'hm', opaque: { provider: 'scripted', data: { signature: 'ab==' } } },
    { type: 'tool_call', id: 'c', callId: 'call', name: 'refund', arguments: '{"cents": 1e2}' },
  ],
  calls: [
    {
      callId: 'call',
      name: 'refund',
      input: { cents: 100, '2': null, '1': [true, { nested: [] }], ['__proto__']: 'own' },
      digest: 'd',
      sideEffect: 'once',
      reconcilable: false,
      executedBy: 'engine',
      gate: true,
    },
  ],
  usage: {
    inputTokens: 5,
    outputTokens: 7,
    cachedInputTokens: null,
    cacheWriteTokens: null,
    reasoningTokens: 0,
  },
  startedAt: 1500,
};

/** Checks that content is stored unchanged. */
export const contentChecks: Checks = {
  'an event is read as appended, with its keys in the same order': async store => {
    await store.create(begin('a'));
    await store.append('a', { after: 1, epoch: 0 }, [turn], RUNNING);
    const event = (await store.read('a', 1))[0]?.event;
    assert.deepEqual(event, turn);
    assert.equal(JSON.stringify(event), JSON.stringify(turn));
  },
  'any text is read as written, in events, ids and names': async store => {
    const runId = `run ${STRANGE_TEXT}`;
    const item = say(STRANGE_TEXT, `item ${STRANGE_TEXT}`);
    const continues = `older ${STRANGE_TEXT}`;
    const agent = { name: `agent ${STRANGE_TEXT}` };
    const event = begin(runId, { agent, continues, input: [item] });
    await store.create(event, request(STRANGE_TEXT));
    assert.deepEqual((await store.read(runId))[0]?.event, event);
    const record = await store.get(runId);
    assert.deepEqual([record?.runId, record?.agent, record?.continues], [runId, agent.name, continues]);
    assert.deepEqual(record?.owner, makeOwner(STRANGE_TEXT));
    await rejectsWith('run-unknown', store.read(`run ${STRANGE_TEXT.toWellFormed()}`));
  },
  'an output of ten megabytes is read in full': async store => {
    const output: JsonValue = { body: 'ab"\n漢'.repeat((10 * MEGABYTE) / 5), after: 1 };
    await store.create(begin('a'));
    await store.append('a', { after: 1, epoch: 0 }, [settle('call', output)], RUNNING);
    const event = (await store.read('a', 1))[0]?.event;
    assert.ok(event?.type === 'tool.settled');
    assert.deepEqual(event.output, output);
  },
  'changing an appended or returned event does not change the journal': async store => {
    const event = begin('a');
    await store.create(event);
    event.input.push(say('changed'));
    const [read] = await store.read('a');
    assert.deepEqual(read?.event, begin('a'));
    if (read?.event.type === 'run.started') read.event.input.length = 0;
    assert.deepEqual(await store.read('a'), [{ seq: 1, event: begin('a') }]);
  },
  'changing a record, a lease or a snapshot does not change the store': async store => {
    const claim = request('one');
    const state = { value: 'deciding' };
    await store.create(begin('a'), claim);
    await store.saveSnapshot('a', { seq: 2, state });
    claim.owner.id = 'changed';
    state.value = 'changed';
    const record = await store.get('a');
    if (record?.owner !== undefined) record.owner.host = 'changed';
    const held = await store.claim('a', request('two'));
    if (held.type === 'held') held.owner.host = 'changed';
    assert.deepEqual((await store.get('a'))?.owner, makeOwner('one'));
    assert.deepEqual(await store.loadSnapshot('a'), { seq: 2, state: { value: 'deciding' } });
  },
  'an event that could not be read back is rejected before anything is written': async store => {
    const cycle: Record<string, JsonValue> = {};
    cycle.self = cycle;
    await store.create(begin('a'));
    for (const event of [receive('x', Number.NaN), receive('x', Infinity), settle('call', cycle)]) {
      const append = store.append('a', { after: 1, epoch: 0 }, [event], RUNNING);
      await rejectsWith('input-invalid', append);
    }
    await rejectsWith('input-invalid', store.create(begin('b', { at: Number.NaN })));
    assert.equal((await store.read('a')).length, 1);
    assert.equal(await store.get('b'), undefined);
  },
};
