import { sleep, systemHost } from '../../engine/driver/host.ts';
import { readPages } from '../../engine/journal/read-journal.ts';
import type { Run, RunHappening } from '../../engine/run/run.ts';
import { stamp } from '../../engine/run/run-events.ts';
import { childRunIdOf } from '../../engine/sub-agents/child-runs.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';
import { filterText } from '../../text/text-filter.ts';
import { type Agent, isAgent } from '../../tools/agent/agent.ts';
import type { AgUiEvent } from './events.ts';
import { UsageSum } from './finish-run.ts';
import { RunProjection } from './project-run.ts';
import type { ThreadMessages } from './thread-messages.ts';

/** The time between two checks for a sub-agent's run that is about to be created, in ms. */
const CHILD_WAIT_MS = 50;

type Place = { agent: Agent; projection: RunProjection; subAgent?: SubAgent };

/**
 * A sub-agent's run below the followed one. `announced`: SUBAGENT_STARTED was written, and SUBAGENT_FINISHED or
 * SUBAGENT_ERROR was not.
 */
type SubAgent = { runId: string; name: string; callId: string; parent?: string; announced: boolean };

type Arrival = { place: Place; happening: RunHappening };

export type FollowOptions = {
  agent: Agent;
  runId: string;
  messages: ThreadMessages;
  /**
   * By run id: the seq up to which the client may already have the run. A run without an entry is complete at the
   * client.
   */
  seen: ReadonlyMap<string, number>;
};

/**
 * Follows a run and the runs of its sub-agents, and merges their projections.
 *
 * F1 Entries up to `seen` only fill the thread's messages; later ones become events.
 * F2 Following ends when the run rests or has ended and every entry up to that point was read. It never drives a
 *    sub-agent's run.
 * F3 At most one event of each run is in memory, so a slow client slows the reading down.
 */
export class RunFollower {
  readonly #options: FollowOptions;
  readonly #root: Place;
  readonly #children = new Map<string, Place>();
  readonly #iterators = new Map<Place, AsyncIterator<RunHappening>>();
  readonly #opened = new Set<Place>();
  readonly #arrived: Arrival[] = [];
  #usage = new UsageSum();
  #wake = () => {};
  #failure: { error: unknown } | null = null;
  #isOver = false;

  constructor(options: FollowOptions) {
    this.#options = options;
    const { agent, runId, messages } = options;
    this.#root = { agent, projection: projectionOf(agent, runId, messages) };
  }

  /** The projection of the followed run. */
  get root(): RunProjection {
    return this.#root.projection;
  }

