/** A tool's function that runs, or began what runs. */
export type CurrentCall = { runId: string; callId: string; tool: string };

/** What keeps a value with all that a function sets off: an `AsyncLocalStorage`, where there is one. */
export type CallStorage = {
  run<Result>(call: CurrentCall, work: () => Result): Result;
  getStore(): CurrentCall | undefined;
};

let storage: CallStorage | undefined;

/**
 * From now on `currentCall` tells which call this process is in, also in timers and promises that a tool
 * left behind. For the program's entry: `trackCalls(new AsyncLocalStorage())`. Browsers have no such storage.
 */
export function trackCalls(by: CallStorage): void {
  storage = by;
}

/** The call whose tool set off what runs now; in an `uncaughtException` listener, what failed. */
export function currentCall(): CurrentCall | undefined {
  return storage?.getStore();
}

export function withinCall<Result>(call: CurrentCall, work: () => Result): Result {
  return storage === undefined ? work() : storage.run(call, work);
}
