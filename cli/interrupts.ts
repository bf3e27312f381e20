import { systemHost } from '../engine/driver/host.ts';

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
