import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { tool } from '../../../tools/tool.ts';
import { calls } from '../../support/engine/agents.ts';

type Rule = { by?: string | string[]; not?: 'starter' | 'sender'; quorum?: number };

const MANAGERS = ['managers'];
const mia = { as: { name: 'mia', groups: MANAGERS } };
const max = { as: { name: 'max', groups: MANAGERS } };
const ann = { as: { name: 'ann', groups: MANAGERS } };

/** Refunds over 1,000 cents are for the board to decide. */
function makeDesk(rule: Rule, { rounds = 1, fails = false } = {}) {
  const store = memory();
  const host = new ManualHost();
  const paid: number[] = [];
  const refund = tool({
    name: 'refund',
    description: 'Refunds.',
    input: z.object({ cents: z.number() }),
    approval: ({ input }) =>
      input.cents > 1_000 ? { required: true, by: 'board' } : { required: true, ...rule },
    run: ({ cents }) => {
      if (fails) throw new Error('the bank is closed');
      paid.push(cents);
      return { cents };
    },
  });
  const turns = Array.from({ length: rounds }, () => calls(['refund', { cents: 100 }]));
  const make = () =>
    createAgent({
      name: 'desk',
      host,
      store,
      model: scripted([...turns, { text: 'done' }]),
      tools: [refund],
    });
  const start = async (by: string | undefined = 'ann') => {
    const run = await make().start('refund me', by === undefined ? {} : { by });
    await run.settled();
    return run;
  };
  const events = async (runId: string) => (await store.read(runId)).map(({ event }) => event);
  return { store, host, paid, make, start, events };
}

const CALL = 'call_0_0';
const NOT_ALLOWED = { accepted: false, code: 'not-allowed' };

describe('a call that only a group may decide', () => {
  test('is decided by a person in the group, and by nobody else', async () => {
    const { start, paid, host, events } = makeDesk({ by: 'managers' });
    const run = await start();
    expect(await run.settled()).toMatchObject({ open: [{ kind: 'approval', by: ['managers'] }] });
    for (const who of [{}, { by: 'mia' }, { as: { name: 'bob', groups: ['sales'] } }, { by: 'managers' }])
      for (const refused of [
        await run.approve(CALL, who),
        await run.reject(CALL, who),
        await run.answer(CALL, { output: 'paid', ...who }),
        await run.editCall(CALL, { input: { cents: 1 }, ...who }),
        await run.editTurn({ calls: [], ...who }),
      ])
        expect(refused).toMatchObject({ ...NOT_ALLOWED, by: ['managers'] });
    expect(await run.editTranscript([], { by: 'bob' })).toMatchObject(NOT_ALLOWED);
    expect(await run.approve(CALL, mia)).toEqual({ accepted: true });
    await host.settle(run.settled());
    expect(paid).toEqual([100]);
    expect(await events(run.id)).toContainEqual(
      expect.objectContaining({
        type: 'approval.decided',
        by: 'mia',
        groups: ['managers'],
        known: 'asserted',
      }),
    );
  });

  test('stays for the board if a manager edits its arguments to what the board decides', async () => {
    const { start, paid, host } = makeDesk({ by: 'managers' });
    const run = await start();
    expect(await run.approve(CALL, { ...mia, input: { cents: 5_000 } })).toEqual({ accepted: true });
    expect(await host.settle(run.settled())).toMatchObject({
      open: [{ by: ['board'], input: { cents: 5_000 } }],
    });
    expect(await run.approve(CALL, mia)).toMatchObject(NOT_ALLOWED);
    expect(await run.approve(CALL, { as: { name: 'bo', groups: ['board'] } })).toEqual({ accepted: true });
    await host.settle(run.settled());
    expect(paid).toEqual([5_000]);
  });

  test('cannot be decided for later calls too', async () => {
    const { start } = makeDesk({ by: 'managers' });
    const run = await start();
    expect(await run.approve(CALL, { ...mia, sticky: true })).toMatchObject({ code: 'refused' });
  });

  test('is not decided by a sticky approval of the same tool', async () => {
    const host = new ManualHost();
    const refund = tool({
      name: 'refund',
      description: 'Refunds.',
      input: z.object({ cents: z.number() }),
      approval: ({ input }) => (input.cents > 1_000 ? { required: true, by: 'board' } : true),
      run: ({ cents }) => cents,
    });
    const model = scripted([
      calls(['refund', { cents: 1 }]),
      calls(['refund', { cents: 5_000 }]),
      { text: 'done' },
    ]);
    const run = await createAgent({ name: 'desk', host, store: memory(), model, tools: [refund] }).start(
      'go',
    );
    await run.settled();
    await run.approve(CALL, { sticky: true });
    expect(await host.settle(run.settled())).toMatchObject({ open: [{ by: ['board'] }] });
  });

  test('in doubt, is resolved by a person in the group, and by nobody else', async () => {
    const { start, host, events } = makeDesk({ by: 'managers' });
    const run = await start();
    await run.approve(CALL, mia);
    await host.settle(run.settled());
    const at = (await events(run.id)).findIndex(({ type }) => type === 'tool.started') + 1;
    const fork = await run.fork({ at, by: 'ann' });
    expect(await fork.settled()).toMatchObject({ doubts: [{ by: ['managers'] }] });
    expect(await fork.resolve(CALL, { retry: true, force: true, by: 'ann' })).toMatchObject(NOT_ALLOWED);
    const happened = { happened: true, output: { cents: 100 } } as const;
    expect(await fork.resolve(CALL, { ...happened, ...max })).toEqual({ accepted: true });
  });

  test('asks again when it failed and is run again', async () => {
    const { start, host } = makeDesk({ by: 'managers' }, { rounds: 2, fails: true });
    const run = await start();
    await run.approve(CALL, mia);
    await host.settle(run.settled());
    await run.pause();
    expect(await run.retry(CALL, { by: 'ann', force: true })).toMatchObject({ accepted: false });
  });
});

