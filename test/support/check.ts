/**
 * `npm run check`: types, lint and unused code, in two lanes at once. Type checks have one thread each: with more,
 * the compiler checks common types again in each, for twice the CPU time.
 */
import { exec } from 'node:child_process';
import { promisify } from 'node:util';

/** The compiler of the project: another version is installed beside it, for the types of the package. */
const TSC = 'node node_modules/typescript/bin/tsc --singleThreaded';

const LANES = [
  [
    'node test/support/docs/write-guide-blocks.ts',
    `${TSC} --noEmit --incremental --tsBuildInfoFile node_modules/.cache/tsc.tsbuildinfo`,
  ],
  [
    'knip --no-progress',
    `${TSC} -p visualizer/page/tsconfig.json`,
    `${TSC} -p examples/apps/react-chat/tsconfig.json`,
    'biome check --colors=off --error-on-warnings .',
  ],
];

/** Runs commands until one fails, and prints what that one reports. */
async function runLane(commands: readonly string[]): Promise<boolean> {
  for (const command of commands) {
    const failure = await promisify(exec)(command, { maxBuffer: 2 ** 26 }).then(
      () => undefined,
      error => error,
    );
    if (failure === undefined) continue;
    console.error(`${command}\n${failure.stdout ?? ''}${failure.stderr ?? failure}`);
    return false;
  }
  return true;
}

const passed = await Promise.all(LANES.map(runLane));
if (!passed.every(Boolean)) process.exitCode = 1;
