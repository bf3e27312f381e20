import type { Caller } from '../../access/caller.ts';
import type { Agent } from '../../agent/agent.ts';
import type { Thread } from '../../agent/thread.ts';
import type { Run } from '../../engine/run/run.ts';

/**
 * The thread of this id that a caller means: its own, which has exactly its labels; without runs in that, the only other one
 * that it sees. So those who decide about the runs of others reach their threads. Throws `input-invalid` for an id that no
 * thread can have.
 */
export async function findThread(agent: Agent, id: string, { labels }: Caller): Promise<Thread<Run>> {
  const own = agent.thread(id, { labels });
  if ((await own.latest()) !== undefined) return own;
  const { runs } = await agent.store.list({ thread: id, labels, latest: true, limit: 2 });
  const [found, other] = runs;
  return found === undefined || other !== undefined ? own : agent.thread(id, { labels: found.labels });
}