describe('who started a run', () => {
  test('may not decide a call that excludes the starter, by any way, with any group', async () => {
    const { start, host, paid } = makeDesk({ not: 'starter', by: 'managers' });
    const run = await start();
    for (const refused of [
      await run.approve(CALL, ann),
      await run.approve(CALL, { ...ann, input: { cents: 1 } }),
      await run.reject(CALL, ann),
      await run.answer(CALL, { output: 1, ...ann }),
      await run.editCall(CALL, { input: { cents: 1 }, ...ann }),
      await run.editTurn({ calls: [], ...ann }),
      await run.editTranscript([], ann),
    ])
      expect(refused).toMatchObject({
        ...NOT_ALLOWED,
        message: expect.stringContaining('ann started the run'),
      });
    expect(await run.approve(CALL, mia)).toEqual({ accepted: true });
    await host.settle(run.settled());
    expect(paid).toEqual([100]);
  });

  test('stays the starter in a fork that someone else makes, and who forks is one too', async () => {
    const { start, events } = makeDesk({ not: 'starter' });
    const run = await start();
    const at = (await events(run.id)).length;
    const fork = await run.fork({ at, by: 'mia' });
    await fork.settled();
    expect(await fork.approve(CALL, ann)).toMatchObject(NOT_ALLOWED);
    expect(await fork.approve(CALL, mia)).toMatchObject(NOT_ALLOWED);
    expect(await fork.approve(CALL, max)).toEqual({ accepted: true });
    await expect(
      run.fork({ at, by: 'mia', commands: [{ type: 'approve', callId: CALL, ...mia }] }),
    ).rejects.toMatchObject({ code: 'not-allowed' });
  });

  test('is not who decided: they fork before their decision, and who has no name does too', async () => {
    const { start, host, events } = makeDesk({ not: 'starter' });
    const run = await start();
    await run.approve(CALL, mia);
    await host.settle(run.settled());
    const at = (await events(run.id)).findIndex(({ type }) => type === 'approval.decided') + 1;
    for (const by of ['mia', undefined]) {
      const fork = (entry: number) => run.fork({ at: entry, ...(by !== undefined && { by }) });
      for (const entry of [at, at + 1])
        await expect(fork(entry)).rejects.toMatchObject({
          code: 'refused',
          message: expect.stringContaining(by ?? 'Fork with `by`'),
        });
      expect(await (await fork(at - 1)).settled()).toMatchObject({ status: 'waiting' });
    }
    expect(await run.fork({ at: at + 1, by: 'max' })).toBeDefined();
  });

  test('stays the starter in a run that continues it', async () => {
    const { make, host, start } = makeDesk({ not: 'starter' }, { rounds: 3 });
    const first = await start();
    await first.cancel();
    const next = await make().start('again', { continues: first.id, by: 'mia' });
    await next.settled();
    const [call] = (await host.settle(next.settled())).status === 'waiting' ? next.context.calls : [];
    expect(call?.status).toBe('gated');
    expect(await next.approve(call?.callId ?? '', ann)).toMatchObject(NOT_ALLOWED);
    expect(await next.approve(call?.callId ?? '', mia)).toMatchObject(NOT_ALLOWED);
    expect(await next.approve(call?.callId ?? '', max)).toEqual({ accepted: true });
  });

  test('may be anyone if no name is known: then nobody may decide', async () => {
    const { make } = makeDesk({ not: 'starter' });
    const run = await make().start('refund me');
    await run.settled();
    expect(await run.approve(CALL, mia)).toMatchObject({
      ...NOT_ALLOWED,
      message: expect.stringContaining('not known who started'),
    });
  });
});

