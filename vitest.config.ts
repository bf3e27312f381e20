import { globSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, relative } from 'node:path';
import { defineConfig, type TestProjectInlineConfiguration as TestProject } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Tests that wait for processes, servers and browsers of their own. */
const PROCESSES = [
  'attack',
  'bench',
  'cli',
  'durability/{cli-takeover,decision-race,pid-namespaces,two-drivers}',
  'deploy/readme-processes',
  'engine/driver/kill',
  'engine/live/process',
  'engine/versions/command-line',
  'examples',
  'fronts/ag-ui/killed',
  'fronts/react/{page,killed}',
  'faults/real-faults',
  'fronts/otel/{processes,traces-command}',
  'fronts/a2a/processes',
  'fronts/mcp/stdio',
  'package',
  'server/debugger/inspect',
  'server/responses/clients',
  'server/responses/live/interrupted',
  'server/responses/live/killed',
  'server/responses/serve',
  'server/runs/{removal-at-work,serve}',
  'stores/postgres',
  'stores/{sqlite-locks,sqlite-processes,stores-agree}',
  'agent/listening/{serve-webhooks,webhook-killed}',
  'tools/mcp-*',
  'runner/resume',
  'testing/exported-test',
  'types/hover',
  'visualizer/{debugger,deciding,forking,forms,forward,page,roles,run-view,steering,views}',
  'workers',
].map(toFiles);

/** Tests of a second or more of processor time each, without processes of their own. `npm run test:quick` leaves them out. */
const LONG = [
  'adapters/conformance',
  'adapters/recorded/{recorded-streams,recorded-turns}',
  'adapters/harmony/harmony-grpc-conformance',
  'docs/{api-reference,guides}',
  'engine/driver/crash',
  'engine/journal/fold',
  'engine/replay/replay',
  'examples/stand-in/provider',
  'fronts/five-at-once',
  'golden/surfaces',
  'machines/{compile,exploration,fold}',
  'server/responses/{equality,history}',
  'server/responses/context/conversations',
  'server/responses/seed/loop',
  'server/responses/tools/builtin-tools',
  'server/runs/{bodies,events}',
  'server/runs/taking/take-runs',
  'stores/{sqlite,sqlite-damage,sqlite-migration}',
  'testing/play-run',
  'text/citations',
  'work/patterns',
].map(toFiles);

/**
 * Drills and other clients, as long as those above, some with processes. `npm test` runs one list, by the day; each
 * takes about 27 s of processor time.
 */
const IN_TURN = [
  [
    'visualizer/forking',
    'stores/postgres/pooler',
    'parity',
    'faults/{bit-flips,lost-entries}',
    'server/tokens/other-clients',
    'cli/crash-loop',
    'server/responses/approvals/two-servers',
    'fronts/react/killed',
  ],
  [
    'visualizer/steering',
    'explore/predicates',
    'testing/exported-test',
    'durability/two-drivers',
    'stores/common-event',
    'adapters/turn/random-turns',
    'durability/random-approvals',
  ],
  [
    'attack',
    'visualizer/forward',
    'faults/unsynced-writes',
    'types/hover',
    'explore/planted-later',
    'server/runs/removal-at-work',
    'adapters/http/slow-answers',
    'adapters/ai-sdk/ai-sdk-{anthropic,openai}',
  ],
  [
    'examples/use-chat',
    'bench',
    'server/responses/clients',
    'examples/start-on-page',
    'explore/planted-defects',
    'server/chat-completions/clients',
    'engine/sub-agents/sub-agents-crash',
    'work/foreign-text',
    'adapters/vllm/vllm-conformance',
  ],
  [
    'examples/start-on-every-provider',
    'examples/research',
    'fronts/react/page',
    'fronts/ag-ui/killed',
    'tools/mcp-filesystem',
    'tools/mcp-hostile',
    'stores/stores-agree',
    'server/responses/live/interrupted',
    'server/responses/servers',
    'server/runs/{large-results,long-journals}',
    'faults/{store-faults,operation-faults}',
    'adapters/http/hostile-providers',
    'adapters/turn/growing-input',
    'engine/driver/growth',
    'engine/journal/{large-results,full-results}',
    'engine/services/stream-equality',
    'explore/examples',
  ],
].map(list => list.map(toFiles));

