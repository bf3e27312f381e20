import { type Labels, readLabels } from '../../protocol/listing/label.ts';
import { listAll, type RunRecord, type Store } from '../../protocol/store.ts';

/** The label that the runs of a chat have; its value is the chat's id. */
const CHAT = 'chat';

/**
 * The labels of a chat's runs: the chat's id beside the caller's own labels, so that a caller finds only chats of its own.
 * Throws `input-invalid` for an id or labels that no run can have.
 */
export function chatLabels(chatId: string, labels: Labels = {}): Labels {
  return readLabels({ ...labels, [CHAT]: chatId });
}

/** The chat that a run with these labels belongs to. */
export function chatOf(labels: Labels): string | undefined {
  return labels[CHAT];
}

/** The newest run of a chat that `fits`, without the runs of its sub-agents; `undefined` for a new chat. */
export async function findLatestRun(
  store: Store,
  labels: Labels,
  fits: (record: RunRecord) => boolean = () => true,
): Promise<RunRecord | undefined> {
  for await (const record of listAll(store, { labels }))
    if (record.parent === undefined && fits(record)) return record;
  return undefined;
}
