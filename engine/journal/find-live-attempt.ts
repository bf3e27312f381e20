import type { RunEvent } from '../../protocol/event.ts';
import { shortenOwnerName } from '../../protocol/owner-name.ts';
import type { OwnerState } from '../host/owner.ts';
import { isCallRunning } from '../host/running-calls.ts';
import { type JournalStore, readJournal } from './read-journal.ts';

/** Looks up the process that a `run.claimed` event names; see `owner.ts`. */
export type CheckOwner = (name: string) => OwnerState;

type Journals = { store: JournalStore; checkOwner: CheckOwner };

/**
 * Finds an attempt of a call that may still act, described for people; `null` if none can. An attempt can no longer
 * act if the journal records its end, if the process that started it is dead, or if that is this process and the
 * tool's function has ended. An attempt of an unknown process may act. `attempt`: how many attempts were made.
 */
export async function findLiveAttempt(
  journals: Journals,
  runId: string,
  { callId, attempt }: { callId: string; attempt: number },
): Promise<string | null> {
  const { store, checkOwner } = journals;
  const events = (await readJournal(store, runId)).map(({ event }) => event);
  const [first] = events;
  const forkOf = first?.type === 'run.started' ? first.forkOf : undefined;
  const starts = events.filter(event => event.type === 'tool.started' && event.callId === callId);
  if (starts.length < attempt) return 'an attempt that another store has recorded';
  for (const { by, attempt: number } of listAttempts(events, callId)) {
    if (by === undefined && forkOf !== undefined) continue;
    const state = by === undefined ? 'unknown' : checkOwner(by);
    if (state === 'dead' || (state === 'self' && !isCallRunning(runId, callId))) continue;
    return describeAttempt(number, by, state);
  }
  if (forkOf === undefined) return null;
  try {
    return await findLiveAttempt(journals, forkOf.runId, { callId, attempt: 0 });
  } catch {
    return `an attempt of run ${forkOf.runId}, whose journal cannot be read here`;
  }
}

/** The `tool.late` event of an attempt that succeeded after the run had given it up; `undefined` without one. */
export async function findLateSuccess(store: JournalStore, runId: string, callId: string) {
  const events = (await readJournal(store, runId)).map(({ event }) => event);
  return events.find(event => event.type === 'tool.late' && event.callId === callId && !event.isError);
}

/** `by`: the driver that started it; `undefined` if the journal has no claim before it, as for entries copied by a fork. */
type Attempt = { by: string | undefined; attempt: number };

function listAttempts(events: readonly RunEvent[], callId: string): Attempt[] {
  let open: Attempt[] = [];
  let by: string | undefined;
  for (const event of events) {
    if (event.type === 'run.claimed') by = event.by;
    if (!('callId' in event) || event.callId !== callId) continue;
    if (event.type === 'tool.started') open.push({ by, attempt: event.attempt });
    else if (event.type === 'tool.settled') open = open.slice(0, -1);
    else if (event.type === 'tool.doubted' && event.returned === true) open = open.slice(0, -1);
    else if (event.type === 'tool.late') open = open.filter(({ attempt }) => attempt !== event.attempt);
  }
  return open;
}

function describeAttempt(attempt: number, by: string | undefined, state: OwnerState): string {
  const which = `attempt ${attempt}`;
  if (state === 'self') return `${which}, which still runs in this process`;
  if (by === undefined) return which;
  const process = `${which}, started by process ${shortenOwnerName(by)}`;
  return state === 'alive' ? `${process}, which is alive` : `${process}, whose status is unknown here`;
}