/** The tests of a folder, or the files of a name. Throws where there are none: they would run in another project. */
function toFiles(place: string): string {
  const files = `test/${place}.test.ts`;
  const folder = `test/${place}/**/*.test.ts`;
  const found = [files, folder].find(pattern => globSync(pattern, { cwd: import.meta.dirname }).length > 0);
  if (found === undefined) throw new Error(`vitest.config.ts names ${place}, and test/ has no tests there.`);
  return found;
}

/**
 * Two more than there are cores, because tests also wait: for processes, timers and disks. `--maxWorkers` or
 * `VITEST_MAX_WORKERS` takes another number.
 */
const workers = availableParallelism() + 2;

/**
 * A project whose modules Node loads itself, with type stripping, as when the sources are run. Its files share workers
 * and their modules: what a test changes in its process it puts back.
 */
function project(name: string, test: TestProject['test']): TestProject {
  return {
    test: {
      name,
      testTimeout: 90_000,
      hookTimeout: 120_000,
      expect: { poll: { timeout: 60_000 } },
      // Node keeps what it has compiled, type stripping included, by what is in a file.
      env: { NODE_COMPILE_CACHE: join(import.meta.dirname, 'node_modules/.cache/node') },
      unstubEnvs: true,
      unstubGlobals: true,
      experimental: { viteModuleRunner: false, nodeLoader: false },
      setupFiles: [
        'test/support/remove-temporary-folders.ts',
        'test/support/engine/forget-calls.ts',
        'test/support/restore-environment.ts',
      ],
      isolate: false,
      maxWorkers: workers,
      ...test,
    },
  };
}

/** What a usual run takes of the cases that it samples changes by day. */
process.env.AGENTCHART_SEED ??= String(Math.floor(Date.now() / 86_400_000));
const takesAll = process.env.AGENTCHART_TESTS === 'all';
const isQuick = process.env.AGENTCHART_TESTS === 'quick';
if (!takesAll)
  console.error(`Samples of the day: AGENTCHART_SEED=${process.env.AGENTCHART_SEED} takes them again.`);

/** Tests that are named on the command line run on every day. */
const areNamed = process.argv.slice(2).some(arg => arg.includes('test/') || arg.endsWith('.test.ts'));
const day = Number(process.env.AGENTCHART_SEED);
/** In another order from round to round: a list would otherwise meet the same of its samples each time. */
const ofTheDay = (day + 2 * Math.floor(day / IN_TURN.length)) % IN_TURN.length;
const drills = takesAll || areNamed ? IN_TURN.flat() : (IN_TURN[ofTheDay] ?? []);
const onOtherDays = IN_TURN.flat().filter(place => !drills.includes(place));

const long = new Set(globSync([...LONG, ...drills], { cwd: import.meta.dirname }));

/** First the files with processes, which wait, and last the short ones: no file runs alone at the end. */
class ShortFilesLast extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const placeOf = ({ project, moduleId }: TestSpecification): number => {
      if (project.name === 'processes') return 0;
      return long.has(relative(import.meta.dirname, moduleId)) ? 1 : 2;
    };
    return (await super.sort(files)).toSorted((one, other) => placeOf(one) - placeOf(other));
  }
}

export default defineConfig({
  test: {
    sequence: { sequencer: ShortFilesLast },
    // One group, so that all cores are busy where one project ends and the next begins.
    projects: [
      // Processes that a busy machine holds up may run in another order; a defect fails twice. Retries are printed.
      project('processes', {
        include: PROCESSES,
        exclude: onOtherDays,
        globalSetup: 'test/support/build-programs.ts',
        retry: 1,
      }),
      project('shared', {
        include: ['test/**/*.test.ts'],
        exclude: [...PROCESSES, ...(isQuick ? [...LONG, ...IN_TURN.flat()] : onOtherDays)],
      }),
    ],
  },
});
