import type { JournalMigration } from '../../../engine/versions/migrate-journal.ts';
import { chartIdentity } from '../../../machines/snapshot.ts';
import type { RunEvent, RunStarted } from '../../../protocol/event.ts';
import type { RunStatus, Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { readGolden } from '../../golden/golden-journal.ts';

const { version } = chartIdentity();

/** The chart of an imagined earlier release. */
export const OLDER = { version: version - 1, hash: 'of the release before' };

/** A step from that chart to this one. */
export const FROM_OLDER: JournalMigration = {
  from: { chart: OLDER.version },
  to: { chart: version },
  migrate: events => events,
};

const NAMES = ['continued', 'finished', 'in-doubt', 'under-way', 'waits-for-approval'];

/** Journals of runs of that release, by name. */
export const OLD = new Map(
  readGolden('runs').flatMap(([file, golden]) => {
    const name = NAMES.find(each => file.endsWith(`/${each}.json`));
    return name === undefined ? [] : [[name, golden] as const];
  }),
);

export function oldEvents(name: string): [RunStarted, ...RunEvent[]] {
  const [first, ...rest] = OLD.get(name)?.entries.map(({ event }) => event as RunEvent) ?? [];
  if (first?.type !== 'run.started') throw new Error(`there is no old journal ${name}`);
  return [{ ...first, chart: OLDER }, ...rest];
}

/** A store with old journals under their names, as that release left them. */
export async function storeOfOld(...names: string[]): Promise<Store> {
  const store = memory();
  for (const name of names) {
    const [started, ...events] = oldEvents(name);
    const continues = started.continues === undefined ? {} : { continues: 'finished' };
    await put(store, [{ ...started, runId: name, ...continues }, ...events], statusOfOld(name));
  }
  return store;
}

function statusOfOld(name: string): RunStatus {
  const { path = '' } = OLD.get(name)?.entries.at(-1) ?? {};
  if (path === 'finished') return 'finished';
  return path.startsWith('resting') ? 'waiting' : 'running';
}

/** Writes a journal unchanged, whichever version wrote it. */
export async function put(
  store: Store,
  [started, ...events]: readonly RunEvent[],
  status: RunStatus = 'running',
): Promise<void> {
  if (started?.type !== 'run.started') throw new Error('a journal begins with run.started');
  await store.create(started, undefined, { events, status });
}

/** A journal of the current chart, with changes to its first event. */
export function written(name: string, change: Partial<RunStarted>): RunEvent[] {
  const [started, ...events] = oldEvents(name);
  return [{ ...started, runId: name, chart: chartIdentity(), ...change }, ...events];
}
