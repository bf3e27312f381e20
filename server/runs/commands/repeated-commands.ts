import { readPages } from '../../../engine/journal/read-journal.ts';
import { refuse, type SubmitResult } from '../../../engine/run/explain-refusal.ts';
import type { RunCommand } from '../../../engine/run/run-command.ts';
import type { JournalEntry, RunEvent } from '../../../protocol/event.ts';
import type { Store } from '../../../protocol/store.ts';

/** In how many of the latest entries a request is looked for. */
const MOST_ENTRIES = 2_000;

/** Of how many runs, and how many of each run's requests are remembered, and how many refusals. */
const MOST_RUNS = 200;
const MOST_REQUESTS = 500;
const MOST_REFUSALS = 10_000;

/** In how many runs of sub-agents a refused request is looked for. */
const MOST_FAMILY = 100;

/** The requests of a run that were accepted, as far as entry `searched`. */
type Known = { searched: number; accepted: Map<string, RunEvent> };

/**
 * Recognizes commands that are sent again, because their answer was lost.
 *
 * Q1 The id of an accepted request is in the journal: sent again it changes nothing, in any process, and is answered as
 *    the first time. It is looked for in the latest 2,000 entries.
 * Q2 A refused request changed nothing and leaves no entry: this process remembers the answer, another decides it anew.
 * Q3 Of requests with one id that arrive together in a process, one is carried out.
 */
export class RepeatedCommands {
  readonly #store: Store;
  readonly #answering = new Map<string, Promise<SubmitResult>>();
  readonly #known = new Map<string, Known>();
  readonly #refused = new Map<string, SubmitResult>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** Submits commands on a run with `submit`, unless their request was answered before: the first `requestId` counts. */
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
    if (!result.accepted && (await this.#wasPassedOn(runId, command, requestId))) return { accepted: true };
    if (!result.accepted) remember(this.#refused, same, result, MOST_REFUSALS);
    return result;
  }

  /** Whether a run of a sub-agent took the request: a decision about its call that was sent to this run. */
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

  /** The accepted requests; reads the entries since the last search. */
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

/** Whether an event can be that of a command: about the same call, with the same decision. */
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
