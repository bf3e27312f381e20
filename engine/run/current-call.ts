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

/** Runs `work` as part of a call. */
export function withinCall<Result>(call: CurrentCall, work: () => Result): Result {
  return storage === undefined ? work() : storage.run(call, work);
}
