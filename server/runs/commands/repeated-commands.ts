import { readPages } from '../../../engine/journal/read-journal.ts';
import { refuse, type SubmitResult } from '../../../engine/run/explain-refusal.ts';
import type { RunCommand } from '../../../engine/run/run-command.ts';
import type { JournalEntry, RunEvent } from '../../../protocol/event.ts';
import type { Store } from '../../../protocol/store.ts';

/** How many of the latest entries are searched for a request. */
const MOST_ENTRIES = 2_000;

/** Cache sizes: runs, accepted requests of each run, and refusals. */
const MOST_RUNS = 200;
const MOST_REQUESTS = 500;
const MOST_REFUSALS = 10_000;

/** How many runs of sub-agents are searched for a refused request. */
const MOST_FAMILY = 100;

/** The accepted requests of a run, up to entry `searched`. */
type Known = { searched: number; accepted: Map<string, RunEvent> };

/**
 * Recognizes commands that are sent again because their response was lost.
 *
 * Q1 The id of an accepted request is in the journal. A repetition changes nothing, in any process, and gets the first
 *    answer. The latest 2,000 entries are searched.
 * Q2 A refused request changes nothing and leaves no entry. This process remembers the refusal; another process decides
 *    again.
 * Q3 If requests with the same id arrive at the same time, one of them is carried out. Another process finds the first
 *    one's entry when its append conflicts (`engine/journal/request-ids.ts`).
 */
export class RepeatedCommands {
  readonly #store: Store;
  readonly #answering = new Map<string, Promise<SubmitResult>>();
  readonly #known = new Map<string, Known>();
  readonly #refused = new Map<string, SubmitResult>();

  constructor(store: Store) {
    this.#store = store;
  }

  /**
   * Submits commands on a run with `submit`, unless their request was already answered. The `requestId` of the first
   * command identifies the request.
   */
  async once(
    runId: string,
    commands: readonly RunCommand[],
    submit: () => Promise<SubmitResult>,
  ): Promise<SubmitResult> {
    const first = commands.find(command => requestOf(command) !== undefined);
    const requestId = first && requestOf(first);
    if (first === undefined || requestId === undefined) return await submit();
    const key = JSON.stringify([runId, requestId]);
    const answer = () => this.#answer({ runId, command: first, requestId, key, submit });
    const answered = (this.#answering.get(key) ?? Promise.resolve()).then(answer, answer);
    this.#answering.set(key, answered);
    return await answered.finally(() => {
      if (this.#answering.get(key) === answered) this.#answering.delete(key);
    });
  }

  async #answer({
    runId,
    command,
    requestId,
    key,
    submit,
  }: {
    runId: string;
    command: RunCommand;
    requestId: string;
    key: string;
    submit: () => Promise<SubmitResult>;
  }): Promise<SubmitResult> {
    const accepted = (await this.#search(runId)).get(requestId);
    if (accepted !== undefined) return isOf(command, accepted) ? { accepted: true } : reused(requestId);
    const same = `${key} ${JSON.stringify(command)}`;
    const refused = this.#refused.get(same);
    if (refused !== undefined) return refused;
    const result = await submit();
    const meanwhile = result.accepted ? undefined : (await this.#search(runId)).get(requestId);
    if (meanwhile !== undefined) return isOf(command, meanwhile) ? { accepted: true } : reused(requestId);
    if (!result.accepted && (await this.#wasPassedOn(runId, command, requestId))) return { accepted: true };
    if (!result.accepted) remember(this.#refused, same, result, MOST_REFUSALS);
    return result;
  }

  /** Whether a sub-agent's run accepted the request: a decision about its call that was sent to this run. */
  async #wasPassedOn(runId: string, command: RunCommand, requestId: string): Promise<boolean> {
    const below = [runId];
    for (let looked = 0; looked < below.length && looked < MOST_FAMILY; looked += 1) {
      const { runs } = await this.#store.list({ parent: below[looked] ?? '', limit: MOST_FAMILY });
      for (const child of runs) {
        const accepted = (await this.#search(child.runId)).get(requestId);
        if (accepted !== undefined) return isOf(command, accepted);
        below.push(child.runId);
      }
    }
    return false;
  }

  /** Returns the accepted requests. Reads the entries since the last search. */
  async #search(runId: string): Promise<ReadonlyMap<string, RunEvent>> {
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
  if (!('requestId' in event) || event.requestId === undefined || event.type === 'run.started') return;
  if (!known.accepted.has(event.requestId)) remember(known.accepted, event.requestId, event, MOST_REQUESTS);
}

function requestOf(command: RunCommand): string | undefined {
  return 'requestId' in command ? command.requestId : undefined;
}

/** Whether an event can result from a command: it is about the same call and has the same decision. */
function isOf(command: RunCommand, event: RunEvent): boolean {
  const called = 'callId' in command ? command.callId : undefined;
  if (called !== ('callId' in event ? event.callId : undefined)) return false;
  return event.type !== 'approval.decided' || event.decision.type === command.type;
}

function reused(requestId: string): SubmitResult {
  const message = `The request id ${JSON.stringify(requestId)} belongs to another command on this run. Choose a new id for each command.`;
  return { ...refuse('input-invalid', message), index: 0 };
}

function remember<Value>(known: Map<string, Value>, key: string, value: Value, most: number): void {
  known.delete(key);
  const [oldest] = known.keys();
  if (known.size >= most && oldest !== undefined) known.delete(oldest);
  known.set(key, value);
}
