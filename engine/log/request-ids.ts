import { digestOf } from '../../protocol/content/digest.ts';
import { EngineError } from '../../protocol/error.ts';
import type { RunEvent } from '../../protocol/event.ts';
import { toJson } from '../../protocol/json.ts';
import type { RunCommand } from '../../protocol/run-command.ts';
import { refuse, type SubmitResult } from './refusal.ts';

/**
 * Requests that are sent again because their answer was lost.
 *
 * A request with an id leaves the id and a digest of each of its fields in the event that it becomes. So a repetition
 * can be told from another request with the same id, and what differs can be named, also if the event has the fields in
 * another form: validated, completed or redacted.
 */

/** What an event has of its request. `asked`: a digest of each field of the request, by its name. */
export type RequestRecord = { requestId: string; asked: Readonly<Record<string, string>> };

const MOST_IDS = 2_000;

const DIGEST_DIGITS = 16;

export function recordRequest({
  requestId,
  ...fields
}: { requestId?: string | undefined } & Readonly<Record<string, unknown>>): RequestRecord | undefined {
  if (requestId === undefined) return undefined;
  const given = Object.entries(fields).filter(([, value]) => value !== undefined);
  const asked = given.map(([name, value]) => [name, digestOf(toJson(value)).slice(0, DIGEST_DIGITS)]);
  return { requestId, asked: Object.fromEntries(asked) };
}

/** The first command with an id stands for the submission: its fields are the commands, if there are several. */
export function recordRequests(commands: readonly RunCommand[]): (RequestRecord | undefined)[] {
  const first = commands.findIndex(command => 'requestId' in pickRequestId(command));
  return commands.map((command, index) => {
    if (index !== first || commands.length === 1) return recordRequest(command);
    const all = commands.map((one, place) => [`commands.${place}`, one]);
    return recordRequest({ ...Object.fromEntries(all), ...pickRequestId(command) });
  });
}

function pickRequestId(command: RunCommand): { requestId?: string } {
  return 'requestId' in command && command.requestId !== undefined ? { requestId: command.requestId } : {};
}

export function requestOf(event: RunEvent): RequestRecord | undefined {
  if (!('requestId' in event) || event.requestId === undefined) return undefined;
  return { requestId: event.requestId, asked: event.asked ?? {} };
}

function findDifferences(request: RequestRecord, earlier: RequestRecord | undefined): string[] {
  const { asked } = request;
  const before = earlier?.asked ?? {};
  const names = new Set([...Object.keys(before), ...Object.keys(asked)]);
  return [...names].filter(name => before[name] !== asked[name]).sort();
}

/** Throws `request-reused`, with the differing `fields` in its details, unless `request` repeats the earlier one. */
export function assertRepeats(request: RequestRecord, earlier: RequestRecord | undefined): void {
  const fields = findDifferences(request, earlier);
  if (earlier !== undefined && fields.length === 0) return;
  throw new EngineError('request-reused', describeReuse(request.requestId, fields), { fields });
}

function describeReuse(requestId: string, fields: readonly string[]): string {
  return `The request id ${JSON.stringify(requestId)} belongs to another request, which differs in ${fields.join(', ')}. Send the same request again, or choose a new id.`;
}

/** The requests in a log's entries: one that another process carries out now is found before it is appended again. */
export class RequestIds {
  readonly #known = new Map<string, RequestRecord>();

  add(event: RunEvent): void {
    const request = event.type === 'run.started' ? undefined : requestOf(event);
    if (request === undefined) return;
    this.#known.set(request.requestId, request);
    const [oldest] = this.#known.keys();
    if (oldest !== undefined && this.#known.size > MOST_IDS) this.#known.delete(oldest);
  }

  findRepeated(events: readonly RunEvent[]): Exclude<SubmitResult, { accepted: true }> | null {
    for (const [index, event] of events.entries()) {
      const request = requestOf(event);
      const earlier = request && this.#known.get(request.requestId);
      if (request === undefined || earlier === undefined) continue;
      const fields = findDifferences(request, earlier);
      const refusal =
        fields.length === 0
          ? refuse('refused', 'A command with this request id was already carried out on this run.')
          : refuse('request-reused', describeReuse(request.requestId, fields));
      return { ...refusal, index };
    }
    return null;
  }
}