  /** The seqs of the last entries that were read, by run. */
  get seqs(): ReadonlyMap<string, number> {
    const places = [this.#root, ...this.#children.values()];
    return new Map(places.map(({ projection: { runId, seq } }) => [runId, seq]));
  }

  /** Reads the entries that the client may already have. Call it once, before `follow`. */
  async catchUp(): Promise<void> {
    await this.#catchUp(this.#root);
  }

  /**
   * Yields the events after `seen`, until the run settles. Adds its model calls, and those of sub-agents, to `usage`.
   */
  async *follow(run: Run, usage: UsageSum): AsyncGenerator<AgUiEvent[]> {
    this.#usage = usage;
    let settledAt: ReadonlyMap<string, number> | null = null;
    run
      .settled()
      .then(async () => {
        settledAt = await this.#lastSeqs(run);
      })
      .catch(this.#fail)
      .finally(() => this.#wake());
    try {
      this.#open(this.#root, run);
      for (const child of this.#children.values()) this.#open(child);
      while (!this.#isOver) {
        if (this.#failure !== null) throw this.#failure.error;
        const arrival = this.#arrived.shift();
        if (arrival !== undefined) {
          const { place, happening } = arrival;
          const events = await this.#take(place, happening);
          this.#readNext(arrival.place);
          if (events.length > 0) yield events;
          continue;
        }
        if (settledAt !== null && this.#hasReached(settledAt)) break;
        await new Promise<void>(resolve => {
          this.#wake = resolve;
        });
      }
      yield this.#closeAll();
    } finally {
      this.stop();
    }
  }

  /** Stops following. The run continues. */
  stop(): void {
    this.#isOver = true;
    this.#wake();
    for (const iterator of this.#iterators.values()) void iterator.return?.();
  }

  /** Ends every sub-agent that is still announced; `waiting` returns the ids of a run's interrupts. */
  endSubAgents(waiting: (runId: string) => string[]): AgUiEvent[] {
    return [...this.#children.values()]
      .reverse()
      .flatMap(({ subAgent, projection }) =>
        subAgent?.announced === true ? endOf(subAgent, projection, waiting(subAgent.runId)) : [],
      );
  }

  #closeAll(): AgUiEvent[] {
    return [this.#root, ...this.#children.values()].flatMap(({ projection }) => projection.close());
  }

  async #take(place: Place, happening: RunHappening): Promise<AgUiEvent[]> {
    const { projection, subAgent } = place;
    const isNew = 'seq' in happening && happening.seq > projection.seq;
    const below = endsCall(happening) ? await this.#readOut(place, happening.callId) : [];
    const made = [...below, ...projection.take(happening)];
    if (isNew && happening.type === 'turn.completed')
      this.#usage.add(happening.provider, happening.model, happening.usage);
    if (happening.type === 'tool.started') await this.#addChild(place, happening.callId, happening.key);
    if (subAgent === undefined) return made;
    const events = made.length > 0 ? [...this.#announce(subAgent), ...made] : [];
    const hasEnded = projection.state !== null && projection.state.status !== 'active';
    return hasEnded && subAgent.announced ? [...events, ...endOf(subAgent, projection, [])] : events;
  }

  /** Returns the remaining events of a call's sub-agent, which come before the call's result. */
  async #readOut(above: Place, callId: string): Promise<AgUiEvent[]> {
    const child = [...this.#children.values()].find(
      ({ subAgent }) => subAgent?.callId === callId && subAgent.parent === above.subAgent?.runId,
    );
    if (child === undefined) return [];
    const { runId, seq } = child.projection;
    const events: AgUiEvent[] = [];
    for await (const page of readPages(this.#options.agent.store, runId, seq))
      for (const entry of page) events.push(...(await this.#take(child, stamp(entry, runId))));
    return events;
  }

  #announce(subAgent: SubAgent): AgUiEvent[] {
    if (subAgent.announced) return [];
    subAgent.announced = true;
    const { runId, name, callId, parent } = subAgent;
    const above = parent === undefined ? undefined : this.#children.get(parent)?.subAgent;
    return [
      ...(above === undefined ? [] : this.#announce(above)),
      {
        type: 'SUBAGENT_STARTED',
        subagentRunId: runId,
        name,
        parentToolCallId: parent === undefined ? callId : `${parent}/${callId}`,
        ...omitUndefined({ parentSubagentRunId: parent }),
      },
    ];
  }

  /** Folds the entries up to `seen`, of the run and of its sub-agents' runs. */
  async #catchUp(place: Place): Promise<void> {
    const { store } = this.#options.agent;
    const { runId } = place.projection;
    const last = this.#options.seen.get(runId) ?? Number.POSITIVE_INFINITY;
    for await (const page of readPages(store, runId, 0)) {
      for (const entry of page) {
        if (entry.seq > last) return;
        place.projection.take(stamp(entry, runId));
        if (entry.event.type === 'tool.started')
          await this.#addChild(place, entry.event.callId, entry.event.key, { catchesUp: true });
      }
    }
  }

  async #addChild(place: Place, callId: string, key: string, { catchesUp = false } = {}): Promise<void> {
    const call = place.projection.state?.context.calls.find(other => other.callId === callId);
    const child = subAgentOf(place.agent, call?.name);
    const runId = childRunIdOf(key, place.projection.runId);
    if (child === undefined || this.#children.has(runId)) return;
    const { messages, agent } = this.#options;
    const { store } = agent;
    if (catchesUp && (await store.get(runId)) === undefined) return;
    const parent = place.subAgent?.runId;
    const subAgent = { runId, name: child.name, callId, announced: false, ...(parent && { parent }) };
    const projection = projectionOf(child, runId, messages, runId);
    const added: Place = { agent: child, projection, subAgent };
    this.#children.set(runId, added);
    if (catchesUp) await this.#catchUp(added);
    else this.#open(added);
  }

  /** Continues to read a run. Waits for a sub-agent's run to be created. */
  #open(place: Place, run?: Run): void {
    if (this.#opened.has(place) || (place.subAgent !== undefined && isOver(place))) return;
    this.#opened.add(place);
    if (run !== undefined) return this.#read(place, run);
    this.#openChild(place.projection.runId)
      .then(child => {
        if (child !== null) this.#read(place, child);
      })
      .catch(this.#fail)
      .finally(() => this.#wake());
  }

  #read(place: Place, run: Run): void {
    if (this.#isOver) return;
    const events = run.events({ after: place.projection.seq, follow: true });
    this.#iterators.set(place, events[Symbol.asyncIterator]());
    this.#readNext(place);
  }

  /** Opens a sub-agent's run once it exists. The call is journaled before the run is created. */
  async #openChild(runId: string): Promise<Run | null> {
    const { store, options } = this.#options.agent;
    while (!this.#isOver && (await store.get(runId)) === undefined)
      await sleep(options.host ?? systemHost, CHILD_WAIT_MS);
    return this.#isOver ? null : await this.#options.agent.open(runId);
  }

  #readNext(place: Place): void {
    this.#iterators
      .get(place)
      ?.next()
      .then(({ done, value }) => {
        if (done !== true) this.#arrived.push({ place, happening: value });
      })
      .catch(this.#fail)
      .finally(() => this.#wake());
  }

  readonly #fail = (error: unknown): void => {
    this.#failure ??= { error };
  };

  /** Returns the seq of the last entry of each run at the time the run settled. */
  async #lastSeqs(run: Run): Promise<ReadonlyMap<string, number>> {
    const { store } = this.#options.agent;
    const children = [...this.#children.keys()].map(
      async runId => [runId, (await store.get(runId))?.seq ?? 0] as const,
    );
    return new Map([[run.id, run.durable.seq], ...(await Promise.all(children))]);
  }

  #hasReached(seqs: ReadonlyMap<string, number>): boolean {
    return [this.#root, ...this.#children.values()].every(
      ({ projection }) => projection.seq >= (seqs.get(projection.runId) ?? 0),
    );
  }
}

/** Whether the event ends the call or suspends it until its sub-agent's run ends. */
function endsCall(
  happening: RunHappening,
): happening is Extract<RunHappening, { type: 'tool.settled' | 'result.received' | 'tool.suspended' }> {
  const { type } = happening;
  return type === 'tool.settled' || type === 'result.received' || type === 'tool.suspended';
}

function isOver({ projection }: Place): boolean {
  return projection.state !== null && projection.state.status !== 'active';
}

function endOf(subAgent: SubAgent, { state }: RunProjection, interruptIds: string[]): AgUiEvent[] {
  subAgent.announced = false;
  const { runId: subagentRunId } = subAgent;
  const next = state?.context.next;
  if (next?.type === 'fail' && state?.status !== 'active')
    return [{ type: 'SUBAGENT_ERROR', subagentRunId, message: next.message, code: next.code }];
  if (state?.value === 'cancelled')
    return [{ type: 'SUBAGENT_ERROR', subagentRunId, message: 'The run was cancelled.', code: 'cancelled' }];
  const isSuspended = state?.status === 'active';
  const outcome = isSuspended
    ? ({ type: 'suspended', interruptIds } as const)
    : ({ type: 'success' } as const);
  return [{ type: 'SUBAGENT_FINISHED', subagentRunId, outcome }];
}

/** Returns the agent that a tool runs. */
function subAgentOf(agent: Agent, name: string | undefined): Agent | undefined {
  const found = (agent.options.tools ?? []).find(one => 'name' in one && one.name === name);
  const child = found && 'subAgent' in found ? found.subAgent : undefined;
  return isAgent(child) ? child : undefined;
}

/** Creates the projection of a run of `agent`. */
function projectionOf(
  agent: Agent,
  runId: string,
  messages: ThreadMessages,
  subagentRunId?: string,
): RunProjection {
  const showText = (text: string) => filterText(text, agent.options.textFilters ?? []);
  return new RunProjection({ runId, messages, showText, ...(subagentRunId && { subagentRunId }) });
}

/** Returns the last seq of a run and of each of its sub-agents' runs that are open, by run id. */
export async function seqsOf(store: Store, run: Run): Promise<Map<string, number>> {
  const seqs = new Map([[run.id, run.durable.seq]]);
  const add = async (parent: string): Promise<void> => {
    for (const { runId, seq } of (await store.list({ parent, limit: 1_000 })).runs) {
      seqs.set(runId, seq);
      await add(runId);
    }
  };
  await add(run.id);
  return seqs;
}
