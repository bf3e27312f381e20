import * as z from 'zod';
import { redactRun } from '../../../engine/journal/redaction/redact-run.ts';
import { atMost, never } from '../../../rules/condition.ts';
import { rule } from '../../../rules/rule.ts';
import { calls, clientTool, makeGate, makeTool } from '../../support/engine/agents.ts';
import { agentOf, rest, type Scene } from '../engine-process.ts';

const LAWYER = { type: 'ask', by: 'legal', reason: 'text from outside was read' } as const;

/** Commands of people: decisions, messages, pauses, cancellations and redactions. */
export const PEOPLE: Readonly<Record<string, Scene>> = {
  'people/mixed-approvals': {
    about:
      'One round with an ungated call, a call approved with an edited input, a rejected call, and a call answered by a person.',
    async play(begin) {
      const process = begin();
      const agent = agentOf(process, [calls('read', 'pay', 'pay', 'pay'), calls('pay'), { text: 'Paid.' }], {
        tools: [makeTool('read', { sideEffect: 'none' }), makeTool('pay', { approval: true })],
      });
      const run = await agent.start('pay');
      const [first = '', second = '', third = ''] = await rest(process, run);
      await run.approve(first, { input: { cents: 5 }, by: 'ann' });
      await run.reject(second, { reason: 'too much', by: 'ben' });
      await run.answer(third, { output: { paid: 'by hand' }, by: 'ann' });
      const [later = ''] = await rest(process, run);
      await run.approve(later, { sticky: true, by: 'ann' });
      await rest(process, run);
      return run.id;
    },
  },
  'people/waits-for-approval': {
    about: 'A run at rest: one call has its result, another waits for an approval that expires.',
    async play(begin) {
      const process = begin();
      const agent = agentOf(process, [calls('read', 'pay')], {
        tools: [
          makeTool('read', { sideEffect: 'none' }),
          makeTool('pay', { approval: () => ({ required: true, reason: 'money', expiresInMs: 86_400_000 }) }),
        ],
      });
      const run = await agent.start('pay');
      await rest(process, run);
      return run.id;
    },
  },
  'people/approval-expires': {
    about: 'An approval expires: the call is rejected, and the model reads that.',
    async play(begin) {
      const process = begin();
      const agent = agentOf(process, [calls('pay'), { text: 'Not paid.' }], {
        tools: [makeTool('pay', { approval: () => ({ required: true, expiresInMs: 5_000 }) })],
      });
      const run = await agent.start('pay');
      await rest(process, run);
      await process.host.advance(5_000);
      await rest(process, run);
      return run.id;
    },
  },
  'people/questions': {
    about:
      'A tool asks two questions at once, of which one is answered and one expires; the answer after it is declined.',
    async play(begin) {
      const process = begin();
      const book = makeTool('book', {
        prepare: async ({ ask }) => {
          await Promise.all([
            ask({ key: 'who', message: 'Who?', schema: z.string(), by: 'sales' }),
            ask({ key: 'when', message: 'When?', schema: z.string(), expiresInMs: 5_000, fallback: 'now' }),
          ]);
          return await ask({ key: 'sure', message: 'Sure?', schema: z.literal(true) });
        },
      });
      const agent = agentOf(process, [calls('book'), { text: 'Not booked.' }], { tools: [book] });
      const run = await agent.start('book');
      const [open = ''] = await rest(process, run);
      await run.answer(open, { answers: { who: 'max' }, as: { name: 'ann', groups: ['sales'] } });
      await process.host.advance(5_000);
      await rest(process, run);
      await run.reject(open, { reason: 'not sure', by: 'ben' });
      await rest(process, run);
      return run.id;
    },
  },
  'people/review': {
    about: 'An answer is reviewed: one is sent back, and the next one changed by the second of two people.',
    async play(begin) {
      const process = begin();
      const agent = agentOf(process, [{ text: 'It costs 5.' }, { text: 'It costs some.' }], {
        finalAnswer: 'held',
        guardrails: { answer: () => ({ type: 'ask', reason: 'a price', quorum: 2, expiresInMs: 60_000 }) },
      });
      const run = await agent.start('how much?');
      await rest(process, run);
      const review = () => run.context.review?.id ?? '';
      await run.approve(review(), { by: 'ann' });
      await run.reject(review(), { reason: 'No numbers.', by: 'ben' });
      await rest(process, run);
      await run.approve(review(), { answer: 'Ask sales.', by: 'ann' });
      await run.approve(review(), { by: 'ben' });
      await rest(process, run);
      return run.id;
    },
  },
  'people/ruled': {
    about: 'A call is approved, and the rules of a later process ask another person, right before it starts.',
    async play(begin) {
      const turns = [calls('read', 'pay'), calls('pay'), { text: 'Paid.' }];
      const tools = [
        makeTool('read', { sideEffect: 'none', tags: ['untrusted'] }),
        makeTool('pay', { approval: true }),
      ];
      const first = begin();
      const started = await agentOf(first, turns, { tools }).start('pay');
      const [early = ''] = await rest(first, started);
      const second = begin();
      const rules = [
        rule({ name: 'no fraud', when: never('pay').after('untrusted'), then: LAWYER }),
        atMost(1).of('pay'),
      ];
      const run = await agentOf(second, turns, { tools, rules }).open(started.id);
      await run.approve(early, { by: 'ann' });
      await rest(second, run);
      await run.approve(early, { as: { name: 'ben', groups: ['legal'] } });
      await rest(second, run);
      return run.id;
    },
  },
  'people/message-supersedes': {
    about: 'A message arrives while one call waits for approval and another for the client.',
    async play(begin) {
      const process = begin();
      const agent = agentOf(process, [calls('pay', 'show'), { text: 'Something else, then.' }], {
        tools: [makeTool('pay', { approval: true }), clientTool('show')],
      });
      const run = await agent.start('pay');
      await rest(process, run);
      await run.send('Wait, something else.', { by: 'ann' });
      const [open = ''] = await rest(process, run);
      await run.answer(open, { output: 'shown', by: 'page' });
      await rest(process, run);
      return run.id;
    },
  },
  'people/message-waits': {
    about: "A message arrives while a call waits for approval; the model reads it after the call's result.",
    async play(begin) {
      const process = begin();
      const agent = agentOf(process, [calls('pay'), { text: 'Paid, and soon.' }], {
        tools: [makeTool('pay', { approval: true })],
        onMessage: 'queue',
      });
      const run = await agent.start('pay');
      const [open = ''] = await rest(process, run);
      await run.send('Hurry up, please.', { by: 'ann' });
      await rest(process, run);
      await run.approve(open, { by: 'ben' });
      await rest(process, run);
      return run.id;
    },
  },
  'people/paused-and-stepped': {
    about: 'A run that starts paused, is stepped once, and is unpaused.',
    async play(begin) {
      const process = begin();
      const agent = agentOf(process, [calls('read'), { text: 'Done.' }], {
        tools: [makeTool('read', { sideEffect: 'none' })],
      });
      const run = await agent.start('look', { paused: true });
      await rest(process, run);
      await run.step({ by: 'ann' });
      await rest(process, run);
      await run.unpause({ by: 'ann' });
      await rest(process, run);
      return run.id;
    },
  },
  'people/cancelled': {
    about: 'A run is cancelled while a once call runs, and reports the call as unsettled.',
    async play(begin) {
      const process = begin();
      const agent = agentOf(process, [calls('read', 'pay')], {
        tools: [makeTool('read', { sideEffect: 'none' }), makeTool('pay', { approval: true })],
      });
      const run = await agent.start('pay');
      await rest(process, run);
      await run.cancel({ by: 'ann', reason: 'changed my mind' });
      await rest(process, run);
      return run.id;
    },
  },
  'people/cancel-requested': {
    about: 'Another process cancels the run: the driver gives the tool its grace time.',
    async play(begin) {
      const [process, other] = [begin(), begin()];
      const gate = makeGate();
      const options = { tools: [makeTool('pay', { run: () => gate.promise.then(() => 'paid') })] };
      const run = await agentOf(process, [calls('pay')], options).start('pay');
      await process.host.idle();
      const seen = await agentOf(other, [calls('pay')], options).open(run.id);
      await seen.cancel({ by: 'ann', reason: 'changed my mind' });
      await process.host.advance(1_000);
      gate.open();
      await rest(process, run);
      return run.id;
    },
  },
  'people/redacted': {
    about: "After its end, the run's input and the input of an approved call were redacted.",
    async play(begin) {
      const process = begin();
      const run = await agentOf(process, [calls(['pay', { to: 'ann' }]), { text: 'Paid.' }], {
        tools: [makeTool('pay', { approval: true })],
      }).start('pay ann');
      const [open = ''] = await rest(process, run);
      await run.approve(open, { by: 'bob' });
      await rest(process, run);
      const turn = (await process.store.read(run.id)).find(({ event }) => event.type === 'turn.completed');
      const paths = ['/1/input/0/content/0/text', `/${turn?.seq}/calls/0/input/to`];
      await redactRun(process.store, run.id, { paths, by: 'eve', host: process.host });
      return run.id;
    },
  },
};
