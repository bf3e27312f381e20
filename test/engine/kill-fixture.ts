import { appendFileSync, closeSync, existsSync, fsyncSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { scripted } from '../../adapters/scripted.ts';
import { type Host, systemHost } from '../../engine/host.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { createAgent } from '../../surfaces/library/create-agent.ts';
import { calls, makeTool } from './agents.ts';

/**
 * A process that works on one run until it has ended, and kills itself where it is told to.
 * `node kill-fixture.ts FOLDER [POINT NTH]`. In FOLDER: `runs.db`; `trace`, a line for each time a tool
 * acted; `told`, what people were told: accepted decisions, calls in doubt, the end.
 */

const RUN = 'run_killed';

const [folder = '', point = '', nth = '1'] = process.argv.slice(2);
let left = Number(nth);

const host: Host = {
  ...systemHost,
  reach(reached) {
    if (reached !== point) return;
    left -= 1;
    if (left > 0) return;
    write('told', `killed ${point}`);
    process.kill(process.pid, 'SIGKILL');
  },
};

function write(file: string, line: string): void {
  const descriptor = openSync(join(folder, file), 'a');
  appendFileSync(descriptor, `${line}\n`);
  fsyncSync(descriptor);
  closeSync(descriptor);
}

function hasActed(callId: string): boolean {
  const trace = join(folder, 'trace');
  return existsSync(trace) && readFileSync(trace, 'utf8').includes(` ${callId} `);
}

function act(name: string) {
  return async (_: unknown, { callId, key }: { callId: string; key: string }) => {
    await delay(3);
    write('trace', `${name} ${callId} ${key}`);
    await delay(3);
    return `${name} ran`;
  };
}

const store = sqlite(join(folder, 'runs.db'));
const agent = createAgent({
  name: 'killed',
  host,
  store,
  retry: { baseMs: 1 },
  model: scripted([
    calls('read', 'put', 'pay', 'ask', 'refund'),
    { error: { code: 'overloaded', times: 1 } },
    calls('pay', 'refund', 'ask'),
    { text: 'done' },
  ]),
  tools: [
    makeTool('read', { sideEffect: 'none', run: act('read') }),
    makeTool('put', { sideEffect: 'idempotent', run: act('put') }),
    makeTool('pay', { run: act('pay') }),
    makeTool('refund', { approval: true, run: act('refund') }),
    makeTool('ask', {
      run: act('ask'),
      reconcile: ({ callId }) =>
        hasActed(callId) ? { happened: true, output: 'found by the tool' } : { happened: false },
    }),
  ],
});

const known = await store.get(RUN);
const run = known === undefined ? await agent.start('go', { runId: RUN }) : await agent.open(RUN);
for (;;) {
  const settled = await run.settled();
  if (settled.status !== 'waiting') {
    write('told', settled.status);
    break;
  }
  for (const { callId } of settled.approvals) {
    const { accepted } = await run.approve(callId, { by: 'ann' });
    if (accepted) write('told', `accepted ${callId}`);
  }
  for (const { callId } of settled.doubts) {
    write('told', `doubted ${callId}`);
    await run.resolve(callId, hasActed(callId) ? { happened: true, output: 'found' } : { retry: true });
  }
}
await store.close();
