import type { RunEvent } from '../../protocol/event.ts';
import { shortenOwnerName } from '../../protocol/owner-name.ts';
import type { Store } from '../../protocol/store.ts';
import { readJournal } from '../journal/read-journal.ts';
import { isCallRunning } from '../services/running-calls.ts';

/** What is known of the process that `run.claimed` names: see `engine/driver/owner.ts`. */
export type JudgeOwner = (name: string) => 'self' | 'alive' | 'dead' | 'unknown';

type Journals = { store: Store; judgeOwner: JudgeOwner };

/**
 * An attempt of a call that may still act, for people; `null` if none can: each has ended by what its journal
 * says, or the process under whose claim it started is gone, or that process is this one and the function has
 * ended. An attempt whose process cannot be told counts as one that may act. `attempt`: how many were made.
 */
export async function findLiveAttempt(
  journals: Journals,
  runId: string,
  { callId, attempt }: { callId: string; attempt: number },
): Promise<string | null> {
  const { store, judgeOwner } = journals;
  const events = (await readJournal(store, runId)).map(({ event }) => event);
  const [first] = events;
  const forkOf = first?.type === 'run.started' ? first.forkOf : undefined;
  const starts = events.filter(event => event.type === 'tool.started' && event.callId === callId);
  if (starts.length < attempt) return 'an attempt in another store';
  for (const { by, attempt: number } of listAttempts(events, callId)) {
    if (by === undefined && forkOf !== undefined) continue;
    const standing = by === undefined ? 'unknown' : judgeOwner(by);
    if (standing === 'dead' || (standing === 'self' && !isCallRunning(runId, callId))) continue;
    return describeAttempt(number, by, standing);
  }
  if (forkOf === undefined) return null;
  try {
    return await findLiveAttempt(journals, forkOf.runId, { callId, attempt: 0 });
  } catch {
    return `an attempt of run ${forkOf.runId}, whose journal cannot be read here`;
  }
}

/** An attempt of the call that succeeded after the run had given it up; `undefined` if none did. */
export async function findLateSuccess(store: Store, runId: string, callId: string) {
  const events = (await readJournal(store, runId)).map(({ event }) => event);
  return events.find(event => event.type === 'tool.late' && event.callId === callId && !event.isError);
}

/** `by`: who held the run when it started; `undefined` where the journal does not say, as for what a fork copied. */
type Attempt = { by: string | undefined; attempt: number };

/** The attempts of which the journal does not say that they have ended. */
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

function describeAttempt(attempt: number, by: string | undefined, standing: string): string {
  const which = `attempt ${attempt}`;
  if (standing === 'self') return `${which}, which still runs in this process`;
  if (by === undefined) return which;
  const process = `${which}, started by process ${shortenOwnerName(by)}`;
  return standing === 'alive' ? `${process}, which is alive` : `${process}, of which nothing is known here`;
}
