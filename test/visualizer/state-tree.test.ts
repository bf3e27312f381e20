import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';
import { beforeAll, describe, expect, test } from 'vitest';
import { agentMachine } from '../../machines/agent.ts';
import type { RunEvent } from '../../protocol/event.ts';
import { replaced } from '../../visualizer/build-page.ts';
import { readChart } from '../../visualizer/chart-graph.ts';
import { Folded } from '../../visualizer/page/model/journal-fold.ts';
import { readGolden } from '../golden/golden-journal.ts';

const JOURNALS = [...readGolden('edges'), ...readGolden('runs')].map(
  ([name, { entries }]) => [name, entries.map(({ event }) => event as RunEvent)] as const,
);

type Bundled = { Folded: typeof Folded; readChart: typeof readChart; agentMachine: typeof agentMachine };

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

const PAGE = `export { Folded } from '${ROOT}visualizer/page/model/journal-fold.ts';
  export { readChart } from '${ROOT}visualizer/chart-graph.ts';
  export { agentMachine } from '${ROOT}machines/agent.ts';`;

/** The modules as the page has them: without XState. */
async function bundle(entry: string): Promise<Bundled> {
  const built = await rolldown({
    input: 'entry',
    plugins: [
      {
        name: 'entry',
        resolveId: id => (id === 'entry' ? id : undefined),
        load: id => (id === 'entry' ? entry : undefined),
      },
      replaced,
    ],
  });
  const {
    output: [{ code, moduleIds }],
  } = await built.generate({ codeSplitting: false });
  await built.close();
  expect(moduleIds.filter(name => name.includes('node_modules'))).toEqual([]);
  return await import(`data:text/javascript;base64,${Buffer.from(code).toString('base64')}`);
}

const shapeOf = ({ seq, state, taken, problem, path }: Folded) => ({
  seq,
  taken,
  problem,
  path,
  value: state?.value,
  status: state?.status,
  context: state?.context,
  output: state?.output,
  children: Object.keys(state?.children ?? {}),
  isAtRest: state?.hasTag('rest'),
  nodes: state?._nodes.map(({ id }) => id),
});

describe('the tree of states that the page has in the place of XState', () => {
  let page: Bundled;

  beforeAll(async () => {
    page = await bundle(PAGE);
  });

  test('is the chart that XState reads, with the same states and edges in the same order', () => {
    expect(page.readChart()).toEqual(readChart());
    const [ours, theirs] = [page.agentMachine.root, agentMachine.root].map(root => root.machine.config);
    expect(JSON.stringify(ours)).toBe(JSON.stringify(theirs));
  });

  test('folds every golden journal as the server does, entry by entry', () => {
    expect(JOURNALS.length).toBeGreaterThan(50);
    for (const [name, events] of JOURNALS) {
      let [ours, theirs] = [page.Folded.start, Folded.start];
      for (const [index, event] of events.entries()) {
        ours = ours.take(index + 1, event);
        theirs = theirs.take(index + 1, event);
        expect(shapeOf(ours), `${name}, entry ${index + 1}`).toEqual(shapeOf(theirs));
      }
      expect(theirs.problem).toBeNull();
    }
  });

  test('has no actors: what would run one cannot be bundled', async () => {
    const entry = `export { next } from '${ROOT}machines/step.ts';`;
    await expect(bundle(entry)).rejects.toThrow('"createActor" is not exported');
  });
});
