import type { RunStatus, Store } from '../../../agent/index.ts';
import type { Labels } from '../../../protocol/listing/label.ts';
import type { Progress } from '../../../protocol/store.ts';
import { begin, makeProgress } from '../../../stores/conformance/check.ts';

type Planted = {
  title: string;
  agent?: string;
  status?: RunStatus;
  labels?: Labels;
  /** ms since the epoch. Default: now. */
  at?: number;
} & Partial<Progress>;

/** Puts a run into the store as lists show it, without what it did. */
export async function plantRun(store: Store, runId: string, planted: Planted): Promise<void> {
  const { title, agent = 'survey', status = 'finished', labels = {}, at = Date.now(), ...progress } = planted;
  const started = begin(runId, { at, agent: { name: agent }, title, labels });
  await store.create(started, undefined, {
    events: [],
    status,
    progress: makeProgress(status, { endedAt: at + 5_000, ...progress }),
  });
}

/** Plants so many finished runs, a minute apart, from `run_0`, the newest, on. */
export async function plantRuns(store: Store, count: number): Promise<void> {
  for (let index = 0; index < count; index += 1)
    await plantRun(store, `run_${index}`, {
      title: `Measure area ${index}`,
      at: Date.now() - index * 60_000,
    });
}
