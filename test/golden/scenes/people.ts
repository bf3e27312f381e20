import { redactRun } from '../../../engine/journal/redaction/redact-run.ts';
import { calls, clientTool, makeGate, makeTool } from '../../support/engine/agents.ts';
import { agentOf, rest, type Scene } from '../engine-process.ts';

/** Commands of people: decisions, messages, pauses, cancellations and redactions. */
export const PEOPLE: Readonly<Record<string, Scene>> = {
  'people/mixed-approvals': {
    about: 'A round of a free call, one approved with another input, one rejected, one answered by a person.',
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
    about: 'A run that rests: one call was run, another waits for a person, with a deadline.',
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
    about: 'Nobody decides in time: the call is refused and the model told.',
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
  'people/message-supersedes': {
    about: 'A message comes while a call waits for approval and another for the client.',
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
    about: 'A message comes while a call waits for approval, and is read after the result of the call.',
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
    about: 'A run that begins paused, is stepped once, and let go.',
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
    about: 'Somebody cancels while a once call is open; the run tells what is unsettled.',
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
    about: 'A process asks the one that drives the run to cancel it: its tool has the grace time.',
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
    about: 'What was asked, and the input of a call that was approved, were redacted when the run had ended.',
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
