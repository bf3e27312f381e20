import { readJournal } from '../../engine/journal/read-journal.ts';
import type { JournalEntry } from '../../protocol/event.ts';
import { listAll, type Store } from '../../protocol/store.ts';
import type { UsedTurn } from '../access/usage-ledger.ts';
import { RESPONSES, type ResponseSpec, readNote, readSpec } from './wire/response-spec.ts';

/**
 * The model calls since `from` (ms since the epoch) of the gateway's runs in a store, with the callers whose requests
 * they served. Runs that cannot be read are logged and left out.
 */
export async function* recordedUsage(
  store: Store,
  from: number,
  log: (line: string) => void,
): AsyncGenerator<UsedTurn, void> {
  const onDamaged = ({ message }: Error) => log(`Usage of a run is not counted: ${message}`);
  for await (const { runId, updatedAt } of listAll(store, { agent: RESPONSES, onDamaged })) {
    if (updatedAt < from) continue;
    try {
      for (const turn of usageIn(await readJournal(store, runId))) if (turn.at >= from) yield turn;
    } catch (error) {
      onDamaged(error as Error);
    }
  }
}

/** Without the entries that a fork copied: they count for the run they are from. */
function usageIn(entries: readonly JournalEntry[]): UsedTurn[] {
  const started = entries[0]?.event;
  const isFork = started?.type === 'run.started' && started.forkOf !== undefined;
  let spec: ResponseSpec | undefined;
  if (started?.type === 'run.started' && !isFork) spec = readSpec(started.launch?.request);
  const turns: UsedTurn[] = [];
  for (const { event } of entries) {
    if (event.type === 'run.noted' && event.by === RESPONSES) {
      const note = readNote(event.note);
      if (note?.type === 'asked') spec = note.spec;
    }
    if (event.type === 'turn.completed' && spec?.caller !== undefined)
      turns.push({ caller: spec.caller.name, at: event.at, model: spec.model, usage: event.usage });
  }
  return turns;
}
