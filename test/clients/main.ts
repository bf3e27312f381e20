import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Check } from './check.ts';
import { CONFORMANCE } from './conformance/conformance.ts';
import { installClients } from './install.ts';
import { SCENARIOS } from './scenarios/all.ts';
import { checkOf } from './scenarios/scenario.ts';

const HELP = `Plays coding agents, unmodified, against the gateway and a scripted upstream, and the conformance suite of MCP.

  npm run test:clients -- [--only TEXT] [--keep]
  npm run test:clients -- --list

  --only TEXT  plays what has TEXT in its name
  --keep       keeps the folders
  --list       prints all names

Exits with 1 if one fails.`;

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    list: { type: 'boolean' },
    keep: { type: 'boolean' },
    help: { type: 'boolean' },
  },
});
const all: readonly Check[] = [...SCENARIOS.map(checkOf), ...CONFORMANCE];
const chosen = all.filter(({ name }) => name.includes(values.only ?? ''));

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));
if (values.help === true) console.log(HELP);
else if (values.list === true) for (const { name } of chosen) console.log(name);
else await playAll();

async function playAll(): Promise<void> {
  const { commands, skipped } = installClients([...new Set(chosen.map(check => check.package))]);
  for (const line of skipped) console.log(`skipped ${line}`);
  if (chosen.length === 0) throw new Error(`nothing has "${values.only}" in its name`);
  for (const { name, needs, play, ...check } of chosen) {
    const command = commands.get(check.package);
    if (command === undefined) continue;
    if (needs !== undefined && !isOnPath(needs)) {
      console.log(`skipped ${name}: there is no ${needs}`);
      continue;
    }
    const start = performance.now();
    try {
      const found = await play(command, values.keep === true);
      console.log(`ok      ${name} (${Math.round(performance.now() - start)} ms): ${found}`);
    } catch (error) {
      process.exitCode = 1;
      console.log(`FAILED  ${name}: ${error instanceof Error ? error.stack : String(error)}`);
    }
  }
}

function isOnPath(program: string): boolean {
  return (process.env.PATH ?? '').split(delimiter).some(folder => existsSync(join(folder, program)));
}
