/**
 * The chart as an XState actor in your own app: its snapshot is stored as JSON while a person decides, and an
 * actor in a new process continues from it. `npm run -s example:actor` runs both processes.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createActor, type Snapshot, waitFor } from 'xstate';
import * as z from 'zod';
// In a project of your own: from 'agentchart' and 'agentchart/adapters/scripted'.
import { scripted } from '../adapters/scripted.ts';
import { createAgent, tool } from '../agent/index.ts';

const publish = tool({
  name: 'publish',
  description: 'Publishes a page.',
  input: z.object({ page: z.string() }),
  approval: true,
  run: ({ page }) => `${page} is live`,
});

const agent = createAgent({
  name: 'publisher',
  model: scripted([
    { text: 'I will publish it.', toolCalls: [{ name: 'publish', arguments: { page: 'home' } }] },
    { text: 'The home page is live.' },
  ]),
  tools: [publish],
});

const file = process.argv[2];
if (file === undefined) runBoth();
else if (process.argv[3] === 'approve') await approve(file);
else await begin(file);

function machineThatPersists(path: string) {
  const persist = (snapshot: unknown) => writeFileSync(path, JSON.stringify(snapshot));
  return agent.machine.provide({ actors: agent.services({ persist }) });
}

async function begin(path: string): Promise<void> {
  const actor = createActor(machineThatPersists(path), { input: agent.input('Publish the home page.') });
  actor.start();
  await waitFor(actor, state => state.hasTag('rest'));
  writeFileSync(path, JSON.stringify(actor.getPersistedSnapshot()));
  console.log(
    `process ${process.pid}: resting in ${JSON.stringify(actor.getSnapshot().value)}, snapshot saved`,
  );
  actor.stop();
}

async function approve(path: string): Promise<void> {
  const snapshot: Snapshot<unknown> = JSON.parse(readFileSync(path, 'utf8'));
  const machine = machineThatPersists(path);
  const actor = createActor(machine, { snapshot, input: agent.input('') });
  actor.start();
  const [call] = actor.getSnapshot().context.calls;
  if (call === undefined) throw new Error('The snapshot has no open call.');
  console.log(`process ${process.pid}: approving ${call.name} ${JSON.stringify(call.input)}`);
  actor.send({
    type: 'approval.decided',
    at: Date.now(),
    callId: call.callId,
    digest: call.digest,
    decision: { type: 'approve' },
  });
  const end = await waitFor(actor, state => state.status === 'done');
  console.log(`process ${process.pid}: ${JSON.stringify(end.value)}: ${end.context.answer?.text}`);
}

function runBoth(): void {
  const folder = mkdtempSync(join(tmpdir(), 'agentchart-actor-'));
  const self = fileURLToPath(import.meta.url);
  for (const phase of ['begin', 'approve']) {
    const { status } = spawnSync(process.execPath, [self, join(folder, 'snapshot.json'), phase], {
      stdio: 'inherit',
    });
    if (status !== 0) process.exitCode = status ?? 1;
  }
  rmSync(folder, { recursive: true });
}
