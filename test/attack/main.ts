import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { messageOf } from '../../protocol/error.ts';
import { POSTGRES_BIN, type PostgresServer, startPostgres } from '../support/stores/postgres-server.ts';
import { hasProblems, KINDS, type Kind, type Report, runAttacks } from './attack.ts';
import { FIGURES } from './cases/finding.ts';

const HELP = `Attacks the engine, its adapters, its tools and its servers, and counts what breaks.

  npm run attack -- [--seed N] [--minutes M] [--only KIND] [--store NAME] [--control] [--json]

  --seed N     seed of the generated data and of the kills (default 1)
  --minutes M  time limit in minutes (default 5)
  --only KIND  one of ${KINDS.join(', ')}
  --store NAME sqlite or postgres: where the runs of chaos are (default sqlite)
  --control    only the careless stand-ins, which the attacks must catch: exits 1 because they do
  --json       print a line of JSON at the end`;

const { values: options } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    minutes: { type: 'string', default: '5' },
    only: { type: 'string' },
    store: { type: 'string', default: 'sqlite' },
    control: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});

/** A case that takes longer is frozen; normally the longest case takes a quarter of this time. */
const LONGEST_CASE_MS = 45_000;

function readNumber(name: 'seed' | 'minutes'): number {
  const value = Number(options[name]);
  if (value > 0 && (name === 'minutes' || Number.isInteger(value))) return value;
  throw new Error(`--${name}: expected a number above 0, and got "${options[name]}".`);
}

function readKinds(only: string | undefined): readonly Kind[] {
  if (only === undefined) return KINDS;
  const kind = KINDS.find(known => known === only);
  if (kind !== undefined) return [kind];
  throw new Error(`--only: expected one of ${KINDS.join(', ')}, and got "${only}".`);
}

/** A server of its own for the chaos, if its runs are to be in PostgreSQL. */
async function startServer(): Promise<PostgresServer | undefined> {
  if (options.store === 'sqlite') return undefined;
  if (options.store !== 'postgres')
    throw new Error(`--store: expected sqlite or postgres, and got "${options.store}".`);
  if (POSTGRES_BIN === undefined)
    throw new Error('--store postgres: there is no PostgreSQL on this machine.');
  return await startPostgres(['max_connections=400']);
}

async function main(): Promise<void> {
  const server = await startServer();
  try {
    await attack(server);
  } finally {
    await server?.stop();
  }
}

async function attack(server: PostgresServer | undefined): Promise<void> {
  const report = await runAttacks({
    kinds: readKinds(options.only),
    seed: readNumber('seed'),
    isShort: false,
    totalMs: readNumber('minutes') * 60_000,
    onlyControl: options.control,
    longestMs: LONGEST_CASE_MS,
    ...(server && { makeDatabase: () => server.createDatabase() }),
    lanes: Math.max(2, Math.min(4, availableParallelism())),
    onResult: ({ name, findings }, isControl) => {
      const outcome = findings.length === 0 ? 'held' : `${findings.length} found`;
      console.error(`${name}: ${outcome}${isControl ? ' (control)' : ''}`);
    },
  });
  for (const problem of report.problems) console.error(problem);
  console.log(options.json ? JSON.stringify(report) : describe(report));
  if (hasProblems(report) || options.control) process.exitCode = 1;
}

function describe({ figures, cases, busyMs, seconds, control, chaos, skipped }: Report): string {
  const lines: [string, string | number][] = [
    ['attacks', cases],
    [
      'chaos',
      Object.entries(chaos)
        .map(([name, count]) => `${count} ${name}`)
        .join(', '),
    ],
    ...FIGURES.map((figure): [string, number] => [figure, figures[figure]]),
    ['longest work', `${busyMs} ms`],
    ['seconds', seconds.toFixed(0)],
    ['control', `${control.caught} of ${control.cases} careless stand-ins caught`],
  ];
  for (const what of skipped) lines.push(['skipped', what]);
  return lines.map(([name, value]) => `${name.padEnd(15)}${value}`).join('\n');
}

try {
  if (options.help) console.log(HELP);
  else await main();
} catch (error) {
  console.error(messageOf(error));
  process.exitCode = 2;
}
