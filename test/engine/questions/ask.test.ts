import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import type { Store } from '../../../protocol/store.ts';
import type { Tool } from '../../../protocol/tool.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { type Ask, Unanswered } from '../../../tools/ask.ts';
import { tool } from '../../../tools/tool.ts';
import { calls, eventsOf, makeTool, resultsIn, wordsOf } from '../../support/engine/agents.ts';

const HOUR = 3_600_000;

type Prepare = (given: { ask: Ask; input: { [name: string]: unknown } }) => unknown;

function makeBooking(prepare: Prepare, did: unknown[] = []): Tool {
  return tool({
    name: 'book',
    description: 'Books a table.',
    input: z.looseObject({}),
    prepare,
    run: (_, { prepared }) => {
      did.push(prepared);
      return { booked: prepared };
    },
  }) as Tool;
}

type Parts = { store?: Store; turns?: ScriptedTurn[]; host?: ManualHost; options?: Partial<AgentOptions> };

function makeAgent(tools: readonly Tool[], { store = memory(), turns, host, options = {} }: Parts = {}) {
  return createAgent({
    name: 'a',
    store,
    model: scripted(turns ?? [calls('book'), { text: 'done' }]),
    tools,
    ...(host && { host }),
    ...(options as object),
  });
}

const askHow: Prepare = ({ ask }) => ask({ key: 'how', message: 'How many?', schema: z.int().positive() });

type Run = Awaited<ReturnType<ReturnType<typeof makeAgent>['start']>>;

async function waiting(run: Run) {
  const settled = await run.settled();
  if (settled.status !== 'waiting') throw new Error(`the run is ${settled.status}`);
  return settled;
}

