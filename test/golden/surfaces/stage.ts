import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises';
import * as z from 'zod';
import { openaiResponses } from '../../../adapters/openai-responses.ts';
import { type Agent, createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import type { StartOptions } from '../../../agent/begin-journal.ts';
import { InDoubt } from '../../../agent/index.ts';
import { sleep } from '../../../engine/host/host.ts';
import type { Run } from '../../../engine/run/run.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import { shortenOwnerName } from '../../../protocol/owner-name.ts';
import type { OpenItem } from '../../../protocol/run-view.ts';
import type { Store } from '../../../protocol/store.ts';
import type { Tool } from '../../../protocol/tool.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { tool } from '../../../tools/tool.ts';
import { watchStore } from '../../support/engine/watched-store.ts';
import { type PlayedTurn, Provider } from './provider.ts';

/** What a person or a client does about a run. The calls that it decides are the first open ones of its kind. */
export type Act =
  | { type: 'approve'; input?: object }
  | { type: 'reject'; reason?: string }
  | { type: 'answer'; output: string | object; isError?: true }
  | { type: 'resolve'; as: { happened: true; output: string } | { failed: string } | { retry: true } }
  | { type: 'run'; what: string; how(run: Run, stage: Stage): Promise<unknown> };

/** A run that every surface shows. */
export type Scenario = {
  about: string;
  /** The provider's turns; by model, where there are several. */
  turns: readonly PlayedTurn[] | Readonly<Record<string, readonly PlayedTurn[]>>;
  options?: Partial<AgentOptions>;
  /** The agent's sub-agent, on the model `clerk`. */
  hasClerk?: true;
  /** The agent can ship: in the background, for a second. */
  ships?: true;
  /** The adapter does not know the ids of calls before they are complete. */
  hasLateIds?: true;
  start?: StartOptions;
  /** One after each rest of the run. */
  acts?: readonly Act[];
  /** What happens at the marks of the provider's turns. */
  atMark?: (run: Run) => Promise<unknown>;
  /** The turns of a process that dies at its first mark. Another one goes on with `turns`. */
  died?: readonly PlayedTurn[];
  /** The surfaces show a fork of the settled run at this entry. */
  forksAt?: number;
};

const anything = z.looseObject({});
const DETAILS = { description: 'A tool.', input: anything } as const;

/** Turns of the event loop in which every reader has read what is there; fewer than in which a host is idle. */
const READER_TURNS = 6;

/** The tools of all agents here. */
const TOOLS: readonly Tool[] = [
  tool({ ...DETAILS, name: 'look', sideEffect: 'none', run: input => ({ seen: input }) }),
  tool({ ...DETAILS, name: 'list', sideEffect: 'none', run: () => ['a', 'b'] }),
  tool({
    ...DETAILS,
    name: 'pay',
    approval: () => ({ required: true, reason: 'money leaves the house' }),
    run: input => ({ paid: input }),
  }),
  tool({
    ...DETAILS,
    name: 'hurry',
    approval: () => ({ required: true, expiresInMs: 60_000 }),
    run: () => 'done',
  }),
  tool({ ...DETAILS, name: 'ask' }),
  tool({
    ...DETAILS,
    name: 'fail',
    sideEffect: 'none',
    run: () => {
      throw new Error('the till is closed');
    },
  }),
  tool({
    ...DETAILS,
    name: 'charge',
    // Readers see that it runs: they have read everything before the connection breaks.
    run: async () => {
      for (let turns = 0; turns < READER_TURNS; turns += 1) await turn();
      throw new InDoubt('the connection broke');
    },
  }),
  tool({
    ...DETAILS,
    name: 'strict',
    input: z.object({ cents: z.number() }),
    sideEffect: 'none',
    run: () => 1,
  }),
  tool({
    ...DETAILS,
    name: 'slow',
    sideEffect: 'none',
    run: (_, { progress }) => {
      progress({ done: 1, of: 2 });
      progress({ done: 2, of: 2 });
      return 'slowly done';
    },
  }),
];

export const INPUT = 'Do it.';

/** A process with the agent of a scenario, over a clock that stands still but for what the provider and `until` let pass. */
export class Stage {
  readonly scenario: Scenario;
  readonly host: ManualHost;
  readonly store: Store;
  readonly provider: Provider;
  readonly agent: Agent;
  /** What a surface does at a mark, before the scenario. */
  atMark: () => Promise<unknown> = async () => {};
  /** Time passes only when real time does: for work on other threads. */
  isRealTime = false;
  /** What the surface told its operator. */
  readonly logged: string[] = [];
  #run: Run | undefined;

  private constructor(
    scenario: Scenario,
    process: { host: ManualHost; store: Store; turns: Scenario['turns'] },
  ) {
    const { host, store, turns } = process;
    const { options = {}, hasClerk, ships, hasLateIds, atMark } = scenario;
    this.scenario = scenario;
    this.host = host;
    this.store = store;
    this.provider = new Provider({
      host,
      turns: 'length' in turns ? { gpt: turns as readonly PlayedTurn[] } : turns,
      atMark: async () => {
        await this.atMark();
        if (atMark !== undefined) await atMark(await this.#newest());
      },
    });
    const models = 'length' in turns ? ['gpt'] : Object.keys(turns).filter(name => name !== 'clerk');
    const open = (model: string) => {
      const adapter = openaiResponses({
        model,
        apiKey: 'sk-golden',
        baseURL: 'https://provider.example/v1',
        fetch: this.provider.fetch,
      });
      return hasLateIds === true ? withLateIds(adapter) : adapter;
    };
    const clerk = createAgent({ name: 'clerk', model: open('clerk'), tools: TOOLS, host });
    const below: Tool[] = hasClerk ? [clerk.asTool({ name: 'clerk', description: 'Asks the clerk.' })] : [];
    if (ships)
      below.push(
        tool({
          ...DETAILS,
          name: 'ship',
          background: true,
          run: async () => {
            await sleep(host, 1000);
            return { shipped: true };
          },
        }),
      );
    this.agent = createAgent({
      name: 'desk',
      model: models.map(open),
      tools: [...TOOLS, ...below],
      host,
      store,
      ...options,
    }) as unknown as Agent;
  }

  /** The stage of a scenario. If a process of it has died, the run is there already. */
  static async open(scenario: Scenario, start: StartOptions = {}): Promise<Stage> {
    const shared = memory();
    const { died, turns } = scenario;
    if (died === undefined) return new Stage(scenario, { host: new ManualHost(), store: shared, turns });
    let isOver = false;
    const never = new Promise<never>(() => {});
    const dying = new Stage(scenario, {
      host: new ManualHost({ name: 'dead' }),
      store: watchStore(shared, { before: () => (isOver ? never : undefined) }),
      turns: died,
    });
    const end = Promise.withResolvers<void>();
    dying.atMark = () => {
      isOver = true;
      end.resolve();
      return never;
    };
    const run = await dying.agent.start(INPUT, { ...scenario.start, ...start });
    run.settled().catch(() => {});
    await end.promise;
    const now = dying.host.now() + 60_000;
    return new Stage(scenario, { host: new ManualHost({ now }), store: shared, turns });
  }

  /** Starts the run, or opens the one that is there. */
  async begin(start: StartOptions = {}): Promise<Run> {
    const found = await this.#find();
    const begun =
      found === undefined
        ? await this.agent.start(INPUT, { ...this.scenario.start, ...start })
        : await this.agent.open(found);
    const { forksAt } = this.scenario;
    if (forksAt !== undefined) await this.until(begun.settled());
    this.#run =
      forksAt === undefined ? begun : await begun.fork({ at: forksAt, inThread: start.thread !== undefined });
    this.#run.settled().catch(() => {});
    return this.#run;
  }

  /** The run that a front began, opened by its id. */
  async opened(): Promise<Run> {
    this.#run = await this.#newest();
    return this.#run;
  }

  log(line: string): void {
    this.logged.push(line.split('\n')[0] ?? '');
  }

  /** Lets time pass while the provider is silent, until the promise settles. */
  async until<Value>(promise: Promise<Value>): Promise<Value> {
    let isSettled = false;
    const settle = () => {
      isSettled = true;
    };
    promise.then(settle, settle);
    for (let silent = 0; silent < 3_000; ) {
      await this.host.idle();
      if (isSettled) return await promise;
      if (this.provider.busy > 0) continue;
      if (this.isRealTime) await delay(1);
      silent += 1;
      await this.host.advance(50);
    }
    throw new Error('nothing happens any more');
  }

  /** Carries out an act as the engine's command. */
  async act(act: Act): Promise<void> {
    const run = this.#run ?? (await this.opened());
    if (act.type === 'run') return void (await this.until(Promise.resolve(act.how(run, this))));
    const call = await this.open(act);
    const { type, ...options } = act;
    const how = 'as' in options ? options.as : options;
    const result = await run.submit([
      { type, callId: call.callId, runId: call.runId, by: 'ann', ...how } as never,
    ]);
    if (!result.accepted) throw new Error(result.message);
  }

  /** The open call that an act decides. */
  async open({ type }: Act): Promise<OpenItem> {
    const settled = await this.until((this.#run ?? (await this.opened())).settled());
    const open = settled.status === 'waiting' ? settled.open : [];
    const kinds = { approve: 'approval', reject: 'approval', answer: 'result', resolve: 'doubt', run: '' }[
      type
    ];
    const calls = open.flatMap(one => ('callId' in one ? [one] : []));
    const found = calls.find(({ kind }) => kind === kinds) ?? (type === 'answer' ? calls[0] : undefined);
    if (found === undefined) throw new Error(`nothing is open for ${type}`);
    return found;
  }

  /**
   * Plays the scenario in phases: the run's beginning, and then each act. `show` shows the surface until the run
   * settles again.
   */
  async play(show: (title: string, act: Act | null) => Promise<void>): Promise<void> {
    await this.until(show('begins', null));
    for (const act of this.scenario.acts ?? []) await this.until(show(titleOf(act), act));
  }

  async #find(): Promise<string | undefined> {
    const { runs } = await this.store.list({ limit: 100 });
    return runs.find(({ agent, forkOf }) => agent === 'desk' && forkOf === undefined)?.runId;
  }

  async #newest(): Promise<Run> {
    return this.#run ?? (await this.agent.open((await this.#find()) ?? ''));
  }
}

function titleOf(act: Act): string {
  if (act.type === 'run') return act.what;
  const { type, ...options } = act;
  return `${type} ${JSON.stringify(options)}`;
}

function withLateIds(adapter: ModelAdapter): ModelAdapter {
  const { provider, model, capabilities } = adapter;
  return {
    provider,
    model,
    capabilities,
    generate: (request, options) => adapter.generate(request, options),
    async *stream(request, options) {
      for await (const delta of adapter.stream(request, options)) {
        if (delta.type !== 'call_started') yield delta;
        else yield { type: 'call_started', index: delta.index, name: delta.name };
      }
    },
  };
}

/** A text without what differs between machines. */
export function hideProcess(text: string, names: readonly string[]): string {
  const escaped = (name: string) => JSON.stringify(name).slice(1, -1);
  return names.reduce(
    (hidden, name) =>
      hidden.replaceAll(escaped(name), 'a process').replaceAll(escaped(shortenOwnerName(name)), 'a process'),
    text,
  );
}

/** The names of the processes that drove the runs of a store. */
export async function processesOf(store: Store): Promise<string[]> {
  const { runs } = await store.list({ limit: 100 });
  const entries = (await Promise.all(runs.map(({ runId }) => store.read(runId)))).flat();
  return entries.flatMap(({ event }) => (event.type === 'run.claimed' ? [event.by] : []));
}
