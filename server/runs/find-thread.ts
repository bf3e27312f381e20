import type { Caller } from '../../access/caller.ts';
import type { Agent } from '../../agent/agent.ts';
import type { Thread } from '../../agent/thread.ts';
import { invalidInput } from '../../protocol/error.ts';
import type { Labels } from '../../protocol/listing/label.ts';
import type { Store } from '../../protocol/store.ts';

/**
 * The thread of this id that a caller means: its own, which has exactly its labels; without runs in that, the only other one
 * that it sees. So those who decide about the runs of others reach their threads. Throws `input-invalid` for an id that no
 * thread can have.
 */
export async function findThread(agent: Agent, id: string, { labels }: Caller): Promise<Thread> {
  const own = agent.thread(id, { labels });
  const found = await findLabels(agent.store, id, own.labels);
  return found === 'several' ? own : agent.thread(id, { labels: found });
}

/** As `findThread`, of those with at least these labels. Throws `input-invalid` if they do not tell which one is meant. */
export async function labelsOfThread(store: Store, id: string, labels: Labels): Promise<Labels> {
  const found = await findLabels(store, id, labels);
  if (found !== 'several') return found;
  throw invalidInput(
    `Several threads have the id "${id}", with other labels. Name the labels of the one that you mean.`,
  );
}

async function findLabels(store: Store, id: string, labels: Labels): Promise<Labels | 'several'> {
  const own = await store.list({ thread: { id, labels }, limit: 1 });
  if (own.runs.length > 0) return labels;
  const { runs } = await store.list({ thread: id, labels, latest: true, limit: 2 });
  const [found, other] = runs;
  if (other !== undefined) return 'several';
  return found?.labels ?? labels;
}
