/**
 * The tools' functions that this process has called and that have not ended, by run and call: also those whose
 * run was given up here since. Until one ends it may act.
 */
const running = new Map<string, number>();

/** What is still to be recorded of calls that have ended. */
const recording = new Set<Promise<unknown>>();

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
  trackRecord(ended);
}

/** Counts among what is to be recorded until `recorded` settles. */
export function trackRecord(recorded: Promise<unknown>): void {
  recording.add(recorded);
  const forget = () => recording.delete(recorded);
  recorded.then(forget, forget);
}

export function isCallRunning(runId: string, callId: string): boolean {
  return running.has(keyOf(runId, callId));
}

/** How many calls have not ended, or are to be recorded yet. */
export function countRunningCalls(): number {
  return recording.size;
}

/** Resolves once no call runs here and what the last ones gave is recorded. Keeps no process alive. */
export async function callsEnded(): Promise<void> {
  while (recording.size > 0) {
    await Promise.allSettled(recording);
    await new Promise(resolve => setImmediate(resolve));
  }
}

function keyOf(runId: string, callId: string): string {
  return `${runId.length} ${runId} ${callId}`;
}