test('who wrote in a run may not decide a call that excludes senders', async () => {
  const { start } = makeDesk({ not: 'sender' });
  const run = await start();
  await run.send('please', { by: 'mia' });
  expect(await run.approve(CALL, ann)).toMatchObject(NOT_ALLOWED);
  expect(await run.approve(CALL, mia)).toMatchObject(NOT_ALLOWED);
  await run.editCall(CALL, { input: { cents: 90 }, ...max });
  expect(await run.approve(CALL, max)).toMatchObject(NOT_ALLOWED);
  expect(await run.approve(CALL, { by: 'zoe' })).toEqual({ accepted: true });
});

describe('a quorum of two', () => {
  test('is reached by two people, and shows who has approved', async () => {
    const { start, paid, host } = makeDesk({ quorum: 2, by: 'managers' });
    const run = await start();
    expect(await run.approve(CALL, mia)).toEqual({ accepted: true });
    expect(await host.settle(run.settled())).toMatchObject({ open: [{ approvedBy: ['mia'], quorum: 2 }] });
    expect(paid).toEqual([]);
    expect(await run.approve(CALL, max)).toEqual({ accepted: true });
    await host.settle(run.settled());
    expect(paid).toEqual([100]);
  });

  test('is not reached by one person twice', async () => {
    const { start, paid, host } = makeDesk({ quorum: 2 });
    const run = await start();
    await run.approve(CALL, mia);
    expect(await run.approve(CALL, mia)).toMatchObject({ code: 'already-decided', by: 'mia' });
    expect(await run.approve(CALL, { as: { name: 'mia', groups: ['other'], known: 'token' } })).toMatchObject(
      {
        code: 'already-decided',
      },
    );
    await host.settle(run.settled());
    expect(paid).toEqual([]);
  });

  test('keeps the names of who has approved from being redacted', async () => {
    const { start, store, events } = makeDesk({ quorum: 2 });
    const run = await start();
    await run.approve(CALL, mia);
    const seq = (await events(run.id)).findIndex(({ type }) => type === 'approval.decided') + 1;
    await expect(store.redact?.(run.id, { paths: [`/${seq}/by`] })).rejects.toMatchObject({
      code: 'refused',
    });
  });

  test('ends with one rejection', async () => {
    const { start, paid, host } = makeDesk({ quorum: 2 });
    const run = await start();
    await run.approve(CALL, mia);
    expect(await run.reject(CALL, max)).toEqual({ accepted: true });
    expect(await host.settle(run.settled())).toMatchObject({ status: 'finished' });
    expect(paid).toEqual([]);
  });

  test('is refused a result that one person gives', async () => {
    const run = await makeDesk({ quorum: 2 }).start();
    expect(await run.answer(CALL, { output: 'paid', ...mia })).toMatchObject({ code: 'refused' });
  });

  test('begins again with changed arguments', async () => {
    const { start, host, paid } = makeDesk({ quorum: 2 });
    const run = await start();
    await run.approve(CALL, mia);
    await run.approve(CALL, { ...max, input: { cents: 200 } });
    expect(await host.settle(run.settled())).toMatchObject({ open: [{ approvedBy: ['max'] }] });
    await run.approve(CALL, mia);
    await host.settle(run.settled());
    expect(paid).toEqual([200]);
  });

  test('is reached once by two approvals in two processes at the same time', async () => {
    const { start, make, host, paid } = makeDesk({ quorum: 2 });
    const first = await start();
    const others = await Promise.all([make().open(first.id), make().open(first.id), make().open(first.id)]);
    const answers = await Promise.all(
      [mia, max, mia].map(async (who, index) => await others[index]?.approve(CALL, who)),
    );
    expect(answers.filter(answer => answer?.accepted)).toHaveLength(2);
    await host.settle(first.settled());
    await host.advance(1_000);
    expect(paid).toEqual([100]);
  });

  test('is kept over a crash between the first and the second approval', async () => {
    const { start, make, host, paid } = makeDesk({ quorum: 2 });
    const run = await start();
    await run.approve(CALL, mia);
    const later = await make().open(run.id);
    expect(await later.settled()).toMatchObject({ open: [{ approvedBy: ['mia'] }] });
    expect(await later.approve(CALL, mia)).toMatchObject({ code: 'already-decided' });
    await later.approve(CALL, max);
    await host.settle(later.settled());
    expect(paid).toEqual([100]);
  });
});

