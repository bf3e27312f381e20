import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { defineConfig, type TestProjectInlineConfiguration as TestProject } from 'vitest/config';

/** Tests that wait for processes, servers and browsers of their own. */
const PROCESSES = [
  'attack',
  'bench',
  'cli',
  'durability/{cli-takeover,decision-race,pid-namespaces,two-drivers}',
  'engine/kill',
  'examples',
  'export/exported-test',
  'faults/real-faults',
  'http/serve',
  'package',
  'responses/{clients,serve}',
  'runner/pick-up',
  'stores/sqlite-{locks,processes}',
  'tools/mcp-*',
  'versions/command-line',
  'visualizer/page',
].map(toFiles);

/** Explorations, drills and measurements that take seconds. */
const LONG = [
  'adapters/{ai-sdk-providers,conformance,random-turns,recorded-streams,recorded-turns}',
  'durability/random-approvals',
  'engine/{crash,growth,large-results,sub-agents-crash}',
  'explore',
  'faults',
  'http/{large-results,long-journals}',
  'machines/{compile,exploration,fold}',
  'work',
].map(toFiles);

/**
 * Tests whose processes are only played: what they leave running is known in the whole worker, by the ids of runs
 * that other files have too.
 */
const PLAYED_PROCESSES = ['docs', 'durability', 'engine', 'export', 'versions'].map(toFiles);

/** A folder of tests, or the files of a name. */
function toFiles(place: string): string {
  return place.includes('/') ? `test/${place}.test.ts` : `test/${place}/**/*.test.ts`;
}

/** Node itself loads the modules, types stripped, as it does for whoever runs the sources. */
function project(name: string, test: TestProject['test']): TestProject {
  return {
    test: {
      name,
      testTimeout: 90_000,
      hookTimeout: 120_000,
      expect: { poll: { timeout: 10_000 } },
      unstubEnvs: true,
      unstubGlobals: true,
      experimental: { viteModuleRunner: false, nodeLoader: false },
      ...test,
    },
  };
}

const cores = Math.max(2, availableParallelism() - 1);

export default defineConfig({
  test: {
    projects: [
      project('processes', {
        include: PROCESSES,
        globalSetup: 'test/build-programs.ts',
        env: { NODE_COMPILE_CACHE: join(import.meta.dirname, 'node_modules/.cache/node') },
        maxWorkers: cores + 1,
        sequence: { groupOrder: 0 },
      }),
      project('long', {
        include: LONG,
        exclude: PROCESSES,
        maxWorkers: cores,
        sequence: { groupOrder: 1 },
      }),
      project('played', {
        include: PLAYED_PROCESSES,
        exclude: [...PROCESSES, ...LONG],
        maxWorkers: cores,
        sequence: { groupOrder: 1 },
      }),
      // Files that share a worker and its modules: what a test changes in its process it puts back.
      project('shared', {
        include: ['test/**/*.test.ts'],
        exclude: [...PROCESSES, ...LONG, ...PLAYED_PROCESSES],
        isolate: false,
        maxWorkers: cores,
        sequence: { groupOrder: 1 },
      }),
    ],
  },
});