describe('a tool asks', () => {
  test('the run rests with the question before the call begins, and continues in another process', async () => {
    const [store, did] = [memory(), [] as unknown[]];
    const run = await makeAgent([makeBooking(askHow, did)], { store }).start('go');
    const { open, questions } = await waiting(run);
    expect(open).toEqual(questions);
    expect(questions).toMatchObject([
      {
        kind: 'question',
        callId: 'call_0_0',
        name: 'book',
        reason: 'How many?',
        questions: [{ key: 'how', message: 'How many?', schema: { type: 'integer' } }],
      },
    ]);
    expect(await wordsOf(store, run.id)).not.toContain('tool.started call_0_0');
    expect(did).toEqual([]);
    const opened = await makeAgent([makeBooking(askHow, did)], { store }).open(run.id);
    const [open2] = (await waiting(opened)).questions;
    expect(await opened.answer(open2 ?? '', { answers: { how: 4 }, by: 'ann' })).toEqual({ accepted: true });
    expect(await opened.settled()).toMatchObject({
      status: 'finished',
      results: [{ output: { booked: 4 } }],
    });
    expect(did).toEqual([4]);
    const words = await wordsOf(store, run.id);
    expect(words.filter(word => !word.startsWith('run.claimed'))).toEqual([
      'run.started',
      'calls.started',
      'turn.completed',
      'question.asked call_0_0',
      'question.answered call_0_0',
      'tool.started call_0_0',
      'tool.settled call_0_0',
      'text.started',
      'turn.completed',
    ]);
  });

  test('several at once are one rest; the answers may come one by one, each to its people', async () => {
    const prepare: Prepare = ({ ask }) =>
      Promise.all([
        ask({ key: 'amount', message: 'How much?', schema: z.number(), by: 'finance' }),
        ask({ key: 'where', message: 'Where?', schema: z.string() }),
      ]);
    const run = await makeAgent([makeBooking(prepare)]).start('go');
    const [open] = (await waiting(run)).questions;
    expect(open?.questions.map(({ key, by }) => [key, by])).toEqual([
      ['amount', ['finance']],
      ['where', undefined],
    ]);
    expect(await run.answer('call_0_0', { answers: { amount: 5 }, by: 'bob' })).toMatchObject({
      accepted: false,
      code: 'not-allowed',
      by: ['finance'],
    });
    expect(await run.answer('call_0_0', { answers: { where: 'here' }, by: 'bob' })).toEqual({
      accepted: true,
    });
    expect((await waiting(run)).questions).toMatchObject([{ questions: [{ key: 'amount' }] }]);
    const as = { name: 'fay', groups: ['finance'] };
    expect(await run.answer('call_0_0', { answers: { amount: 5 }, as })).toEqual({ accepted: true });
    expect(await run.settled()).toMatchObject({ results: [{ output: { booked: [5, 'here'] } }] });
  });

  test('several at once, each awaited after the one before it', async () => {
    const prepare: Prepare = async ({ ask }) => {
      const amount = ask({ key: 'amount', message: 'How much?', schema: z.number() });
      const where = ask({ key: 'where', message: 'Where?', schema: z.string() });
      return [await amount, await where];
    };
    const run = await makeAgent([makeBooking(prepare)]).start('go');
    expect((await waiting(run)).questions[0]?.questions.map(({ key }) => key)).toEqual(['amount', 'where']);
    await run.answer('call_0_0', { answers: { amount: 5, where: 'here' } });
    expect(await run.settled()).toMatchObject({ results: [{ output: { booked: [5, 'here'] } }] });
  });

  test('one after the other, and in loops: answers that are known return at once', async () => {
    let runs = 0;
    const prepare: Prepare = async ({ ask }) => {
      runs += 1;
      const names: string[] = [];
      for (let more = true; more; ) {
        names.push(await ask({ key: `name.${names.length}`, message: 'Who?', schema: z.string() }));
        more = await ask({ key: `more.${names.length}`, message: 'More?', schema: z.boolean() });
      }
      return names;
    };
    const store = memory();
    const run = await makeAgent([makeBooking(prepare)], { store }).start('go');
    const answers = ['ann', true, 'bob', false];
    for (const value of answers) {
      const [{ questions: [question] = [] } = {}] = (await waiting(run)).questions;
      expect(await run.answer('call_0_0', { answers: { [question?.key ?? '']: value } })).toEqual({
        accepted: true,
      });
    }
    expect(await run.settled()).toMatchObject({ results: [{ output: { booked: ['ann', 'bob'] } }] });
    expect(runs).toBe(5);
    const asked = (await eventsOf(store, run.id)).filter(({ type }) => type === 'question.asked');
    expect(asked).toHaveLength(4);
  });

  test('a question that reads otherwise than before is another question, even under the same key', async () => {
    const store = memory();
    const askFor = (people: number): Prepare => {
      return ({ ask }) => ask({ key: 'ok', message: `A table for ${people}?`, schema: z.boolean() });
    };
    const first = await makeAgent([makeBooking(askFor(2))], { store }).start('go');
    await waiting(first);
    const blind = makeAgent([makeBooking(askFor(200))], { store });
    const run = await blind.open(first.id);
    expect(await run.answer('call_0_0', { answers: { ok: true } })).toEqual({ accepted: true });
    expect((await waiting(run)).questions).toMatchObject([{ reason: 'A table for 200?' }]);
  });

  test('declined: the model reads why, and the tool does not run', async () => {
    const [store, did] = [memory(), [] as unknown[]];
    const run = await makeAgent([makeBooking(askHow, did)], { store }).start('go');
    await run.settled();
    expect(await run.reject('call_0_0', { reason: 'no table', by: 'ann' })).toEqual({ accepted: true });
    expect((await run.settled()).status).toBe('finished');
    expect(resultsIn(run.context.transcript)).toEqual({
      call_0_0: 'Not run: The question "how" was declined: no table',
    });
    expect(did).toEqual([]);
    expect(await wordsOf(store, run.id)).not.toContain('tool.started call_0_0');
  });

  test('declined, and the tool knows another way', async () => {
    const prepare: Prepare = async ({ ask }) => {
      try {
        return await ask({ key: 'how', message: 'How many?', schema: z.number() });
      } catch (error) {
        if (error instanceof Unanswered) return `none: ${error.reason}`;
        throw error;
      }
    };
    const run = await makeAgent([makeBooking(prepare)]).start('go');
    await run.settled();
    await run.reject('call_0_0', { reason: 'busy' });
    expect(await run.settled()).toMatchObject({ results: [{ output: { booked: 'none: busy' } }] });
  });

  test('expired: the fallback is the answer; without one the call fails', async () => {
    const host = new ManualHost();
    const prepare: Prepare = async ({ ask }) => {
      const first = await ask({
        key: 'a',
        message: 'A?',
        schema: z.string(),
        expiresInMs: HOUR,
        fallback: 'none',
      });
      return [first, await ask({ key: 'b', message: 'B?', schema: z.string(), expiresInMs: HOUR })];
    };
    const run = await makeAgent([makeBooking(prepare)], { host }).start('go');
    expect((await waiting(run)).questions).toMatchObject([{ expiresAt: host.now() + HOUR }]);
    await host.advance(HOUR);
    expect((await waiting(run)).questions).toMatchObject([{ reason: 'B?' }]);
    host.jump(HOUR);
    expect(await run.answer('call_0_0', { answers: { b: 'late' } })).toMatchObject({
      accepted: false,
      code: 'expired',
    });
    await host.advance(0);
    expect((await host.settle(run.settled())).status).toBe('finished');
    expect(resultsIn(run.context.transcript)).toEqual({
      call_0_0: 'Not run: The question "b" was not answered in time.',
    });
  });

  test('declined while another question of the call has expired, before the timer fires', async () => {
    const host = new ManualHost();
    const prepare: Prepare = ({ ask }) =>
      Promise.all([
        ask({ key: 'a', message: 'A?', schema: z.string(), expiresInMs: HOUR, fallback: 'none' }),
        ask({ key: 'b', message: 'B?', schema: z.string() }),
      ]);
    const run = await makeAgent([makeBooking(prepare)], { host }).start('go');
    await waiting(run);
    host.jump(HOUR);
    expect(await run.reject('call_0_0')).toEqual({ accepted: true });
    await host.advance(0);
    expect((await host.settle(run.settled())).status).toBe('finished');
    expect(resultsIn(run.context.transcript).call_0_0).toBe('Not run: The question "b" was declined.');
  });

  test('an answer that the JSON Schema refuses is refused; one that only the tool refuses is asked for again', async () => {
    const even = z.int().refine(n => n % 2 === 0, 'expected an even number');
    const prepare: Prepare = ({ ask }) => ask({ key: 'n', message: 'An even number?', schema: even });
    const run = await makeAgent([makeBooking(prepare)]).start('go');
    await run.settled();
    expect(await run.answer('call_0_0', { answers: { n: 'four' } })).toMatchObject({
      accepted: false,
      code: 'input-invalid',
      message: 'The answer to "n" is not valid: must be integer.',
    });
    expect(await run.answer('call_0_0', { answers: { n: 3 } })).toEqual({ accepted: true });
    expect((await waiting(run)).questions).toMatchObject([
      { questions: [{ key: 'n', fault: 'The answer 3 does not fit: expected an even number' }] },
    ]);
    expect(await run.answer('call_0_0', { answers: { n: 4 } })).toEqual({ accepted: true });
    expect(await run.settled()).toMatchObject({ results: [{ output: { booked: 4 } }] });
  });

  test('an answer to an unknown key, to nothing, or to what was answered, is refused and says why', async () => {
    const run = await makeAgent([makeBooking(askHow)]).start('go');
    const [open] = (await waiting(run)).questions;
    expect(await run.answer('call_0_0', { answers: { other: 1 } })).toMatchObject({
      code: 'input-invalid',
      message: 'Call call_0_0 asks no question "other". It asks "how".',
    });
    expect(await run.answer('call_0_0', { answers: {} })).toMatchObject({ code: 'input-invalid' });
    expect(await run.answer('call_0_0', { answers: { how: 1 }, digest: 'other' })).toMatchObject({
      code: 'wrong-digest',
    });
    expect(await run.answer('call_0_0', { output: 4 })).toMatchObject({ code: 'call-not-open' });
    expect(await run.approve('call_0_0')).toMatchObject({ code: 'call-not-open' });
    expect(await run.answer(open ?? '', { answers: { how: 1 }, by: 'ann' })).toEqual({ accepted: true });
    expect(await run.answer(open ?? '', { answers: { how: 2 }, by: 'bob' })).toMatchObject({
      code: 'already-decided',
      by: 'ann',
    });
    expect(await run.settled()).toMatchObject({ results: [{ output: { booked: 1 } }] });
  });

  test('a message instead: it waits, or takes the place of the call', async () => {
    const queued = await makeAgent([makeBooking(askHow)]).start('go');
    await queued.settled();
    await queued.send('never mind');
    expect((await waiting(queued)).questions).toHaveLength(1);
    const options = { onMessage: 'supersede' } as const;
    const run = await makeAgent([makeBooking(askHow)], { options }).start('go');
    await run.settled();
    await run.send('never mind');
    expect((await run.settled()).status).toBe('finished');
    expect(resultsIn(run.context.transcript)).toEqual({ call_0_0: 'Not run: superseded by a new message.' });
  });

  test('a message instead, about a call whose effect may have begun: it waits', async () => {
    const book = makeTool('book', {
      run: async (_, { ask, keep }) => {
        await keep?.({ held: 'table 4' });
        return await ask({ key: 'how', message: 'How many?', schema: z.int() });
      },
    });
    const options = { onMessage: 'supersede' } as const;
    const run = await makeAgent([book], { options }).start('go');
    await run.settled();
    await run.send('never mind');
    expect((await waiting(run)).questions).toHaveLength(1);
    expect(await run.answer('call_0_0', { answers: { how: 4 } })).toEqual({ accepted: true });
    expect(await run.settled()).toMatchObject({ status: 'finished', results: [{ output: 4 }] });
  });

  test('cancelled with its run, or edited away: the question ends, and the tool never runs', async () => {
    const did: unknown[] = [];
    const run = await makeAgent([makeBooking(askHow, did)]).start('go');
    await run.settled();
    expect(await run.cancel()).toEqual({ accepted: true });
    expect(await run.settled()).toMatchObject({ status: 'cancelled', unsettled: [{ status: 'asking' }] });
    const other = await makeAgent([makeBooking(askHow, did)]).start('go');
    await other.settled();
    expect(await other.editTurn({ calls: [], text: 'No table.' })).toEqual({ accepted: true });
    expect(await other.settled()).toMatchObject({ status: 'finished', text: 'No table.' });
    expect(did).toEqual([]);
  });

  test.each([
    ['the run is cancelled after its calls', (run: Run) => run.cancel({ afterCalls: true })],
    ['its process gives the run up', (run: Run) => run.yield({ graceMs: 60_000 })],
  ])('the tool does not run if %s while it prepares', async (_, end) => {
    const [began, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const [store, did] = [memory(), [] as unknown[]];
    const prepare = async () => {
      began.resolve();
      await released.promise;
    };
    const run = await makeAgent([makeBooking(prepare, did)], { store }).start('go');
    await began.promise;
    const ended = end(run);
    released.resolve();
    await ended;
    expect(did).toEqual([]);
    expect(await wordsOf(store, run.id)).not.toContain('tool.started call_0_0');
  });

  test('a question whose key is the name of a built-in member stays open until it is answered', async () => {
    const prepare: Prepare = ({ ask }) =>
      Promise.all(['constructor', 'b'].map(key => ask({ key, message: 'Who?', schema: z.string() })));
    const run = await makeAgent([makeBooking(prepare)]).start('go');
    await waiting(run);
    expect(await run.answer('call_0_0', { answers: { b: 'bob' } })).toEqual({ accepted: true });
    expect((await waiting(run)).questions).toMatchObject([{ questions: [{ key: 'constructor' }] }]);
    expect(await run.answer('call_0_0', { answers: { constructor: 'ann' } })).toEqual({ accepted: true });
    expect(await run.settled()).toMatchObject({ results: [{ output: { booked: ['ann', 'bob'] } }] });
  });

  test('an edit of the call asks anew', async () => {
    const prepare: Prepare = ({ ask, input }) =>
      ask({ key: 'ok', message: `Table ${input.table}?`, schema: z.boolean() });
    const turns = [calls(['book', { table: 1 }]), { text: 'done' }];
    const run = await makeAgent([makeBooking(prepare)], { turns }).start('go');
    expect((await waiting(run)).questions).toMatchObject([{ reason: 'Table 1?' }]);
    expect(await run.editCall('call_0_0', { input: { table: 2 } })).toEqual({ accepted: true });
    expect((await waiting(run)).questions).toMatchObject([{ reason: 'Table 2?', input: { table: 2 } }]);
  });

  test('after its approval: the approver decides first', async () => {
    const gated = { ...makeBooking(askHow), approval: () => true, fixedApproval: true };
    const run = await makeAgent([gated]).start('go');
    expect((await waiting(run)).approvals).toHaveLength(1);
    await run.approve('call_0_0');
    expect((await waiting(run)).questions).toHaveLength(1);
    await run.answer('call_0_0', { answers: { how: 1 } });
    expect(await run.settled()).toMatchObject({ results: [{ output: { booked: 1 } }] });
  });

  test('who may not answer is refused, and each question has its own people', async () => {
    const prepare: Prepare = ({ ask }) =>
      Promise.all([
        ask({ key: 'mine', message: 'Yours?', schema: z.string(), not: 'starter' }),
        ask({ key: 'money', message: 'How much?', schema: z.int(), by: ['finance', 'managers'] }),
      ]);
    const run = await makeAgent([makeBooking(prepare)]).start('go', { by: 'ann' });
    await waiting(run);
    expect(await run.answer('call_0_0', { answers: { mine: 'x' }, by: 'ann' })).toMatchObject({
      code: 'not-allowed',
      message: expect.stringContaining('"mine"'),
    });
    const mia = { name: 'mia', groups: ['managers'] };
    expect(await run.answer('call_0_0', { answers: { mine: 'x', money: 1 }, by: 'bob' })).toMatchObject({
      code: 'not-allowed',
      by: ['finance', 'managers'],
    });
    expect((await waiting(run)).questions[0]?.questions).toHaveLength(2);
    expect(await run.answer('call_0_0', { answers: { mine: 'x' }, by: 'bob' })).toEqual({ accepted: true });
    expect(await run.answer('call_0_0', { answers: { money: 1 }, as: mia })).toEqual({ accepted: true });
    expect(await run.settled()).toMatchObject({ results: [{ output: { booked: ['x', 1] } }] });
  });

  test('while other calls of the round run and settle', async () => {
    const turns = [calls('other', 'book'), { text: 'done' }];
    const run = await makeAgent([makeBooking(askHow), makeTool('other')], { turns }).start('go');
    await waiting(run);
    expect(run.context.calls.map(({ name, status }) => `${name} ${status}`)).toEqual([
      'other settled',
      'book asking',
    ]);
    await run.answer('call_0_0', { answers: { how: 1 } });
    expect((await run.answer('call_0_1', { answers: { how: 1 } })).accepted).toBe(true);
    expect((await run.settled()).status).toBe('finished');
  });

  test('in sub-agents at any depth: it surfaces at the top run, and is answered there', async () => {
    const store = memory();
    const sub = (name: string, tools: readonly Tool[], turns: ScriptedTurn[]) =>
      createAgent({ name, description: name, store, model: scripted(turns), tools });
    const low = sub('low', [makeBooking(askHow)], [calls('book'), { text: 'low done' }]);
    const mid = sub(
      'mid',
      [low.asTool({ name: 'low', description: 'low' }) as Tool],
      [calls(['low', { input: 'x' }]), { text: 'mid done' }],
    );
    const top = sub(
      'top',
      [mid.asTool({ name: 'mid', description: 'mid' }) as Tool],
      [calls(['mid', { input: 'x' }]), { text: 'done' }],
    );
    const run = await top.start('go');
    const [open] = (await waiting(run)).questions;
    expect(open?.runId).not.toBe(run.id);
    expect(await run.answer(open ?? '', { answers: { how: 3 } })).toEqual({ accepted: true });
    expect(await run.settled()).toMatchObject({ status: 'finished', text: 'done' });
  });

  test('a tool that may run again asks in run too; one that must not is told to ask in prepare', async () => {
    const starts: number[] = [];
    const read = tool({
      name: 'book',
      description: 'Reads.',
      input: z.looseObject({}),
      sideEffect: 'idempotent',
      run: async (_, { ask, attempt = 0 }) => {
        starts.push(attempt);
        return await ask({ key: 'which', message: 'Which?', schema: z.enum(['a', 'b']) });
      },
    });
    const store = memory();
    const run = await makeAgent([read], { store }).start('go');
    await waiting(run);
    await run.answer('call_0_0', { answers: { which: 'b' } });
    expect(await run.settled()).toMatchObject({ results: [{ output: 'b' }] });
    expect(starts).toEqual([1, 2]);
    const once = makeTool('book', {
      run: (_, { ask }) => ask({ key: 'which', message: 'Which?', schema: z.string() }),
    });
    const other = await makeAgent([once]).start('go');
    expect((await other.settled()).status).toBe('finished');
    expect(resultsIn(other.context.transcript).call_0_0).toContain('Ask in its `prepare`.');
  });

  test('in the background: the run that does the work asks, and nobody is asked twice', async () => {
    const store = memory();
    const book = tool({
      name: 'book',
      description: 'Books a table.',
      input: z.looseObject({}),
      background: true,
      prepare: ({ ask }) => ask({ key: 'how', message: 'How many?', schema: z.int() }),
      run: (_, { prepared }) => prepared,
    }) as Tool;
    const turns = [calls('book'), { text: 'begun' }, { text: 'done' }];
    const run = await makeAgent([book], { store, turns }).start('go');
    const [open] = (await waiting(run)).questions;
    expect(open?.runId).not.toBe(run.id);
    expect(await run.answer(open ?? '', { answers: { how: 4 } })).toEqual({ accepted: true });
    expect(await run.settled()).toMatchObject({ status: 'finished', text: 'done' });
    expect(await wordsOf(store, run.id)).not.toContain('question.asked call_0_0');
  });

  test('also once it is known that an attempt before a crash did not happen', async () => {
    const store = memory();
    const started = Promise.withResolvers<void>();
    const make = (price: number, run: (input: unknown, context: { signal: AbortSignal }) => unknown) =>
      makeAgent(
        [
          tool({
            name: 'book',
            description: 'Books a table.',
            input: z.looseObject({}),
            prepare: ({ ask }) => ask({ key: 'ok', message: `For ${price}?`, schema: z.boolean() }),
            run,
            reconcile: () => ({ happened: false, final: true }),
          }) as Tool,
        ],
        { store },
      );
    const first = await make(1, async (_, { signal }) => {
      started.resolve();
      await once(signal, 'abort');
      signal.throwIfAborted();
    }).start('go');
    await waiting(first);
    await first.answer('call_0_0', { answers: { ok: true } });
    await started.promise;
    await first.yield({ graceMs: 0 });
    const again = await make(2, () => 'booked').open(first.id);
    expect((await waiting(again)).questions).toMatchObject([{ reason: 'For 2?' }]);
    await again.answer('call_0_0', { answers: { ok: true } });
    expect(await again.settled()).toMatchObject({ results: [{ output: 'booked' }] });
  });

  test('two different questions with one key, and a hundred rounds of questions, fail the call', async () => {
    const twice: Prepare = ({ ask }) =>
      Promise.all(['A?', 'B?'].map(message => ask({ key: 'same', message, schema: z.string() })));
    const run = await makeAgent([makeBooking(twice)]).start('go');
    await run.settled();
    expect(resultsIn(run.context.transcript).call_0_0).toContain(
      'Two different questions have the key "same"',
    );
    let round = 0;
    const restless: Prepare = ({ ask }) =>
      ask({ key: 'q', message: `Round ${round++}?`, schema: z.boolean() });
    const other = await makeAgent([makeBooking(restless)]).start('go');
    for (let times = 0; times < 100; times += 1) {
      await waiting(other);
      await other.answer('call_0_0', { answers: { q: true } });
    }
    expect((await other.settled()).status).toBe('finished');
    expect(resultsIn(other.context.transcript).call_0_0).toBe(
      'Not run: The tool has asked 100 times, the maximum for one call.',
    );
  });
});
