import { actingAs } from './caller.ts';
import { describeThrown, RequestError, type RunView, requestServer, runPath } from './request.ts';
import type { EntriesPage } from './source.ts';

const RETRY_MS = 500;
const MOST_RETRIES = 4;

export type SendOutcome =
  | { type: 'taken'; view: RunView | null; message?: string }
  | { type: 'refused'; message: string };

type CommandPlace = { runId: string; after: number; onLost(message: string): unknown };

/** Sends a command, or a list of them as `commands`, once: if the reply is lost, the journal says whether it was taken. */
export async function sendCommand(command: string, body: object, place: CommandPlace): Promise<SendOutcome> {
  const requestId = makeId();
  const path = runPath(place.runId);
  try {
    const [first = {}, ...others] = [body].flat();
    const named = { ...actingAs(), ...first, requestId };
    const sent = Array.isArray(body) ? [named, ...others.map(one => ({ ...actingAs(), ...one }))] : named;
    return { type: 'taken', view: await requestServer<RunView>(`${path}/${command}`, sent) };
  } catch (error) {
    if (!isLost(error)) return { type: 'refused', message: describeRefusal(error) };
  }
  place.onLost('The reply was lost. Reading the journal to find out what happened…');
  const found = await findInJournal(path, place.after, requestId);
  const taken = 'The reply was lost, but the command was taken: the journal has it as entry';
  const lost =
    'The reply was lost, and the journal does not have this command. Nothing was changed; try again.';
  return found === undefined
    ? { type: 'refused', message: lost }
    : { type: 'taken', view: null, message: `${taken} ${found}.` };
}

/** Sends what the server carries out once for each id again while its reply is lost. Throws `RequestError` in the end. */
export async function sendOnce<Reply>(path: string, body: object): Promise<Reply> {
  const sent = { ...actingAs(), ...body, requestId: makeId() };
  for (let retries = MOST_RETRIES; ; retries -= 1) {
    try {
      return await requestServer<Reply>(path, sent);
    } catch (error) {
      if (!isLost(error) || retries === 0) throw error;
      await new Promise(resolve => setTimeout(resolve, RETRY_MS));
    }
  }
}

function isLost(error: unknown): boolean {
  return error instanceof RequestError && (error.status === 0 || error.status >= 500);
}

async function findInJournal(path: string, after: number, requestId: string): Promise<number | undefined> {
  for (let place = after; ; ) {
    try {
      const page = await requestServer<EntriesPage>(`${path}/entries?after=${place}&limit=1000`);
      const found = page.entries.find(event => 'requestId' in event && event.requestId === requestId);
      place = page.entries.at(-1)?.seq ?? page.last;
      if (found !== undefined || place >= page.last) return found?.seq;
    } catch (error) {
      if (!isLost(error)) return undefined;
      await new Promise(resolve => setTimeout(resolve, RETRY_MS));
    }
  }
}

type Start = { input: string; agent?: string; continues?: string };

let unanswered: { body: string; requestId: string } | undefined;

/** Starts a run. A start whose reply was lost has the same id when it is sent again, so that one run begins. */
export async function startRun(start: Start): Promise<RunView> {
  const body = JSON.stringify(start);
  if (unanswered?.body !== body) unanswered = { body, requestId: makeId() };
  const run = await requestServer<RunView>('/runs', { ...start, requestId: unanswered.requestId });
  unanswered = undefined;
  return run;
}

/** Returns a random id. `crypto.randomUUID` is missing on pages that are not served securely. */
function makeId(): string {
  const bytes = [...crypto.getRandomValues(new Uint8Array(16))];
  return bytes.map(byte => byte.toString(16).padStart(2, '0')).join('');
}

/** Carries out a request. Resolves to its problem for the person, or `null`. */
export async function problemOf(request: () => Promise<unknown>): Promise<string | null> {
  return await request().then(() => null, describeRefusal);
}

export function describeRefusal(error: unknown): string {
  if (!(error instanceof RequestError)) return describeThrown(error);
  if (error.code !== 'already-decided') return error.message;
  return `${error.by ?? 'Another person'} already decided. ${error.message}`;
}
