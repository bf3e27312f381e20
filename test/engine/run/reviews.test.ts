import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import type { AskVerdict } from '../../../protocol/guardrail.ts';
import { textOf, userMessage } from '../../../protocol/message.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { answerWith, recordRequests } from '../../support/engine/models.ts';

type Asked = Omit<AskVerdict, 'type' | 'reason'>;

const MANAGERS = ['managers'];
const mia = { as: { name: 'mia', groups: MANAGERS } };
const max = { as: { name: 'max', groups: MANAGERS } };
const ann = { as: { name: 'ann', groups: MANAGERS } };
const REFUSED = { accepted: false };

/** An agent that answers `answer 0`, `answer 1`, …, each of which a person has to see. */
function makeDesk(asked: Asked = {}, options: Partial<AgentOptions> = {}) {
  const store = memory();
  const host = new ManualHost();
  const { model, requests } = recordRequests(answerWith((_, before) => ({ text: `answer ${before}` })));
  let checks = 0;
  const guardrails = {
    answer: () => {
      checks += 1;
      return { type: 'ask' as const, reason: 'it names a price', ...asked };
    },
  };
  const make = (more: Partial<AgentOptions> = {}) =>
    createAgent({ name: 'desk', host, store, model, guardrails, ...options, ...more });
  const start = async (by: string | undefined = 'ann') => {
    const run = await make().start('how much?', by === undefined ? {} : { by });
    await run.settled();
    return run;
  };
  const events = async (runId: string) => (await store.read(runId)).map(({ event }) => event);
  const typesOf = async (runId: string) => (await events(runId)).map(({ type }) => type);
  return { store, host, make, start, events, typesOf, requests, checks: () => checks };
}

type Desk = ReturnType<typeof makeDesk>;
type Run = Awaited<ReturnType<Desk['start']>>;

async function reviewOf(run: Run) {
  const settled = await run.settled();
  const review = settled.status === 'waiting' ? settled.reviews[0] : undefined;
  if (review === undefined) throw new Error(`no review is open: ${JSON.stringify(settled)}`);
  return review;
}

/** What the model read last. */
function lastRead({ requests }: Desk): string[] {
  return (requests.at(-1)?.transcript ?? []).flatMap(item =>
    item.type === 'message' && item.role === 'developer' ? [textOf(item)] : [],
  );
}

