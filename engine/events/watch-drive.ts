import type { Store } from '../../protocol/store.ts';
import type { ModelTurn } from '../../protocol/turn.ts';
import type { RunEvents, RunHappening } from './run-events.ts';

/**
 * Watches the drives of runs in this process, for instruments: `begin` is called when one begins. Its entries go to
 * `receive` once they are durable, those before the drive do not. `end` is awaited before the run counts as settled.
 * Neither may fail the run: what they throw is ignored.
 */
export type DriveWatcher = {
  begin(drive: Watched): WatchedDrive;
  /** Calls `work`, which makes a model call, and returns its result: for what has to be active meanwhile. */
  aroundModelCall?(call: WatchedCall, work: () => Promise<ModelTurn>): Promise<ModelTurn>;
  /** Called with each piece of a streamed call, before its turn; with the `call` that `aroundModelCall` got. */
  chunk?(call: WatchedCall): void;
};

/** A model call: the number of its turn, which of the agent's models, and the attempt from 1. */
export type ModelCall = { runId: string; turn: number; model: number; attempt: number };

/** `adapter`: the one that makes the call. */
export type WatchedCall = ModelCall & {
  instructions: string | undefined;
  adapter: { provider: string; model: string };
};

/** A drive of a run. `epoch` is that of its claim; `null` if this process ended the run while no process drove it. */
type Watched = { runId: string; epoch: number | null; store: Store };

export type WatchedDrive = { receive(happening: RunHappening): void; end(): Promise<void> };

/** Lets the watchers watch a drive. Returns what ends it, and resolves once all of them are done. */
export function watchDrive(
  watchers: readonly DriveWatcher[],
  drive: Watched,
  events: RunEvents,
): () => Promise<void> {
  const stops = watchers.flatMap(watcher => {
    const watched = attempt(() => watcher.begin(drive));
    if (watched === undefined) return [];
    const receive = (happening: RunHappening) => void attempt(() => watched.receive(happening));
    const unsubscribe = events.subscribe({ receive, wake: () => {} });
    return async () => {
      unsubscribe();
      await watched.end();
    };
  });
  return async () => {
    await Promise.allSettled(stops.map(stop => stop()));
  };
}

/** Tells the watchers of a run that this process ended while no process drove it. Resolves once all of them are done. */
export async function watchEnd(
  watchers: readonly DriveWatcher[],
  run: { runId: string; store: Store },
): Promise<void> {
  const ends = watchers.map(async watcher => await watcher.begin({ ...run, epoch: null }).end());
  await Promise.allSettled(ends);
}

/** Returns what passes each piece of a streamed call to the watchers. */
export function watchChunks(watchers: readonly DriveWatcher[], call: WatchedCall): () => void {
  return () => {
    for (const watcher of watchers) attempt(() => watcher.chunk?.(call));
  };
}

function attempt<Result>(work: () => Result): Result | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}
