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
  aroundModelCall?(
    call: ModelCall & { instructions: string | undefined },
    work: () => Promise<ModelTurn>,
  ): Promise<ModelTurn>;
};

/** A model call: the number of its turn, which of the agent's models, and the attempt from 1. */
export type ModelCall = { runId: string; turn: number; model: number; attempt: number };

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

function attempt<Result>(work: () => Result): Result | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}
