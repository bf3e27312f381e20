import { actingAs } from './acting-as.ts';
import { ApiError, type RunView, request, type StreamedEvent } from './request.ts';
import type { EntriesPage } from './source.ts';

const RETRY_MS = 500;

/** What is known about a command after it was sent. */
export type Outcome =
  | { type: 'taken'; view: RunView | null; message?: string }
  | { type: 'refused'; message: string };

type CommandPlace = {
  runId: string;
  /** The last entry that the page has. */
  after: number;
  /** Told when the reply is lost, before the journal is read. */
  onLost(message: string): void;
};

/**
 * Sends a command with an id of its own. If the reply is lost, it reads the journal until it knows whether the command
 * was taken; nothing is sent twice.
 */
export async function sendCommand(command: string, body: object, place: CommandPlace): Promise<Outcome> {
  const requestId = makeId();
  const path = `/runs/${encodeURIComponent(place.runId)}`;
  try {
    const sent = { ...actingAs(), ...body, requestId };
    return { type: 'taken', view: await request<RunView>(`${path}/${command}`, sent) };
  } catch (error) {
    if (!isLost(error)) return { type: 'refused', message: describeRefusal(error) };
  }
  place.onLost('The reply was lost. Reading the journal to find out what happened…');
  const found = await findInJournal(path, place.after, requestId);
  if (found === undefined)
    return {
      type: 'refused',
      message:
        'The reply was lost, and the journal does not have this command. Nothing was changed; try again.',
    };
  return {
    type: 'taken',
    view: null,
    message: `The reply was lost, but the command was taken: the journal has it as entry ${found.seq}.`,
  };
}

/** Whether it is unknown if the server took the command. */
function isLost(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 0 || error.status >= 500);
}

async function findInJournal(
  path: string,
  after: number,
  requestId: string,
): Promise<StreamedEvent | undefined> {
  for (let place = after; ; ) {
    try {
      const page = await request<EntriesPage>(`${path}/entries?after=${place}&limit=1000`);
      const found = page.entries.find(event => 'requestId' in event && event.requestId === requestId);
      place = page.entries.at(-1)?.seq ?? page.last;
      if (found !== undefined || place >= page.last) return found;
    } catch (error) {
      if (!isLost(error)) return undefined;
      await new Promise(resolve => setTimeout(resolve, RETRY_MS));
    }
  }
}

/** `crypto.randomUUID` is missing where a page is not served securely. */
function makeId(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))]
    .map(byte => byte.toString(16).padStart(2, '0'))
    .join('');
}

/** What an error means for a person. */
export function describeRefusal(error: unknown): string {
  if (!(error instanceof ApiError)) return error instanceof Error ? error.message : String(error);
  if (error.code !== 'already-decided') return error.message;
  return `${error.by ?? 'Another person'} already decided. ${error.message}`;
}
