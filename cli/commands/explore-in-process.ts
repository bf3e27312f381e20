import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { EngineError } from '../../protocol/error.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { ExploreAgent, Exploring } from '../../server/runs/explore-route.ts';
import { REPORTS_PROGRESS } from './explore.ts';

const LONGEST_MS = 120_000;

const MOST_CHARS = 16 * 1024 * 1024;

const TELL_MS = 250;

/** Runs `agentchart explore --json` in another process, so that the server stays responsive. */
export async function* exploreInProcess(
  module: string | undefined,
  db: string,
  { maxStates, signal, run }: Parameters<ExploreAgent>[1],
): AsyncGenerator<Exploring> {
  const [node, program = ''] = process.argv;
  const args = [
    ...[program, 'explore', '--max-states', String(maxStates), '--json'],
    ...(module === undefined ? [] : ['--agent', module]),
    ...(run === undefined ? [] : ['--at', String(run.at), '--', run.runId]),
  ];
  const child = spawn(node ?? process.execPath, [...process.execArgv, ...args], {
    stdio: ['ignore', 'pipe', 'ignore', 'ipc'],
    env: { ...process.env, AGENTCHART_DB: db, [REPORTS_PROGRESS]: '1' },
    signal: AbortSignal.any([signal, AbortSignal.timeout(LONGEST_MS)]),
    killSignal: 'SIGKILL',
  });
  let states = 0;
  let report = '';
  child.on('error', () => {});
  child.on('message', message => {
    states = Number((message as { states?: unknown }).states) || states;
  });
  child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
    if (report.length < MOST_CHARS) report += chunk;
  });
  const ended = once(child, 'close');
  const failed = ended.then(
    () => true,
    () => true,
  );
  let told = -1;
  for (;;) {
    const isOver = await Promise.race([
      failed,
      new Promise<false>(resolve => setTimeout(resolve, TELL_MS, false)),
    ]);
    if (states > told) {
      told = states;
      yield { type: 'progress', states };
    }
    if (isOver) break;
  }
  await ended;
  yield { type: 'result', report: readReport(report) };
}

function readReport(text: string): JsonObject {
  try {
    return JSON.parse(text) as JsonObject;
  } catch (cause) {
    throw new EngineError('agent-module-invalid', 'agentchart explore gave no report.', null, { cause });
  }
}
