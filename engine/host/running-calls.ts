import { runSoon } from './host.ts';

/** How many functions of a call still run in this process, also of runs it no longer drives: they may still act. */
let running = new Map<string, number>();

/** Running calls, and late outcomes that are not yet recorded. */
let recording = new Set<Promise<unknown>>();

/** Marks a call's function as running until `ended` settles. */
export function trackCall(runId: string, callId: string, ended: Promise<unknown>): void {
  const key = keyOf(runId, callId);
  const calls = running;
  calls.set(key, (calls.get(key) ?? 0) + 1);
  trackRecord(ended, () => {
    const left = (calls.get(key) ?? 1) - 1;
    if (left === 0) calls.delete(key);
    else calls.set(key, left);
  });
}

/** Makes `callsEnded` wait until `recorded` settles, and then calls `forget`. */
export function trackRecord(recorded: Promise<unknown>, forget = () => {}): void {
  const records = recording;
  records.add(recorded);
  const end = () => {
    records.delete(recorded);
    forget();
  };
  recorded.then(end, end);
}

export function isCallRunning(runId: string, callId: string): boolean {
  return running.has(keyOf(runId, callId));
}

export function countRunningCalls(): number {
  return recording.size;
}

/** Resolves once no call runs in this process and all outcomes are recorded. Does not keep the process alive. */
export async function callsEnded(): Promise<void> {
  while (recording.size > 0) {
    await Promise.allSettled(recording);
    await new Promise<void>(resolve => runSoon(resolve));
  }
}

/** Forgets all calls, as the end of the process would: for tests that abandon simulated processes. */
export function forgetCalls(): void {
  running = new Map();
  recording = new Set();
}

function keyOf(runId: string, callId: string): string {
  return `${runId.length} ${runId} ${callId}`;
}

/** The tool call that the current code runs for. */
export type CurrentCall = { runId: string; callId: string; tool: string };

/** Keeps a value through asynchronous work: the part of Node's `AsyncLocalStorage` that is used here. */
export type CallStorage = {
  run<Result>(call: CurrentCall, work: () => Result): Result;
  getStore(): CurrentCall | undefined;
};

let storage: CallStorage | undefined;

/**
 * Makes `currentCall` work in this process, including timers and promises that a tool leaves behind. Call it once,
 * when the program starts. Browsers have no `AsyncLocalStorage`.
 *
 * @example
 * import { AsyncLocalStorage } from 'node:async_hooks';
 *
 * trackCalls(new AsyncLocalStorage());
 * process.on('uncaughtException', error => console.error(currentCall(), error));
 */
export function trackCalls(by: CallStorage): void {
  storage = by;
}

/**
 * The tool call that started the current code; `undefined` outside of tools and without `trackCalls`. In an
 * `uncaughtException` listener, the call that failed.
 */
export function currentCall(): CurrentCall | undefined {
  return storage?.getStore();
}

export function withinCall<Result>(call: CurrentCall, work: () => Result): Result {
  return storage === undefined ? work() : storage.run(call, work);
}
