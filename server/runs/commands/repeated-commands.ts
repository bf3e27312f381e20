import { readPage, readPages } from '../../../engine/journal/read-journal.ts';
import type { SubmitResult } from '../../../engine/log/refusal.ts';
import {
  assertRepeats,
  type RequestRecord,
  recordRequests,
  requestOf,
} from '../../../engine/log/request-ids.ts';
import type { JournalEntry } from '../../../protocol/event.ts';
import type { RunCommand } from '../../../protocol/run-command.ts';
import type { Store } from '../../../protocol/store.ts';
import { remember } from '../../remember.ts';

const MOST_ENTRIES = 2_000;

const MOST_RUNS = 200;
const MOST_REQUESTS = 500;
const MOST_REFUSALS = 10_000;

const MOST_FAMILY = 100;

type Known = { searched: number; accepted: Map<string, RequestRecord> };

/**
 * Recognizes commands that are sent again because their response was lost.
 *
 * Q1 The id of an accepted request is in the journal, with what it asked. A repetition changes nothing, in any process,
 *    and gets the first answer; another request with its id is refused, and told what differs. The latest 2,000 entries
 *    are searched.
 * Q2 A refused request changes nothing and leaves no entry. This process remembers the refusal; another process decides
 *    again.
 * Q3 If requests with the same id arrive at the same time, one of them is carried out. Another process finds the first
 *    one's entry when its append conflicts (`engine/log/request-ids.ts`).
 */
export class RepeatedCommands {
  readonly #store: Store;
  readonly #answering = new Map<string, Promise<SubmitResult>>();
  readonly #known = new Map<string, Known>();
  readonly #refused = new Map<string, SubmitResult>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** The first `requestId` of the commands identifies the request. Throws `request-reused`. */
  async once(
    runId: string,
    commands: readonly RunCommand[],
    submit: () => Promise<SubmitResult>,
  ): Promise<SubmitResult> {
    const request = recordRequests(commands).find(each => each !== undefined);
    if (request === undefined) return await submit();
    const key = JSON.stringify([runId, request.requestId]);
    const answer = () => this.#answer(runId, request, submit);
    const answered = (this.#answering.get(key) ?? Promise.resolve()).then(answer, answer);
    this.#answering.set(key, answered);
    return await answered.finally(() => {
      if (this.#answering.get(key) === answered) this.#answering.delete(key);
    });
  }

  async #answer(
    runId: string,
    request: RequestRecord,
    submit: () => Promise<SubmitResult>,
  ): Promise<SubmitResult> {
    if (await this.#isAccepted(runId, request)) return { accepted: true };
    const same = JSON.stringify([runId, request]);
    const refused = this.#refused.get(same);
    if (refused !== undefined) return refused;
    const result = await submit();
    if (result.accepted || (await this.#isAccepted(runId, request))) return { accepted: true };
    if (await this.#wasPassedOn(runId, request)) return { accepted: true };
    remember(this.#refused, same, result, MOST_REFUSALS);
    return result;
  }

  /** Whether the run has accepted the request. Throws `request-reused` if it has accepted another one with its id. */
  async #isAccepted(runId: string, request: RequestRecord): Promise<boolean> {
    const accepted = (await this.#search(runId)).get(request.requestId);
    if (accepted !== undefined) assertRepeats(request, accepted);
    return accepted !== undefined;
  }

  /** Whether a sub-agent's run accepted the request: a decision about its call that was sent to this run. */
  async #wasPassedOn(runId: string, request: RequestRecord): Promise<boolean> {
    const below = [runId];
    for (let looked = 0; looked < below.length && looked < MOST_FAMILY; looked += 1) {
      const { runs } = await this.#store.list({ parent: below[looked] ?? '', limit: MOST_FAMILY });
      for (const child of runs) {
        if (await this.#isAccepted(child.runId, request)) return true;
        below.push(child.runId);
      }
    }
    return false;
  }

  async #search(runId: string): Promise<ReadonlyMap<string, RequestRecord>> {
    const known = this.#known.get(runId) ?? { searched: 0, accepted: new Map() };
    remember(this.#known, runId, known, MOST_RUNS);
    const last = (await this.#store.get(runId))?.seq ?? 0;
    const after = Math.max(known.searched, last - MOST_ENTRIES);
    for await (const page of readPages(this.#store, runId, after))
      for (const entry of page) note(known, entry);
    return known.accepted;
  }
}

function note(known: Known, { seq, event }: JournalEntry): void {
  known.searched = seq;
  const request = event.type === 'run.started' ? undefined : requestOf(event);
  if (request !== undefined && !known.accepted.has(request.requestId))
    remember(known.accepted, request.requestId, request, MOST_REQUESTS);
}

/** A run that a request creates. Its id is derived from that of the request, so that a request creates one run. */
export type Creation = { store: Store; runId: string; request: RequestRecord | undefined };

/** Whether an equal earlier request created the run. Throws `request-reused` if that asked for something else. */
export async function wasCreated({ store, runId, request }: Creation): Promise<boolean> {
  if (request === undefined || (await store.get(runId)) === undefined) return false;
  const [first] = await readPage(store, runId, 0, { entries: 1 });
  assertRepeats(request, first && requestOf(first.event));
  return true;
}