describe('an answer that a guardrail asks about', () => {
  test('waits for a person, and is given once one has approved it', async () => {
    const desk = makeDesk();
    const run = await desk.start();
    const review = await reviewOf(run);
    expect(review).toMatchObject({
      kind: 'review',
      runId: run.id,
      answer: 'answer 0',
      reason: 'it names a price',
    });
    expect(await run.settled()).toMatchObject({
      status: 'waiting',
      open: [review],
      approvals: [],
      doubts: [],
    });
    expect(run.durable.state.value).toEqual({ resting: 'awaitingReview' });
    expect((await desk.store.get(run.id))?.waitsFor).toEqual([
      { type: 'review', callId: review.callId, name: 'answer' },
    ]);
    expect(await run.approve(review, { by: 'mia' })).toEqual({ accepted: true });
    expect(await run.settled()).toMatchObject({ status: 'finished', text: 'answer 0', turns: 1 });
    expect(desk.checks()).toBe(1);
  });

  test('is given as a person changed it, and a run that continues reads what the user got', async () => {
    const desk = makeDesk();
    const run = await desk.start();
    await run.approve(await reviewOf(run), { answer: 'ask sales' });
    expect(await run.settled()).toMatchObject({ status: 'finished', text: 'ask sales', turns: 1 });
    expect(desk.checks()).toBe(1);
    const next = await desk.make().start('and then?', { continues: run.id });
    await next.settled();
    expect(lastRead(desk)).toEqual([expect.stringContaining('ask sales')]);
  });

  test('goes back to the model with the remark, as often as the limits of the run allow', async () => {
    const desk = makeDesk({}, { limits: { turns: 5 } });
    const run = await desk.start();
    for (let time = 0; time < 4; time += 1) {
      const review = await reviewOf(run);
      expect(review.answer).toBe(`answer ${time}`);
      expect(await run.reject(review, { reason: `remark ${time}` })).toEqual({ accepted: true });
    }
    await run.settled();
    expect(lastRead(desk)).toEqual([0, 1, 2, 3].map(time => expect.stringContaining(`remark ${time}`)));
    await run.approve(await reviewOf(run));
    expect(await run.settled()).toMatchObject({ status: 'finished', text: 'answer 4', turns: 5 });
  });

  test('ends the run if it is sent back when a limit allows no other', async () => {
    for (const onLimit of ['answer', 'stop'] as const) {
      const desk = makeDesk({}, { limits: { turns: 1 }, onLimit });
      const run = await desk.start();
      await run.reject(await reviewOf(run), { reason: 'no price' });
      if (onLimit === 'answer') await run.reject(await reviewOf(run), { reason: 'no price' });
      expect(await run.settled()).toMatchObject({
        status: 'failed',
        error: { code: 'answer-blocked', message: expect.stringContaining('no price') },
      });
    }
  });

  test('is asked about by all guardrails together, and not at all if one blocks it', async () => {
    const answer = [
      () => ({ type: 'ask' as const, reason: 'it names a price', by: ['managers', 'sales'] }),
      (text: string) => ({ type: 'replace' as const, value: `${text}!` }),
      () => ({ type: 'ask' as const, reason: 'it is long', by: 'managers', quorum: 2 }),
    ];
    const desk = makeDesk({}, { guardrails: { answer } });
    const run = await desk.start();
    expect(await reviewOf(run)).toMatchObject({
      answer: 'answer 0!',
      reason: 'it names a price; it is long',
      by: ['managers'],
      quorum: 2,
    });
    const block = () => ({ type: 'block' as const, reason: 'never' });
    const blocked = makeDesk({}, { guardrails: { answer: [...answer, block] } });
    expect(await (await blocked.start()).settled()).toMatchObject({ status: 'failed' });
    expect(await blocked.typesOf((await blocked.start()).id)).not.toContain('review.requested');
  });
});

describe('an answer with an output schema', () => {
  const output = z.object({ cents: z.number() });
  const makeOffer = (text = '{"cents":1}') => {
    const { model } = recordRequests(answerWith(() => ({ text })));
    return makeDesk({}, { model, output });
  };

  test('is reviewed once it follows the schema, with its value', async () => {
    const run = await makeOffer().start();
    const review = await reviewOf(run);
    expect(review).toMatchObject({ answer: '{"cents":1}', output: { cents: 1 } });
    await run.approve(review);
    expect(await run.settled()).toMatchObject({ status: 'finished', output: { cents: 1 } });
    expect(await (await makeOffer('cheap').start()).settled()).toMatchObject({ status: 'failed' });
  });

  test('is changed to a value or a text that follows the schema, and to no other', async () => {
    for (const answer of [{ cents: 2 }, '{"cents":2}', '```json\n{"cents":2}\n```']) {
      const run = await makeOffer().start();
      const review = await reviewOf(run);
      for (const wrong of ['two', { cents: 'two' }, 2])
        expect(await run.approve(review, { answer: wrong })).toMatchObject({
          ...REFUSED,
          code: 'input-invalid',
          message: expect.stringContaining('not valid'),
        });
      expect(await run.approve(review, { answer })).toEqual({ accepted: true });
      expect(await run.settled()).toMatchObject({ status: 'finished', output: { cents: 2 } });
    }
  });
});

