import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { RunEvent } from '../../../protocol/event.ts';
import type { Finding } from '../cases/finding.ts';
import { readLines } from './chaos.ts';
import { ONCE, readActs } from './chaos-agent.ts';
import { type Acknowledged, checkEvidence } from './chaos-evidence.ts';

const LOOP = fileURLToPath(new URL('careless-loop.ts', import.meta.url));
const KILLS = 4;
/** The delay between an act and the kill, in ms: the loop has acknowledged a message by then, and recorded neither. */
const BEHIND_MS = 80;

/** Kills the careless loop several times right after it acts, and checks it like the engine. */
export async function runCarelessChaos(folder: string): Promise<Finding[]> {
  mkdirSync(folder, { recursive: true });
  for (let kill = 0; kill < KILLS; kill += 1) {
    const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', LOOP, folder]);
    const acts = readActs(folder).length;
    while (child.exitCode === null && readActs(folder).length <= acts + 1) await delay(2);
    await delay(BEHIND_MS);
    child.kill('SIGKILL');
    await once(child, 'close');
  }
  const journal = readLines<{ call: number; messages: string[] }>(folder, 'journal');
  const events = journal.flatMap(({ call, messages }): RunEvent[] => [
    {
      type: 'tool.started',
      at: 0,
      generation: 1,
      callId: `call_${call}`,
      attempt: 1,
      key: `careless:${call}`,
    },
    ...messages.map((text): RunEvent => ({ type: 'message.received', at: 0, items: [userItem(text)] })),
  ]);
  return checkEvidence({
    acknowledged: readLines<Acknowledged>(folder, 'acknowledged'),
    acts: readActs(folder),
    once: ONCE,
    runs: [{ runId: 'careless', status: 'running', events, transcript: [] }],
  });
}

function userItem(text: string) {
  return { type: 'message' as const, role: 'user' as const, content: [{ type: 'text' as const, text }] };
}
