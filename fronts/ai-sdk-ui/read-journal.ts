import type { JournalEntry } from '../../protocol/event.ts';
import type { RunRecord, Store } from '../../protocol/store.ts';

/** Returns the id of a run's assistant message, by its number. */
export type MessageIds = (number: number) => string;

/**
 * Finds the ids of a run's assistant messages: `RUN.NUMBER`. Messages that a fork copied keep the ids of the original
 * run.
 */
export async function findMessageIds(
  store: Store,
  { runId, forkOf }: Pick<RunRecord, 'runId' | 'forkOf'>,
): Promise<MessageIds> {
  const own: MessageIds = number => `${runId}.${number}`;
  const origin = forkOf && (await store.get(forkOf.runId));
  if (forkOf === undefined || origin === undefined) return own;
  const entries = (await store.read(origin.runId)).filter(({ seq }) => seq <= forkOf.at);
  const copied = countMessages(entries);
  const ofOrigin = await findMessageIds(store, origin);
  return number => (number <= copied ? ofOrigin(number) : own(number));
}

/** Returns how many messages the run had received by the last of these entries. */
export function countMessages(entries: readonly JournalEntry[]): number {
  return entries.filter(({ event }) => event.type === 'message.received').length;
}