describe('a decision about an answer', () => {
  test('counts once: a second one is told who decided', async () => {
    const desk = makeDesk();
    const run = await desk.start();
    const review = await reviewOf(run);
    await run.reject(review, { reason: 'no', by: 'mia' });
    const second = await reviewOf(run);
    expect(second.callId).not.toBe(review.callId);
    for (const late of [
      await run.approve(review),
      await run.approve(review.callId),
      await run.reject(review),
    ])
      expect(late).toMatchObject({ ...REFUSED, code: 'already-decided', by: 'mia' });
    await run.approve(second, { by: 'max' });
    await run.settled();
    expect(await run.reject(second)).toMatchObject({ ...REFUSED, code: 'already-decided', by: 'max' });
    expect(await run.approve('review_of_another')).toMatchObject({ ...REFUSED, code: 'call-unknown' });
  });

  test('of two processes at once counts once, and the other is refused', async () => {
    const desk = makeDesk();
    const run = await desk.start();
    const review = await reviewOf(run);
    const other = await desk.make().open(run.id);
    const results = await Promise.all([
      run.approve(review, { by: 'mia' }),
      other.reject(review, { by: 'max' }),
    ]);
    expect(results.filter(({ accepted }) => accepted)).toHaveLength(1);
    expect(results.find(({ accepted }) => !accepted)).toMatchObject({ code: 'already-decided' });
    const decided = (await desk.events(run.id)).filter(({ type }) => type === 'review.decided');
    expect(decided).toHaveLength(1);
  });

  test('is refused where it does not fit: another digest, options of calls, and what is for calls', async () => {
    const run = await makeDesk().start();
    const review = await reviewOf(run);
    const id = review.callId;
    expect(await run.approve(id, { digest: 'another' })).toMatchObject({ ...REFUSED, code: 'wrong-digest' });
    for (const refused of [
      await run.approve(id, { sticky: true }),
      await run.reject(id, { sticky: true }),
      await run.approve(id, { input: {} }),
      await run.approve(id, { answer: { cents: 1 } }),
      await run.approve(id, { answer: 'x'.repeat(1_048_577) }),
      await run.answer(id, { output: 'yes' }),
      await run.resolve(id, { retry: true }),
    ])
      expect(refused).toMatchObject({ ...REFUSED, code: 'input-invalid' });
    expect(await run.settled()).toMatchObject({ status: 'waiting', reviews: [review] });
  });

  test('after the end is refused, and changes nothing', async () => {
    const desk = makeDesk();
    const run = await desk.start();
    const review = await reviewOf(run);
    await run.cancel();
    const before = await desk.typesOf(run.id);
    expect(await run.reject(review, { reason: 'no' })).toMatchObject({ ...REFUSED, code: 'run-ended' });
    expect(await run.approve(review.callId)).toMatchObject({ ...REFUSED, code: 'run-ended' });
    expect(await desk.typesOf(run.id)).toEqual(before);
    expect(await run.settled()).toMatchObject({ status: 'cancelled' });
  });

  test('replays without the code of the agent', async () => {
    const desk = makeDesk();
    const run = await desk.start();
    await run.reject(await reviewOf(run), { reason: 'shorter' });
    await run.approve(await reviewOf(run), { answer: 'short' });
    const settled = await run.settled();
    expect(settled).toMatchObject({ status: 'finished', text: 'short' });
    expect(await replayRun(desk.store, run.id)).toMatchObject({ equal: true });
  });
});

