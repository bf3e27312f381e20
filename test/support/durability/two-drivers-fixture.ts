import { appendFileSync, closeSync, existsSync, fsyncSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { type Host, systemHost } from '../../../engine/host/host.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { calls, makeTool } from '../engine/agents.ts';
import { watchStore } from '../engine/watched-store.ts';

/**
 * A process that drives one run until it settles, or follows it while another process drives, and stops itself
 * (SIGSTOP) at STOP. `node two-drivers-fixture.ts FOLDER NAME TOOL LEASE_MS [STOP]`.
 *
 * Files in FOLDER: `runs.db`; `trace`, a line `NAME CALL KEY` for each execution of a tool; `told`, the reports
 * of each process. STOP is a fault point of the engine with its occurrence (`model.before 1`), or
 * a step of the call: `before-start`, `after-start`, `in-tool`, `acted`, `before-result`, `after-result`.
 * The tool `hold` waits until FOLDER has the file `go`.
 */

const RUN = 'run_shared';

const [folder = '', name = '', tool = '', leaseMs = '', stop = ''] = process.argv.slice(2);

function write(file: string, line: string): void {
  const descriptor = openSync(join(folder, file), 'a');
  appendFileSync(descriptor, `${line}\n`);
  fsyncSync(descriptor);
  closeSync(descriptor);
}

const passed = new Map<string, number>();

function pass(point: string): void {
  const count = (passed.get(point) ?? 0) + 1;
  passed.set(point, count);
  if (stop !== point && stop !== `${point} ${count}`) return;
  write('told', `${name} stopped at ${stop}`);
  process.kill(process.pid, 'SIGSTOP');
}

const host: Host = { ...systemHost, leaseMs: Number(leaseMs), reach: pass };

function has(events: readonly RunEvent[], type: RunEvent['type']): boolean {
  return events.some(event => event.type === type);
}

const store = watchStore(sqlite(join(folder, 'runs.db')), {
  beforeAppend(_, events) {
    if (has(events, 'tool.started')) pass('before-start');
    if (has(events, 'tool.settled')) pass('before-result');
  },
  afterAppend(_, events) {
    if (has(events, 'tool.started')) pass('after-start');
    if (has(events, 'tool.settled')) pass('after-result');
  },
});

function hasActed(callId: string): boolean {
  const trace = join(folder, 'trace');
  return existsSync(trace) && readFileSync(trace, 'utf8').includes(` ${callId} `);
}

async function act(_: unknown, { callId, key }: { callId: string; key: string }): Promise<string> {
  pass('in-tool');
  write('trace', `${name} ${callId} ${key}`);
  pass('acted');
  return `${name} acted`;
}

async function hold(_: unknown, context: { callId: string; key: string }): Promise<string> {
  write('told', `${name} holds`);
  while (!existsSync(join(folder, 'go'))) await delay(5);
  return await act(_, context);
}

const agent = createAgent({
  name: 'shared',
  host,
  store,
  model: scripted([calls(tool), { text: `done by ${name}` }]),
  tools: [
    makeTool('put', { sideEffect: 'idempotent', run: act }),
    makeTool('pay', { run: act }),
    makeTool('ask', {
      run: act,
      reconcile: ({ callId }) =>
        hasActed(callId) ? { happened: true, output: 'found by the tool' } : { happened: false },
    }),
    makeTool('hold', { sideEffect: 'idempotent', run: hold }),
  ],
});

const known = await store.get(RUN);
const run = known === undefined ? await agent.start('go', { runId: RUN }) : await agent.open(RUN);
write('told', `${name} is at it`);
const watching = watch();
const settled = await run.settled();
await watching;
write('told', `${name} settled ${JSON.stringify(settled)}`);
await store.close();

async function watch(): Promise<void> {
  for await (const event of run.events()) {
    if (event.type === 'run.claimed')
      write('told', `${name} saw epoch ${event.epoch} ${JSON.stringify(event)}`);
  }
}
