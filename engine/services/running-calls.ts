/**
 * The tools' functions that this process has called and that have not ended, by run and call: also those whose
 * run was given up here since. Until one ends it may act.
 */
const running = new Map<string, number>();

/** Counts the function of a call as running until `ended` settles. */
export function trackCall(runId: string, callId: string, ended: Promise<unknown>): void {
  const key = keyOf(runId, callId);
  running.set(key, (running.get(key) ?? 0) + 1);
  const forget = () => {
    const left = (running.get(key) ?? 1) - 1;
    if (left === 0) running.delete(key);
    else running.set(key, left);
  };
  ended.then(forget, forget);
}

export function isCallRunning(runId: string, callId: string): boolean {
  return running.has(keyOf(runId, callId));
}

function keyOf(runId: string, callId: string): string {
  return JSON.stringify([runId, callId]);
}
