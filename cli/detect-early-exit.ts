import { AsyncLocalStorage } from 'node:async_hooks';
import { type CurrentCall, currentCall, trackCalls } from '../engine/run/current-call.ts';
import { messageOf } from '../protocol/error.ts';
import { EXIT } from './exit-codes.ts';
import { showSafely } from './render/show-safely.ts';

/**
 * Does `work`. If something ends the process with 0 meanwhile, it ends as failed and says so: a tool or
 * an agent module that calls `process.exit()` must not look like a run that finished. What a tool throws
 * outside its promise is told with its name.
 */
export async function detectEarlyExit<Result>(work: () => Promise<Result>): Promise<Result> {
  process.once('exit', failExit);
  nameUncaught({ goesOn: false });
  try {
    return await work();
  } finally {
    process.off('exit', failExit);
  }
}

function failExit(code: number): void {
  if (code !== 0) return;
  process.stderr.write(
    'The process was ended from within: an agent module or a tool called process.exit. What was recorded is kept: `agentchart runs` lists the runs, `agentchart resume RUN` goes on with one.\n',
  );
  process.exitCode = EXIT.failed;
}

/**
 * Tells which tool of which run threw outside its promise: in a timer, an event or a promise nobody awaits.
 * With `goesOn` the process survives that, as a server of other runs must; anything else that is uncaught
 * ends it, as ever.
 */
export function nameUncaught({ goesOn }: { goesOn: boolean }): void {
  trackCalls(new AsyncLocalStorage<CurrentCall>());
  process.on('uncaughtException', thrown => {
    const call = currentCall();
    const text = call === undefined ? describeOther(thrown) : describeCall(call, thrown, goesOn);
    process.stderr.write(`${showSafely(text, { lines: true })}\n`);
    if (call === undefined || !goesOn) process.exit(EXIT.failed);
  });
}

function describeCall({ runId, callId, tool }: CurrentCall, thrown: unknown, goesOn: boolean): string {
  const what = `The tool "${tool}" failed outside its promise, in call ${callId} of run ${runId}: ${messageOf(thrown)}`;
  const advice = goesOn
    ? 'The server goes on; the call waits for what the tool returns.'
    : `The process ends. The run stays resumable: agentchart resume ${runId}`;
  return `${what}\n${advice} Await what the tool starts, and handle the errors of its timers and events.`;
}

function describeOther(thrown: unknown): string {
  try {
    if (thrown instanceof Error && thrown.stack !== undefined) return `Uncaught: ${thrown.stack}`;
  } catch {
    return `Uncaught: ${messageOf(thrown)}`;
  }
  return `Uncaught: ${messageOf(thrown)}`;
}
