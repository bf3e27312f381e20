import { AsyncLocalStorage } from 'node:async_hooks';
import { systemHost } from '../engine/host/host.ts';
import { type CurrentCall, currentCall, trackCalls } from '../engine/host/running-calls.ts';
import { messageOf } from '../protocol/error.ts';
import { EXIT } from './exit-codes.ts';
import { showSafely } from './render/format.ts';

/**
 * Runs `work`. If the process exits with 0 before `work` is done, prints an error and changes the exit code:
 * a tool or agent module that calls `process.exit()` must not look like a finished run. Errors that a tool
 * throws outside its promise are reported with the tool's name.
 */
export async function detectEarlyExit<Result>(work: () => Promise<Result>): Promise<Result> {
  process.once('exit', failExit);
  reportUncaught({ survives: false });
  try {
    return await work();
  } finally {
    process.off('exit', failExit);
  }
}

function failExit(code: number): void {
  if (code !== 0) return;
  process.stderr.write(
    'An agent module or a tool called process.exit before the run was done. The journal is intact: `agentchart runs` lists the runs, `agentchart resume RUN` resumes one.\n',
  );
  process.exitCode = EXIT.failed;
}

/**
 * Reports errors that a tool throws outside its promise (in a timer, an event handler or an unawaited
 * promise), with the tool, call and run. With `survives` the process continues after such an error, as a
 * server of several runs must. Any other uncaught error ends the process. `report` writes to stderr by default.
 */
export function reportUncaught({
  survives,
  report = writeError,
}: {
  survives: boolean;
  report?(text: string): void;
}): void {
  trackCalls(new AsyncLocalStorage<CurrentCall>());
  process.on('uncaughtException', thrown => {
    const call = currentCall();
    const text = call === undefined ? describeOther(thrown) : describeCall(call, thrown, survives);
    report(text);
    if (call === undefined || !survives) process.exit(EXIT.failed);
  });
}

function writeError(text: string): void {
  process.stderr.write(`${showSafely(text, { lines: true })}\n`);
}

function describeCall({ runId, callId, tool }: CurrentCall, thrown: unknown, survives: boolean): string {
  const problem = `Tool "${tool}" threw outside its promise, in call ${callId} of run ${runId}: ${messageOf(thrown)}`;
  const consequence = survives
    ? 'The server continues; the call still waits for the tool to return.'
    : `Exiting. To resume the run: agentchart resume ${runId}`;
  return `${problem}\n${consequence}\nIn the tool, await every promise and handle errors in timers and event handlers.`;
}

function describeOther(thrown: unknown): string {
  try {
    if (thrown instanceof Error && thrown.stack !== undefined) return `Uncaught: ${thrown.stack}`;
  } catch {
    return `Uncaught: ${messageOf(thrown)}`;
  }
  return `Uncaught: ${messageOf(thrown)}`;
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** A terminal and a package runner may both forward one key press; repeats within this many ms count once. */
const SAME_PRESS_MS = 250;

/** Calls `first` on the first SIGINT or SIGTERM and `again` on each later one. Returns a function that stops listening. */
export function watchInterrupts({ first, again }: { first(): void; again(): void }): () => void {
  let last: { signal: NodeJS.Signals; at: number } | null = null;
  const listen = (signal: NodeJS.Signals) => {
    const before = last;
    const at = systemHost.monotonic();
    if (before?.signal === signal && at - before.at < SAME_PRESS_MS) return;
    last = { signal, at };
    if (before === null) first();
    else again();
  };
  for (const signal of SIGNALS) process.on(signal, listen);
  return () => {
    for (const signal of SIGNALS) process.off(signal, listen);
  };
}

export function untilInterrupted(): Promise<void> {
  return new Promise<void>(first => {
    watchInterrupts({ first: () => first(), again: () => process.exit(EXIT.left) });
  });
}

const EXIT_CHECK_MS = 500;

/** Exits once the exit code is set, even if a function of the agent that ignores its signal keeps the process alive. */
export function exitWhenDone(): void {
  const exitIfDone = () => {
    if (process.exitCode !== undefined) process.exit();
  };
  setInterval(exitIfDone, EXIT_CHECK_MS).unref();
}
