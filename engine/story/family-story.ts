/* The stories of a family, merged: of a run and of the runs of its sub-agents, at any depth. */
import type { ChartState } from '../../machines/step.ts';
import type { Store } from '../../protocol/store.ts';
import { type RunHappening, stampEvent } from '../events/run-events.ts';
import { stoppable } from '../events/stoppable.ts';
import { type Host, sleep } from '../host/host.ts';
import { readPages } from '../journal/read-journal.ts';
import { childRunIdOf, type RunHandle, type StoryAgent } from '../sub-agents/sub-agent-runs.ts';
import { beginStory, type Story } from './read-story.ts';
import type { StoryEvent } from './tell-story.ts';

/** The time between two checks for a sub-agent's run that is about to be created, in ms. */
const CHILD_WAIT_MS = 50;

type FamilyOptions = {
  store: Store;
  host: Pick<Host, 'setTimer'>;
  runId: string;
  agent: StoryAgent;
  /** The entry of the top run after which its story begins; default 0. */
  after?: number;
};

type Readable = Pick<RunHandle, 'eventBatches'>;
type Started = Pick<Extract<StoryEvent, { type: 'call.started' }>, 'callId' | 'name' | 'key'>;

export type FollowOptions = {
  run: Readable;
  /** Opens the run of a sub-agent, without driving it. */
  open(runId: string): Promise<Readable>;
  /** Tells until the top run has ended; otherwise until it rests. */
  follow: boolean;
  /** Tells until this resolves, whatever `follow` is. */
  settled?(): Promise<unknown>;
};

type Member = {
  runId: string;
  agent: StoryAgent;
  /** The call that started it; absent for the top run. */
  call?: { parent: string; callId: string };
  /** Begun with the first entry. */
  story?: Story;
  happenings?: AsyncGenerator<readonly RunHappening[]>;
  isFollowed: boolean;
  /** Its call has its result: nothing more follows. */
  isOver: boolean;
};

/**
 * Tells what happens in a run and in those of its sub-agents.
 *
 * F1 Each run's events have its own order. Those of a sub-agent's run come between the start and the result of its call.
 * F2 Only `settled` drives runs.
 * F3 At most one batch of each run is in memory, so a slow reader slows the reading down.
 */
export class FamilyStory {
  readonly #options: FamilyOptions;
  readonly #top: Member;
  readonly #members: Map<string, Member>;
  #open: FollowOptions['open'] | null = null;
  readonly #arrived: { member: Member; batch: readonly RunHappening[] }[] = [];
  /** The seqs of the last entries to tell, by run, once no run will add more. */
  #last: ReadonlyMap<string, number> | null = null;
  #failure: { error: unknown } | null = null;
  #isStopped = false;
  #wake = () => {};

  constructor(options: FamilyOptions) {
    this.#options = options;
    const { runId, agent } = options;
    this.#top = { runId, agent, isFollowed: true, isOver: false };
    this.#members = new Map([[runId, this.#top]]);
  }

  /** The state of the top run after the last entry of its story; `null` before the first. */
  get state(): ChartState | null {
    return this.#top.story?.state ?? null;
  }

  /** The seq of the last entry of each story, by run. */
  get seqs(): ReadonlyMap<string, number> {
    return new Map([...this.#members].flatMap(([runId, { story }]) => (story ? [[runId, story.seq]] : [])));
  }

  /** Tells what is stored. Each value is what one entry tells. Call it before `follow`, if at all. */
  read(): AsyncGenerator<readonly StoryEvent[]> {
    return this.#readStored(this.#top);
  }

  /** Tells the rest as it happens, and at its end what was stored then: what one entry tells, or several deltas, per value. */
  follow(options: FollowOptions): AsyncGenerator<readonly StoryEvent[]> {
    return stoppable(this.#follow(options), this.#stop);
  }

  async *#follow({ run, open, follow, settled }: FollowOptions): AsyncGenerator<readonly StoryEvent[], void> {
    const { after = 0 } = this.#options;
    this.#open = open;
    settled?.().then(this.#end).catch(this.#fail);
    try {
      if (after > 0) this.#top.story ??= await this.#beginStory(this.#top, after);
      this.#readFrom(this.#top, run, follow || settled !== undefined);
      this.#followBelow(this.#top);
      while (!this.#isStopped) {
        if (this.#failure !== null) throw this.#failure.error;
        const arrival = this.#arrived.shift();
        if (arrival !== undefined) {
          yield* this.#takeBatch(arrival.member, arrival.batch);
          this.#readNext(arrival.member);
        } else if (this.#hasReachedEnd()) return;
        else
          await new Promise<void>(resolve => {
            this.#wake = resolve;
          });
      }
    } finally {
      this.#stop();
    }
  }

  readonly #stop = (): void => {
    this.#isStopped = true;
    this.#wake();
    for (const { happenings } of this.#members.values()) happenings?.return(undefined).catch(() => {});
  };

  async *#takeBatch(
    member: Member,
    batch: readonly RunHappening[],
  ): AsyncGenerator<readonly StoryEvent[], void> {
    let told: StoryEvent[] = [];
    for (const happening of batch) {
      if (!('seq' in happening)) told.push(...(member.story?.take(happening) ?? []));
      else {
        if (told.length > 0) yield told;
        told = [];
        yield* this.#takeEntry(member, happening);
      }
    }
    if (told.length > 0) yield told;
  }

  async *#takeEntry(
    member: Member,
    entry: Extract<RunHappening, { seq: number }>,
  ): AsyncGenerator<readonly StoryEvent[], void> {
    const child = 'callId' in entry ? this.#childOf(member, entry.callId) : undefined;
    if (child !== undefined && entry.type !== 'tool.started') yield* this.#readStored(child);
    const { runId, agent, call, story } = member;
    // A run that was restored from a snapshot has no earlier entries.
    member.story ??= await this.#beginStory(member, entry.seq - 1);
    const told = member.story.take(entry);
    if (story === undefined && call !== undefined)
      told.unshift({ type: 'agent.opened', runId, name: agent.name, ...call });
    if (told.length > 0) yield told;
    for (const event of told) {
      if (event.type === 'call.started') yield* this.#beginBelow(member, event);
      if (event.type === 'call.settled') this.#close(this.#childOf(member, event.callId));
    }
  }

  async *#readStored(member: Member): AsyncGenerator<readonly StoryEvent[], void> {
    const { store } = this.#options;
    const { runId, story } = member;
    if ((await store.get(runId)) === undefined) return;
    for await (const page of readPages(store, runId, story?.seq))
      for (const entry of page) yield* this.#takeEntry(member, stampEvent(entry, runId));
  }

  async *#beginBelow(parent: Member, call: Started): AsyncGenerator<readonly StoryEvent[], void> {
    const child = this.#addChild(parent, call);
    if (child === undefined) return;
    if (this.#open === null) yield* this.#readStored(child);
    else this.#followChild(child);
  }

  /** Work in the background has a story of its own: it continues after the result of its call. */
  #addChild(parent: Member, { callId, name, key }: Started): Member | undefined {
    const agent = parent.agent.subAgent(name);
    const call = parent.story?.state?.context.calls.find(one => one.callId === callId);
    if (agent === undefined || call?.background === true) return undefined;
    const runId = childRunIdOf(key, parent.runId);
    const madeBy = { parent: parent.runId, callId };
    const child = this.#members.get(runId) ?? {
      runId,
      agent,
      call: madeBy,
      isFollowed: false,
      isOver: false,
    };
    this.#members.set(runId, child);
    return child;
  }

