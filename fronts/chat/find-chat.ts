// fronts/chat: finding the run that a chat continues.

import { type Labels, readLabels } from '../../protocol/listing/label.ts';
import { listAll, type RunRecord, type Store } from '../../protocol/store.ts';

/** The label that the runs of a chat have; its value is the chat's id. */
const CHAT = 'chat';

/**
 * The labels of a chat's runs: the chat's id and the caller's labels, so that a caller finds only its own chats.
 * Throws `input-invalid` for an id or labels that no run can have.
 */
export function chatLabels(chatId: string, labels: Labels = {}): Labels {
  return readLabels({ ...labels, [CHAT]: chatId });
}

/** The chat that a run with these labels belongs to. */
export function chatOf(labels: Labels): string | undefined {
  return labels[CHAT];
}

/**
 * The current run of a chat; `undefined` for a new chat. Of its runs that `fit`, without those of sub-agents, that no
 * other run continues or was forked from, it is the one that changed last: a fork is as old as the run that it was made
 * from.
 */
export async function findLatestRun(
  store: Store,
  labels: Labels,
  fits: (record: RunRecord) => boolean = () => true,
): Promise<RunRecord | undefined> {
  const records: RunRecord[] = [];
  for await (const record of listAll(store, { labels }))
    if (record.parent === undefined && fits(record)) records.push(record);
  const left = new Set(records.flatMap(({ continues, forkOf }) => [continues, forkOf?.runId]));
  const ends = records.filter(({ runId }) => !left.has(runId));
  return ends.toSorted((one, other) => other.updatedAt - one.updatedAt)[0];
}
