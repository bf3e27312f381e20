import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import * as z from 'zod';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent, tool } from '../../../agent/index.ts';
import { systemHost } from '../../../engine/host/host.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { ToolCallContext } from '../../../protocol/tool.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';

/** The length of a lease, in ms: processes are stopped for longer. */
export const LEASE_MS = 1_000;

/** An act of a tool, recorded by the tool itself when it acts. */
export type Act = { tool: string; key: string; runId: string; callId: string };

const FOLDER = process.env.ATTACK_FOLDER ?? '.';
const ACTS = join(FOLDER, 'acts');

export function readActs(folder = FOLDER): Act[] {
  const file = join(folder, 'acts');
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n').filter(Boolean);
  return lines.map(line => JSON.parse(line));
}

const SLOWEST_MS = 500;
const MODEL_MS = 30;
const SPARE_TURNS = 40;

/** Acts in the middle of its duration; a stopped process acts after it continues. */
function actAs(name: string) {
  return async (_input: unknown, { key, runId, callId }: ToolCallContext) => {
    await delay(Math.random() * SLOWEST_MS);
    appendFileSync(ACTS, `${JSON.stringify({ tool: name, key, runId, callId } satisfies Act)}\n`);
    await delay(Math.random() * SLOWEST_MS);
    return `${name} acted`;
  };
}

/** Reports whether the call has happened so far. */
function lookUp(_call: unknown, { key }: ToolCallContext) {
  const hasActed = readActs().some(act => act.key === key);
  return hasActed ? { happened: true as const, output: 'found' } : { happened: false as const };
}

const input = z.looseObject({});
const look = tool({ name: 'look', description: 'Looks.', input, sideEffect: 'none', run: actAs('look') });
const put = tool({ name: 'put', description: 'Puts.', input, sideEffect: 'idempotent', run: actAs('put') });
const pay = tool({ name: 'pay', description: 'Pays.', input, sideEffect: 'once', run: actAs('pay') });
const refund = tool({
  name: 'refund',
  description: 'Pays back.',
  input,
  sideEffect: 'once',
  approval: true,
  run: actAs('refund'),
});
const charge = tool({
  name: 'charge',
  description: 'Charges, and can say whether it did.',
  input,
  sideEffect: 'once',
  run: actAs('charge'),
  reconcile: lookUp,
});
const late = tool({
  name: 'late',
  description: 'Acts behind its time.',
  input,
  sideEffect: 'once',
  timeoutMs: 50,
  run: actAs('late'),
  reconcile: lookUp,
});

/** The tools that must not act twice under one key. */
export const ONCE: ReadonlySet<string> = new Set(['pay', 'refund', 'charge', 'late']);

function calling(...names: string[]): ScriptedTurn {
  const calls = names.map(name => ({ name, arguments: name === 'helper' ? { input: 'go 0' } : {} }));
  return { toolCalls: calls, delayMs: MODEL_MS };
}

/** Extra turns for messages and edits, which need more turns than the script has. */
const END = Array.from({ length: SPARE_TURNS }, (): ScriptedTurn => ({ text: 'done', delayMs: MODEL_MS }));

const SCRIPTS = [
  [calling('look', 'pay', 'charge', 'put'), calling('refund', 'charge'), ...END],
  [calling('charge', 'charge', 'pay'), calling('late', 'look'), calling('refund'), ...END],
  [calling('helper', 'pay'), calling('charge', 'refund'), calling('helper'), ...END],
  [calling('helper', 'helper', 'charge'), calling('pay', 'late'), ...END],
].map(turns => scripted(turns));

/** The first message names the run's script: `go 2`. */
function choose({ transcript }: ModelRequest): ModelAdapter {
  const [, number = '0'] = /go (\d+)/.exec(JSON.stringify(transcript[0] ?? '')) ?? [];
  const script = SCRIPTS[Number(number) % SCRIPTS.length];
  if (script === undefined) throw new Error('There is no script.');
  return script;
}

const capabilities = scripted([]).capabilities;
const model: ModelAdapter = {
  provider: 'scripted',
  model: 'chaos',
  capabilities,
  generate: (request, call) => choose(request).generate(request, call),
  stream: (request, call) => choose(request).stream(request, call),
};

/** While a file of this name exists in the folder, no process dies by itself. */
export const QUIET = 'quiet';
export const DIED = 137;

/** The probability of death at one of the engine's fault points is 1 in this number. */
const DEATHS_ONE_IN = 600;

function reach(): void {
  if (Math.random() * DEATHS_ONE_IN > 1 || existsSync(join(FOLDER, QUIET))) return;
  process.kill(process.pid, 'SIGKILL');
  // The first process of a namespace cannot kill itself.
  process.exit(DIED);
}

const host = { ...systemHost, leaseMs: LEASE_MS, reach };
const limits = { turns: 60, toolCalls: 200 };

const helper = createAgent({
  name: 'helper',
  tools: [pay, charge, refund],
  host,
  limits,
  onMessage: 'queue',
  model: scripted([calling('charge', 'pay'), calling('refund'), ...END]),
});

/** The agent under chaos: tools of every side effect, each with an external trace, and a sub-agent. */
export default createAgent({
  name: 'boss',
  model,
  host,
  limits,
  onMessage: 'queue',
  retry: { baseMs: 10 },
  tools: [look, put, pay, refund, charge, late, helper.asTool({ name: 'helper', description: 'Helps.' })],
});