  #childOf({ runId }: Member, callId: string): Member | undefined {
    for (const member of this.#members.values())
      if (member.call?.callId === callId && member.call.parent === runId) return member;
    return undefined;
  }

  async #beginStory({ runId, agent }: Member, after: number): Promise<Story> {
    return await beginStory(this.#options.store, { runId, filters: agent.filters }, after);
  }

  /** Follows the runs of a run's calls that are open. Those of the run that a fork is from are not its own. */
  #followBelow(parent: Member): void {
    for (const { status, key, childRunId, ...call } of parent.story?.state?.context.calls ?? []) {
      if (status === 'settled' || key === undefined) continue;
      const child = this.#addChild(parent, { ...call, key });
      if (child !== undefined && (childRunId ?? child.runId) === child.runId) this.#followChild(child);
    }
  }

  #followChild(child: Member): void {
    if (child.isFollowed) return;
    child.isFollowed = true;
    this.#followBelow(child);
    this.#openRun(child)
      .then(run => run && this.#readFrom(child, run))
      .catch(this.#fail);
  }

  /** Opens a sub-agent's run once it exists. The start of its call is journaled before. */
  async #openRun(child: Member): Promise<Readable | undefined> {
    const { store, host } = this.#options;
    while (!this.#isStopped && !child.isOver) {
      if ((await store.get(child.runId)) !== undefined) return await this.#open?.(child.runId);
      await sleep(host, CHILD_WAIT_MS);
    }
    return undefined;
  }

  #readFrom(member: Member, run: Readable, follow = true): void {
    if (this.#isStopped || member.isOver) return;
    member.happenings = run.eventBatches({ after: member.story?.seq ?? 0, follow });
    this.#readNext(member);
  }

  #readNext(member: Member): void {
    member.happenings
      ?.next()
      .then(({ done, value }) => {
        if (done !== true) this.#arrived.push({ member, batch: value });
        else if (member === this.#top) return this.#end();
        return this.#wake();
      })
      .catch(this.#fail);
  }

  #close(child: Member | undefined): void {
    if (child === undefined) return;
    child.isOver = true;
    child.happenings?.return(undefined).catch(() => {});
  }

  readonly #end = async (): Promise<void> => {
    const { store } = this.#options;
    const last = [...this.#members.keys()].map(async runId => {
      return [runId, (await store.get(runId))?.seq ?? 0] as const;
    });
    this.#last = new Map(await Promise.all(last));
    this.#wake();
  };

  #hasReachedEnd(): boolean {
    const last = this.#last;
    if (last === null) return false;
    for (const { runId, story, isFollowed, isOver } of this.#members.values())
      if (isFollowed && !isOver && (story?.seq ?? 0) < (last.get(runId) ?? 0)) return false;
    if (last.size === this.#members.size) return true;
    this.#last = null;
    this.#end().catch(this.#fail);
    return false;
  }

  readonly #fail = (error: unknown): void => {
    this.#failure ??= { error };
    this.#wake();
  };
}

/** The events of `FamilyStory.follow`, one by one. */
export function oneByOne(told: AsyncGenerator<readonly StoryEvent[]>): AsyncGenerator<StoryEvent> {
  return stoppable(each(told), () => void told.return(undefined).catch(() => {}));
}

async function* each(told: AsyncIterable<readonly StoryEvent[]>): AsyncGenerator<StoryEvent> {
  for await (const events of told) yield* events;
}
