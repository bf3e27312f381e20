import type { Host } from '../engine/host/host.ts';
import type { Run } from '../engine/run/run.ts';
import { readConversation } from '../engine/story/read-conversation.ts';
import { EngineError } from '../protocol/error.ts';
import type { Item, MessageItem } from '../protocol/item.ts';
import { omitUndefined } from '../protocol/json.ts';
import type { Labels } from '../protocol/listing/label.ts';
import { optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import {
  isOpen,
  type ListFilter,
  latestIn,
  listAll,
  type RunRecord,
  type Store,
  type ThreadPlace,
} from '../protocol/store.ts';
import { existingRun } from '../stores/run-record.ts';
import type { TextFilter } from '../text/text-filter.ts';
import type { StartOptions } from './begin-journal.ts';
import { deleteListed, tryDelete } from './delete-listed.ts';

/** What the runs of a thread spent together, without those of its forks. `cost` is in the unit of `prices`. */
export type ThreadTotals = { runs: number } & Pick<RunRecord, 'turns' | 'tokens' | 'cost' | 'activeMs'>;

/** The text filters of the agent with this name, if that is known. */
type FiltersOf = (agent: string) => readonly (() => TextFilter)[] | undefined;

type ThreadParts<Handle> = {
  store: Store;
  host: Host;
  filtersOf: FiltersOf;
  open(runId: string): Promise<Handle>;
  /** Resolves once the run has ended, or cannot be cancelled. */
  cancel(record: RunRecord, by: string | undefined): Promise<void>;
};

/** Options of `thread.delete`. `by`: who cancels what is driven. */
export type DeleteThreadOptions = { by?: string };

const DELETE_NAMES = optionNames<DeleteThreadOptions>()('by');

/**
 * A conversation: runs of which each begins after the one before has ended. It is its id with the labels of its runs, and
 * may be of several agents. It has no state: each method reads the store.
 */
export class Thread<Handle = Run> {
  readonly id: string;
  readonly labels: Labels;
  readonly #parts: ThreadParts<Handle>;

  /** @internal */
  constructor(id: string, labels: Labels, parts: ThreadParts<Handle>) {
    this.id = id;
    this.labels = { ...labels };
    this.#parts = parts;
  }

  /**
   * The messages of the conversation as readers see them, oldest first: those of the user and of the agents, as the latest
   * run and those that it continues have them. Compactions shorten nothing here. Without what is not in the journal yet, and
   * without the texts of agents that are neither this one nor its sub-agents: their text filters are not known.
   */
  async messages(): Promise<MessageItem[]> {
    const { store, filtersOf } = this.#parts;
    return await messagesOfRun(store, await this.latest(), filtersOf);
  }

  /** The runs of the thread, oldest first, without its forks and the runs of sub-agents. */
  async runs(): Promise<RunRecord[]> {
    const runs: (RunRecord & { place: number })[] = [];
    for await (const { place, ...record } of this.#listAll())
      if (place !== undefined) runs.push({ ...record, place });
    return runs.sort((one, other) => one.place - other.place);
  }

  /** The latest run, if there is one. */
  async latest(): Promise<RunRecord | undefined> {
    return await findLatest(this.#parts.store, this);
  }

  /** Opens the run of the thread that has not ended. Returns `null` without one. Throws like `agent.open`. */
  async open(): Promise<Handle | null> {
    const latest = await this.latest();
    return latest !== undefined && isOpen(latest) ? await this.#parts.open(latest.runId) : null;
  }

  async totals(): Promise<ThreadTotals> {
    return totalsOf(await this.runs());
  }

  /**
   * Deletes all runs of the thread in one commit: with their forks, the runs of sub-agents, the runs that continue one of
   * them, and all that belongs to these. Cancels what a process drives, and waits for it. Returns the ids. On SQLite the file
   * is then written again. Rejects with `refused`, and deletes nothing, if a run is still driven a minute later. Notes that a
   * model keeps for a user belong to no thread, and stay.
   */
  async delete(options: DeleteThreadOptions = {}): Promise<string[]> {
    refuseUnknownOptions('thread.delete', options, DELETE_NAMES, 'input-invalid');
    const { store, host, cancel } = this.#parts;
    return await deleteListed(this.#filter, {
      store,
      host,
      cancel: record => cancel(record, options.by),
      remove: async (records, gone) =>
        await tryDelete(
          { store, host },
          records.map(({ runId }) => runId),
          gone,
        ),
    });
  }

  get #filter(): ListFilter {
    return { thread: { id: this.id, labels: this.labels } };
  }

  #listAll(): AsyncGenerator<RunRecord, void> {
    return listAll(this.#parts.store, this.#filter);
  }
}

export function totalsOf(runs: readonly RunRecord[]): ThreadTotals {
  const totals = { runs: runs.length, turns: 0, tokens: 0, cost: 0, activeMs: 0 };
  for (const { turns, tokens, cost, activeMs } of runs) {
    totals.turns += turns;
    totals.tokens += tokens;
    totals.cost += cost;
    totals.activeMs += activeMs;
  }
  return totals;
}

/** See `thread.messages`. A run of an agent without known filters shows only what the user wrote. */
export async function messagesOfRun(
  store: Store,
  latest: RunRecord | undefined,
  filtersOf: FiltersOf,
): Promise<MessageItem[]> {
  const messages: MessageItem[] = [];
  for (const { runId } of latest === undefined ? [] : await store.chain(latest.runId)) {
    const agent = latest?.runId === runId ? latest.agent : (await store.get(runId))?.agent;
    const filters = agent === undefined ? undefined : filtersOf(agent);
    const shown = await readConversation(store, { runId, ...omitUndefined({ filters }) });
    messages.push(...(filters === undefined ? shown.filter(({ role }) => role === 'user') : shown));
  }
  return messages;
}

type StartParts<Handle> = {
  store: Store;
  input: string | readonly Item[];
  begin(continues: string | null, place: ThreadPlace): Promise<Handle>;
  open(runId: string): Promise<Handle>;
};

/** See `StartOptions.thread`. The store refuses a run that is not the next one: then it decides again. */
export async function startInThread<Handle extends Pick<Run, 'id' | 'send'>>(
  thread: Thread<Handle>,
  { continues, runId, by }: StartOptions,
  { input, store, begin, open }: StartParts<Handle>,
): Promise<Handle> {
  let latest = await thread.latest();
  for (;;) {
    const after: string | null = latest?.runId ?? null;
    try {
      if (latest === undefined || !isOpen(latest))
        return await begin(continues === undefined ? after : continues, { after });
      if (continues !== undefined) throw stillOpen(thread.id, latest.runId);
      if (runId !== undefined && (await store.get(runId)) !== undefined) throw existingRun(runId);
      const run = await open(latest.runId);
      const sent = await run.send(input, omitUndefined({ by }));
      if (sent.accepted) return run;
      if (sent.code !== 'run-ended') throw new EngineError(sent.code, sent.message, { runId: run.id });
      latest = (await store.get(latest.runId)) ?? (await thread.latest());
    } catch (error) {
      const now = latestIn(error);
      if (now === undefined && !(await isDeleted(store, latest))) throw error;
      const known = typeof now?.latest === 'string' ? await store.get(now.latest) : undefined;
      const next: RunRecord | undefined = known ?? (await thread.latest());
      if (now === undefined && next?.runId === latest?.runId) throw error;
      latest = next;
    }
  }
}

async function isDeleted(store: Store, run: RunRecord | undefined): Promise<boolean> {
  return run !== undefined && (await store.get(run.runId)) === undefined;
}

/** A run without labels of its own that continues the latest run of a thread is the next one of it. */
export async function nextInThread(
  store: Store,
  older: RunRecord | undefined,
  { thread, labels, parent }: StartOptions & Pick<RunRecord, 'parent'>,
): Promise<{ thread?: string; place?: ThreadPlace }> {
  if (older?.thread === undefined || thread !== undefined || labels !== undefined || parent !== undefined)
    return {};
  const latest = await findLatest(store, { id: older.thread, labels: older.labels });
  return latest?.runId === older.runId ? { thread: older.thread, place: { after: older.runId } } : {};
}

async function findLatest(
  store: Store,
  { id, labels }: { id: string; labels: Labels },
): Promise<RunRecord | undefined> {
  return (await store.list({ thread: { id, labels }, latest: true })).runs[0];
}

function stillOpen(thread: string, runId: string): EngineError {
  return new EngineError(
    'refused',
    `Run ${runId} of thread "${thread}" has not ended, so no other run can begin there with continues. Cancel it, or send it the message.`,
    { thread, runId },
  );
}
