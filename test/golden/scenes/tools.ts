import { sleep } from '../../../engine/host/host.ts';
import { calls, makeTool } from '../../support/engine/agents.ts';
import { agentOf, familyOf, type Process, rest, type Scene } from '../engine-process.ts';

const failing = () => {
  throw new Error('no such file');
};

/** An agent that ships and books in the background. */
function shopOf(process: Process) {
  const later = (ms: number, output: string) => ({
    background: true,
    run: async () => {
      await sleep(process.host, ms);
      return output;
    },
  });
  return agentOf(
    process,
    [calls('ship', 'book'), { text: 'I do it.' }, { text: 'Booked.' }, { text: 'Done.' }],
    {
      tools: [makeTool('ship', later(2000, 'shipped')), makeTool('book', later(1000, 'booked'))],
    },
  );
}

/** Parallel calls, sub-agents, and work in the background. */
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
  'tools/background': {
    about: 'Two calls work in the background; the run rests until their outcomes are there.',
    async play(begin) {
      const process = begin();
      const run = await shopOf(process).start('ship');
      await rest(process, run);
      return run.id;
    },
  },
  'tools/run-of-one-call': {
    about: 'The run that does the work of a call.',
    async play(begin) {
      const process = begin();
      const run = await shopOf(process).start('ship');
      await rest(process, run);
      return (await process.store.list({ parent: run.id, order: 'asc' })).runs[0]?.runId ?? '';
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
