import { systemHost } from '../engine/driver/host.ts';

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** A terminal and a package runner may both pass one key press on; within this many ms it counts once. */
const SAME_PRESS_MS = 250;

/** Calls `first` at the first Ctrl-C or SIGTERM and `again` at each later one, until what comes back is called. */
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
