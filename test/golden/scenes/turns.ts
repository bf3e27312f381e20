import { scripted } from '../../../adapters/scripted.ts';
import { calls, makeTool } from '../../support/engine/agents.ts';
import { agentOf, rest, type Scene } from '../engine-process.ts';

/** Model turns: retries, answers, limits and chains of runs. */
export const TURNS: Readonly<Record<string, Scene>> = {
  'turns/retries-and-fallback': {
    about: 'The first model fails once, then for good; the second model takes over. A tool runs twice.',
    async play(begin) {
      const process = begin();
      let failures = 0;
      const flaky = makeTool('flaky', {
        sideEffect: 'idempotent',
        retries: 1,
        run: () => {
          failures += 1;
          if (failures === 1) throw new Error('busy');
          return 'at last';
        },
      });
      const busy = { error: { code: 'overloaded', times: 1 } } as const;
      const gone = { error: { code: 'authentication' } } as const;
      const models = [scripted([busy, calls('flaky'), gone]), scripted([calls('flaky'), { text: 'Done.' }])];
      const run = await agentOf(process, [], { model: models, tools: [flaky] }).start('try');
      await rest(process, run);
      return run.id;
    },
  },
  'turns/separate-answer': {
    about: 'Planning does not stream; its draft is omitted, and a call without tools answers.',
    async play(begin) {
      const process = begin();
      const turns = [calls('read'), { text: 'A draft.' }, { text: 'The answer.' }];
      const agent = agentOf(process, turns, {
        finalAnswer: 'separate',
        tools: [makeTool('read', { sideEffect: 'none' })],
      });
      const run = await agent.start('answer');
      await rest(process, run);
      return run.id;
    },
  },
  'turns/guardrails': {
    about: 'A guardrail blocks the answer once, then changes its text.',
    async play(begin) {
      const process = begin();
      const agent = agentOf(process, [{ text: 'no' }, { text: 'yes' }], {
        finalAnswer: 'held',
        guardrails: {
          answer: text =>
            text === 'no' ? { type: 'block', reason: 'Say yes.' } : { type: 'replace', value: `${text}!` },
        },
      });
      const run = await agent.start('answer');
      await rest(process, run);
      return run.id;
    },
  },
  'turns/closing-call': {
    about: 'The turn limit is reached: one closing call without tools, whose tool calls are refused.',
    async play(begin) {
      const process = begin();
      const turns = [calls('read'), { text: 'In short.', ...calls('read') }];
      const agent = agentOf(process, turns, {
        limits: { turns: 1 },
        tools: [makeTool('read', { sideEffect: 'none' })],
      });
      const run = await agent.start('look');
      await rest(process, run);
      return run.id;
    },
  },
  'turns/finished': {
    about: 'A finished run, which another run continues.',
    async play(begin) {
      const process = begin();
      const run = await agentOf(process, [{ text: 'Hello.' }]).start('hello');
      await rest(process, run);
      return run.id;
    },
  },
  'turns/continued': {
    about: 'A run that continues the finished one.',
    async play(begin) {
      const process = begin();
      const agent = agentOf(process, [{ text: 'Hello.' }, { text: 'Still here.' }]);
      const before = await agent.start('hello');
      await rest(process, before);
      const run = await agent.start('still there?', { continues: before.id });
      await rest(process, run);
      return run.id;
    },
  },
};