describe('who decides about an answer', () => {
  test('is a person in the group who did not write in the run, and nobody else, operators included', async () => {
    const desk = makeDesk({ by: 'managers', not: 'sender' });
    const run = await desk.start();
    const review = await reviewOf(run);
    expect(review).toMatchObject({ by: ['managers'], not: 'sender', excluded: ['ann'] });
    for (const who of [{}, { by: 'mia' }, { as: { name: 'bob', groups: ['sales'] } }, ann])
      for (const refused of [
        await run.approve(review, who),
        await run.approve(review, { answer: 'mine', ...who }),
        await run.reject(review, who),
        await run.editTurn({ text: 'mine', ...who }),
        await run.editTranscript([], who),
      ])
        expect(refused).toMatchObject({ ...REFUSED, code: 'not-allowed', by: ['managers'] });
    await run.approve(review, mia);
    expect(await run.settled()).toMatchObject({ status: 'finished', text: 'answer 0' });
  });

  test('is as many people as the quorum says; a changed answer needs all of them again', async () => {
    const run = await makeDesk({ quorum: 2 }).start();
    const review = await reviewOf(run);
    expect(await run.approve(review, mia)).toEqual({ accepted: true });
    expect(await reviewOf(run)).toMatchObject({ approvedBy: ['mia'], digest: review.digest });
    expect(await run.approve(review, mia)).toMatchObject({ ...REFUSED, code: 'already-decided', by: 'mia' });
    expect(await run.approve(review, { answer: 'less', ...max })).toEqual({ accepted: true });
    const changed = await reviewOf(run);
    expect(changed).toMatchObject({ answer: 'less', approvedBy: ['max'] });
    expect(await run.approve(review, mia)).toMatchObject({ ...REFUSED, code: 'wrong-digest' });
    await run.approve(changed, mia);
    expect(await run.settled()).toMatchObject({ status: 'finished', text: 'less' });
  });

  test('a fork needs the approvals again', async () => {
    const desk = makeDesk({ quorum: 2 });
    const run = await desk.start();
    const review = await reviewOf(run);
    await run.approve(review, mia);
    const fork = await run.fork({ at: (await desk.events(run.id)).length });
    const open = await reviewOf(fork);
    expect(open.approvedBy).toBeUndefined();
    await fork.approve(open, mia);
    expect(await fork.settled()).toMatchObject({ status: 'waiting' });
    await fork.approve(open, max);
    expect(await fork.settled()).toMatchObject({ status: 'finished', text: 'answer 0' });
    expect(await run.settled()).toMatchObject({ status: 'waiting' });
  });
});

describe('while an answer is under review', () => {
  test('a message waits, and the model reads it after the decision', async () => {
    const desk = makeDesk();
    const run = await desk.start();
    const review = await reviewOf(run);
    await run.send('and in euros?');
    expect(await reviewOf(run)).toEqual(review);
    await run.approve(review);
    expect(await reviewOf(run)).toMatchObject({ answer: 'answer 1' });
    expect(JSON.stringify(desk.requests.at(-1)?.transcript)).toContain('and in euros?');
  });

  test('a message that supersedes takes the answer back', async () => {
    const desk = makeDesk({}, { onMessage: 'supersede' });
    const run = await desk.start();
    const review = await reviewOf(run);
    await run.send('never mind, in euros?');
    expect(await reviewOf(run)).toMatchObject({ answer: 'answer 1' });
    expect(lastRead(desk)).toEqual([expect.stringContaining('not given')]);
    expect(await run.approve(review)).toMatchObject({ ...REFUSED, code: 'call-not-open' });
  });

  test('it expires: the model is told, and after three times the run fails', async () => {
    const desk = makeDesk({ expiresInMs: 1_000 });
    const run = await desk.start();
    for (let time = 0; time < 3; time += 1) {
      const review = await reviewOf(run);
      expect(review.expiresAt).toBe(desk.host.now() + 1_000);
      await desk.host.advance(1_000);
      await run.settled();
      expect(await run.approve(review)).toMatchObject(REFUSED);
      if (time < 2)
        expect(lastRead(desk)).toContain('This answer was not given: it was not reviewed in time.');
    }
    expect(await run.settled()).toMatchObject({ status: 'failed', error: { code: 'answer-blocked' } });
  });

  test('a decision that comes after its time is refused, even if nothing has noticed the time', async () => {
    const desk = makeDesk({ expiresInMs: 1_000 });
    const run = await desk.start();
    const review = await reviewOf(run);
    await run.yield({ graceMs: 0 });
    const later = new ManualHost();
    await later.advance(desk.host.now() + 2_000 - later.now());
    const other = await desk.make({ host: later }).open(run.id);
    expect(await other.approve(review)).toMatchObject({ ...REFUSED, code: 'expired' });
  });

  test('the run can be paused and edited; the edited answer is checked anew', async () => {
    const desk = makeDesk();
    const run = await desk.start();
    const review = await reviewOf(run);
    await run.pause();
    expect(await reviewOf(run)).toEqual(review);
    expect(await run.editTurn({ text: 'edited' })).toEqual({ accepted: true });
    await run.unpause();
    const again = await reviewOf(run);
    expect(again).toMatchObject({ answer: 'edited' });
    expect(desk.checks()).toBe(2);
    expect(await run.approve(review)).toMatchObject({ ...REFUSED, code: 'call-not-open' });
    await run.approve(again);
    expect(await run.settled()).toMatchObject({ status: 'finished', text: 'edited' });
  });

  test('an edit of the transcript withdraws it: the model answers again, or the edited answer is checked', async () => {
    for (const end of ['user', 'assistant'] as const) {
      const desk = makeDesk();
      const run = await desk.start();
      const review = await reviewOf(run);
      const edited = { ...userMessage('edited'), role: end };
      expect(await run.editTranscript([userMessage('how much?'), edited], { by: 'mia' })).toEqual({
        accepted: true,
      });
      const again = await reviewOf(run);
      expect(again.callId).not.toBe(review.callId);
      expect(again.answer).toBe(end === 'user' ? 'answer 1' : 'edited');
      expect([desk.requests.length, desk.checks()]).toEqual(end === 'user' ? [2, 2] : [1, 2]);
      for (const late of [await run.approve(review), await run.reject(review.callId)])
        expect(late).toMatchObject({ ...REFUSED, code: 'call-not-open' });
      await run.approve(again);
      expect(await run.settled()).toMatchObject({ status: 'finished', text: again.answer });
      expect(await replayRun(desk.store, run.id)).toMatchObject({ equal: true });
    }
  });

  test('another process, without what the agent was, gives the decision and ends the run', async () => {
    const desk = makeDesk();
    const run = await desk.start();
    const review = await reviewOf(run);
    await run.yield({ graceMs: 0 });
    const other = await desk.make().open(run.id);
    await other.approve(review, { by: 'mia' });
    expect(await other.settled()).toMatchObject({ status: 'finished', text: 'answer 0' });
    expect(desk.requests).toHaveLength(1);
    expect(desk.checks()).toBe(1);
  });
});

