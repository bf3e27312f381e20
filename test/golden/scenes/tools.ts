import { calls, makeTool } from '../../support/engine/agents.ts';
import { agentOf, familyOf, rest, type Scene } from '../engine-process.ts';

const failing = () => {
  throw new Error('no such file');
};

/** Parallel calls, and sub-agents. */
export const TOOLS: Readonly<Record<string, Scene>> = {
  'tools/parallel-tools': {
    about: 'Three tools run in parallel; one fails, one is unknown; the model answers.',
    async play(begin) {
      const process = begin();
      const agent = agentOf(
        process,
        [{ text: 'Let me see.', ...calls('read', 'list', 'lost') }, { text: 'Done.' }],
        {
          tools: [makeTool('read', { sideEffect: 'none' }), makeTool('list', { run: failing })],
        },
      );
      const run = await agent.start('look');
      await rest(process, run);
      return run.id;
    },
  },
  'tools/sub-agent': {
    about:
      'A sub-agent waits for approval; its parent waits for the sub-agent and continues with its answer.',
    async play(begin) {
      const process = begin();
      const run = await familyOf(process).start('pay');
      const [open = ''] = await rest(process, run);
      await run.approve(open, { by: 'ann' });
      await rest(process, run);
      return run.id;
    },
  },
  'tools/run-of-a-sub-agent': {
    about: 'The run of the sub-agent.',
    async play(begin) {
      const process = begin();
      const run = await familyOf(process).start('pay');
      const [open = ''] = await rest(process, run);
      await run.approve(open, { by: 'ann' });
      await rest(process, run);
      const runs = (await process.store.list()).runs;
      return runs.find(({ runId }) => runId !== run.id)?.runId ?? '';
    },
  },
};
