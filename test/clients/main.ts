/**
 * `npm run test:clients`: coding agents, unmodified, against the gateway and a scripted upstream. `--only NAME` plays
 * the scenarios whose name has that in it, `--list` names them, `--keep` keeps their folders. Exits with 1 if one fails.
 */
import { parseArgs } from 'node:util';
import { Desk } from './desk.ts';
import { installClients } from './install.ts';
import { SCENARIOS } from './scenarios/all.ts';
import type { Scenario } from './scenarios/scenario.ts';

const { values } = parseArgs({
  options: { only: { type: 'string' }, list: { type: 'boolean' }, keep: { type: 'boolean' } },
});
const chosen = SCENARIOS.filter(({ name }) => name.includes(values.only ?? ''));

if (values.list === true) for (const { name } of chosen) console.log(name);
else await playAll();

async function playAll(): Promise<void> {
  const { commands, skipped } = installClients([...new Set(chosen.map(({ client }) => client.package))]);
  for (const line of skipped) console.log(`skipped ${line}`);
  let failed = 0;
  for (const scenario of chosen) {
    const command = commands.get(scenario.client.package);
    if (command === undefined) continue;
    if (!(await playOne(scenario, command))) failed += 1;
  }
  if (chosen.length === 0) console.log(`no scenario has "${values.only}" in its name`);
  if (failed > 0 || chosen.length === 0) process.exitCode = 1;
}

/** Plays a scenario, and checks what holds for each: nothing was refused upstream, and nothing paid twice. */
async function playOne({ name, scripts, play, ...options }: Scenario, command: string): Promise<boolean> {
  const start = performance.now();
  await using desk = await Desk.open({ ...options, command, scripts: [] });
  desk.upstream.scripts = scripts(desk);
  try {
    const found = await play(desk);
    if (desk.upstream.problems.length > 0) throw new Error('the upstream refused requests');
    if (desk.upstream.lost.length > 0) throw new Error(`without reasoning: ${desk.upstream.lost.join('; ')}`);
    if (desk.upstream.paidTwice.length > 0) throw new Error(`paid twice: ${desk.upstream.paidTwice}`);
    console.log(`ok      ${name} (${Math.round(performance.now() - start)} ms): ${found}`);
    if (values.keep === true) keep(desk);
    else desk.remove();
    return true;
  } catch (error) {
    console.log(`FAILED  ${name}: ${error instanceof Error ? error.stack : String(error)}`);
    for (const problem of desk.upstream.problems) console.log(`        ${problem}`);
    keep(desk);
    return false;
  }
}

function keep(desk: Desk): void {
  desk.writeRecord();
  console.log(`        ${desk.folder}`);
}