describe('readers of a run whose answer is reviewed', () => {
  const textOfRun = async (run: Run) => {
    const pieces: string[] = [];
    for await (const piece of run.text()) pieces.push(piece);
    return pieces.join('');
  };

  test('get nothing of a held answer before it is approved, and then what was approved', async () => {
    const desk = makeDesk({}, { finalAnswer: 'held' });
    const run = await desk.start();
    expect(await textOfRun(run)).toBe('');
    await run.reject(await reviewOf(run), { reason: 'shorter' });
    await run.settled();
    expect(await textOfRun(run)).toBe('');
    await run.approve(await reviewOf(run), { answer: 'short' });
    expect(await textOfRun(run)).toBe('short');
  });

  test('have a live answer taken back when it is sent back', async () => {
    const desk = makeDesk();
    const run = await desk.start();
    const notices: string[] = [];
    const reading = (async () => {
      for await (const event of run.events({ follow: true })) {
        if (event.type === 'text.discarded') notices.push(`${event.type} ${event.turn}`);
        if (event.type === 'review.decided' && event.decision.type === 'approve') return;
      }
    })();
    await run.reject(await reviewOf(run), { reason: 'shorter' });
    await run.approve(await reviewOf(run));
    await reading;
    expect(notices).toEqual(['text.discarded 1']);
  });

  test('are told by the story that it is asked about, sent back, changed and given', async () => {
    const desk = makeDesk();
    const run = await desk.start();
    await run.reject(await reviewOf(run), { reason: 'shorter', by: 'mia' });
    await run.approve(await reviewOf(run), { answer: 'short', by: 'max' });
    await run.settled();
    const told: unknown[] = [];
    for await (const event of run.story()) if (/^(review|answer)\./.test(event.type)) told.push(event);
    expect(told).toMatchObject([
      { type: 'review.asked', open: { kind: 'review', answer: 'answer 0' } },
      { type: 'review.decided', approved: false, reason: 'shorter', by: 'mia' },
      { type: 'answer.blocked', reason: expect.stringContaining('shorter') },
      { type: 'review.asked', open: { kind: 'review', answer: 'answer 1' } },
      { type: 'review.decided', approved: true, edited: true, by: 'max' },
      { type: 'answer.changed', text: 'short' },
    ]);
  });
});