test('a fork after an approval, before the call starts, asks again', async () => {
  const { start, host, events, paid } = makeDesk({ quorum: 2, by: 'managers' });
  const run = await start();
  await run.approve(CALL, mia);
  await run.approve(CALL, max);
  await host.settle(run.settled());
  const decided = (await events(run.id)).flatMap(({ type }, index) =>
    type === 'approval.decided' ? [index + 1] : [],
  );
  for (const at of decided) {
    const fork = await run.fork({ at, by: 'ann' });
    const settled = await host.settle(fork.settled());
    expect(settled).toMatchObject({ status: 'waiting', open: [{ by: ['managers'] }] });
    const [open] = settled.status === 'waiting' ? settled.open : [];
    if (open?.kind === 'approval') expect(open).not.toHaveProperty('approvedBy');
    else expect(await fork.resolve(CALL, { retry: true, by: 'ann' })).toMatchObject(NOT_ALLOWED);
  }
  expect(paid).toEqual([100]);
});

test('after the end of a run, the names of its people can be redacted', async () => {
  const { start, host, store, events } = makeDesk({ quorum: 2, by: 'managers' });
  const run = await start();
  await run.approve(CALL, mia);
  await run.approve(CALL, max);
  expect(await host.settle(run.settled())).toMatchObject({ status: 'finished' });
  const paths = (await events(run.id)).flatMap((event, index) =>
    event.type === 'approval.decided' || event.type === 'run.started' ? [`/${index + 1}/by`] : [],
  );
  await store.redact?.(run.id, { paths });
  expect(JSON.stringify(await events(run.id))).not.toMatch(/"(mia|max|ann)"/);
});

test('a starter whose name is redacted is unknown, so nobody may decide', async () => {
  const { start, make, store } = makeDesk({ not: 'starter' });
  const run = await start();
  await store.redact?.(run.id, { paths: ['/1/by'] });
  const again = await make().open(run.id);
  expect(await again.approve(CALL, ann)).toMatchObject(NOT_ALLOWED);
  expect(await again.approve(CALL, mia)).toMatchObject(NOT_ALLOWED);
});
