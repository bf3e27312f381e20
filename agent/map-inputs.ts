import type { Host } from '../engine/host/host.ts';
import { isOwnerDead } from '../engine/host/owner.ts';
import { standingOf } from '../engine/journal/load-run.ts';
import { successorOf } from '../engine/migrations/migrate-run.ts';
import { refuseNoList } from '../engine/run/known-commands.ts';
import type { Run } from '../engine/run/run.ts';
import { narrowLimits } from '../engine/sub-agents/sub-agent-runs.ts';
import type { Limits } from '../protocol/config.ts';
import { digestOf } from '../protocol/content/digest.ts';
import { EngineError, invalidInput } from '../protocol/error.ts';
import type { Item } from '../protocol/item.ts';
import { omitUndefined, toJson } from '../protocol/json.ts';
import { readLabels } from '../protocol/listing/label.ts';
import { describeGiven, optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { Settled } from '../protocol/run-view.ts';
import { isDriven, listAll, type Store } from '../protocol/store.ts';
import { checkLimits } from './agent-options.ts';
import { refuseNoSignal, type StartOptions } from './begin-journal.ts';

type Input = string | readonly Item[];

/** What the runs of a map may spend together. */
export type MapLimits = Partial<Pick<Limits, 'turns' | 'tokens' | 'cost'>>;

/** `done`: how many of `all` inputs have a result. `cost`: of their runs, in the unit of `prices`. */
export type MapProgress = { done: number; all: number; cost: number };

/** Options of `agent.map`. */
export type MapOptions<RunContext = unknown, Given extends Input = Input> = Pick<
  StartOptions,
  'labels' | 'by'
> & {
  /** How many runs this process drives at once. Default 8. */
  concurrency?: number;
  /**
   * What the runs may spend together. Once it is spent, no run begins; those that have begun continue, each within the agent's
   * limits, and none alone spends more than this.
   */
  limits?: MapLimits;
  /** The run context of all runs, or a function of an input and its place that returns it. */
  runContext?: RunContext | ((input: Given, place: number) => RunContext);
  /** Cancels the runs in progress when aborted, and begins no others. */
  signal?: AbortSignal;
  /** Called with each result. What it throws ends the map like an error of the store. */
  onProgress?(progress: MapProgress): void;
};

/** The arguments of `map` after the inputs: an agent with a run context requires options that have it. */
export type MapArguments<RunContext, Given extends Input> = undefined extends RunContext
  ? [options?: MapOptions<RunContext, Given>]
  : [options: MapOptions<RunContext, Given> & Required<Pick<MapOptions<RunContext, Given>, 'runContext'>>];

/** An input without a run: `limit` is spent, or the map was aborted. */
export type NotStarted = { status: 'not-started'; limit?: keyof MapLimits; usage: null; turns: 0 };

/** The result for one input: how its run ended or what it waits for, or that it has none. */
export type MapResult<Tools, Output> = (Settled<Tools, Output> & { runId: string }) | NotStarted;

const NAMES = optionNames<MapOptions>()('labels by concurrency limits runContext signal onProgress');
const LIMIT_NAMES = optionNames<MapLimits>()('turns tokens cost');
const LIMITS = ['turns', 'tokens', 'cost'] as const;

const CONCURRENCY = 8;

type KnownOptions = MapOptions & { concurrency: number; limits: MapLimits };

/** An input, with what its run is begun with. */
type Job = { place: number; input: Input; runContext: unknown; runId: string };

type Parts<Tools, Output> = {
  agent: string;
  store: Store;
  host: Host;
  /** The agent's own limits. */
  limits: Limits;
  start(input: Input, options: StartOptions): Promise<Run<Tools, Output>>;
  open(runId: string): Promise<Run<Tools, Output>>;
};

/** See `agent.map`. */
export async function mapInputs<Tools, Output>(
  parts: Parts<Tools, Output>,
  inputs: readonly Input[],
  options: MapOptions = {},
): Promise<MapResult<Tools, Output>[]> {
  refuseNoList('agent.map', inputs);
  refuseUnknownOptions('agent.map', options, NAMES, 'input-invalid');
  const { concurrency = CONCURRENCY, limits = {}, signal, onProgress } = options;
  refuseNoSignal('agent.map', signal);
  if (onProgress !== undefined && typeof onProgress !== 'function')
    throw invalidInput(`onProgress of agent.map must be a function, got ${describeGiven(onProgress)}.`);
  refuseUnknownOptions('limits of agent.map', limits, LIMIT_NAMES, 'input-invalid');
  checkLimits({ ...parts.limits, ...omitUndefined(limits) });
  if (!(Number.isInteger(concurrency) && concurrency > 0))
    throw invalidInput(`concurrency of agent.map must be a positive integer, got ${concurrency}.`);
  if (options.labels !== undefined) readLabels(options.labels);
  return await new InputMap(parts, inputs, { ...options, concurrency, limits }).settle();
}

/**
 * A map of inputs to runs.
 *
 * M1 The id of a run is a digest of what it is begun with, and no store creates an id twice: however many processes map
 *    the same inputs, at once or one after another, each input has one run.
 * M2 Runs that exist come first, so that what they have spent is known before another begins.
 * M3 A run that another process drives takes no slot while there is something else to do.
 */
class InputMap<Tools, Output> {
  readonly #parts: Parts<Tools, Output>;
  readonly #inputs: readonly Input[];
  readonly #options: KnownOptions;
  readonly #results: MapResult<Tools, Output>[] = [];
  readonly #running = new Set<Run<Tools, Output>>();
  /** The ids of the runs that have begun and have no result yet, here and in other processes. */
  readonly #begun = new Set<string>();
  readonly #spent = { turns: 0, tokens: 0, cost: 0 };
  #done = 0;

  constructor(parts: Parts<Tools, Output>, inputs: readonly Input[], options: KnownOptions) {
    this.#parts = parts;
    this.#inputs = inputs;
    this.#options = options;
  }

  async settle(): Promise<MapResult<Tools, Output>[]> {
    const { signal } = this.#options;
    const { known, fresh } = await this.#findRuns();
    const elsewhere: Job[] = [];
    const collect = async (job: Job) => await this.#settle(job, await this.#parts.open(job.runId));
    const visit = async (job: Job) => {
      this.#begun.add(job.runId);
      if (await this.#isDrivenElsewhere(job)) elsewhere.push(job);
      else await collect(job);
    };
    const cancelAll = () => this.#running.forEach(cancel);
    signal?.addEventListener('abort', cancelAll);
    try {
      await this.#each(known, visit);
      await this.#each(fresh, async job => {
        if (!(await this.#begin(job))) await visit(job);
      });
      await this.#each(elsewhere, collect);
    } finally {
      signal?.removeEventListener('abort', cancelAll);
    }
    return this.#results;
  }

  /** After an error no other work begins, and the work in progress ends before this rejects. */
  async #each(jobs: readonly Job[], work: (job: Job) => Promise<void>): Promise<void> {
    let next = 0;
    const slot = async () => {
      for (let job = jobs[next]; job !== undefined; job = jobs[next]) {
        next += 1;
        await work(job).catch(error => {
          next = jobs.length;
          throw error;
        });
      }
    };
    const slots = Array.from({ length: Math.min(this.#options.concurrency, jobs.length) }, slot);
    for (const ended of await Promise.allSettled(slots)) if (ended.status === 'rejected') throw ended.reason;
  }

  /** Without labels, which name the map, all runs are new. A migrated run is known by its latest successor. */
  async #findRuns(): Promise<{ known: Job[]; fresh: Job[] }> {
    const { labels = {} } = this.#options;
    const jobs = this.#inputs.map((input, place) => ({
      place,
      input,
      runContext: this.#contextOf(input, place),
    }));
    if (Object.keys(labels).length === 0)
      return { known: [], fresh: jobs.map(job => ({ ...job, runId: this.#parts.host.newId('run') })) };
    const there = new Set<string>();
    const { agent, store } = this.#parts;
    for await (const { runId } of listAll(store, { agent, labels, onDamaged() {} })) there.add(runId);
    const equal = new Map<string, number>();
    const known: Job[] = [];
    const fresh: Job[] = [];
    for (const job of jobs) {
      const { input, runContext } = job;
      const digest = digestOf(toJson(omitUndefined({ agent, labels, input, runContext })));
      const count = (equal.get(digest) ?? 0) + 1;
      equal.set(digest, count);
      let runId = count === 1 ? `run_${digest}` : `run_${digest}_${count}`;
      for (let later = successorOf(runId); there.has(later); later = successorOf(runId)) runId = later;
      (there.has(runId) ? known : fresh).push({ ...job, runId });
    }
    return { known, fresh };
  }

  #contextOf(input: Input, place: number): unknown {
    const { runContext } = this.#options;
    return typeof runContext === 'function' ? runContext(input, place) : runContext;
  }

  /** Begins the run and waits for its result, unless the run exists; returns whether there is a result now. */
  async #begin(job: Job): Promise<boolean> {
    const { signal, labels, by, limits } = this.#options;
    const limit = await this.#findSpent();
    if (limit !== undefined || signal?.aborted === true) {
      if ((await this.#parts.store.get(job.runId)) !== undefined) return false;
      this.#put(job, { status: 'not-started', usage: null, turns: 0, ...omitUndefined({ limit }) });
      return true;
    }
    const { runId, input, runContext } = job;
    const own = this.#hasLimits ? narrowLimits(this.#parts.limits, limits) : undefined;
    this.#begun.add(runId);
    let run: Run<Tools, Output>;
    try {
      run = await this.#parts.start(input, {
        runId,
        ...omitUndefined({ labels, by, runContext, limits: own }),
      });
    } catch (error) {
      if (error instanceof EngineError && error.code === 'run-exists') return false;
      throw error;
    }
    await this.#settle(job, run);
    return true;
  }

  get #hasLimits(): boolean {
    return LIMITS.some(name => this.#options.limits[name] !== undefined);
  }

  /** The first limit that is spent by what the store has of all runs of the map. */
  async #findSpent(): Promise<keyof MapLimits | undefined> {
    if (!this.#hasLimits) return undefined;
    const settled = { ...this.#spent };
    const begun = await Promise.all([...this.#begun].map(runId => this.#parts.store.get(runId)));
    return LIMITS.find(name => {
      const { [name]: most = Number.POSITIVE_INFINITY } = this.#options.limits;
      return begun.reduce((sum, record) => sum + (record?.[name] ?? 0), settled[name]) >= most;
    });
  }

  async #isDrivenElsewhere({ runId }: Job): Promise<boolean> {
    const record = await this.#parts.store.get(runId);
    return record !== undefined && isDriven(record, this.#parts.host.now(), isOwnerDead);
  }

  async #settle(job: Job, run: Run<Tools, Output>): Promise<void> {
    this.#running.add(run);
    try {
      if (this.#options.signal?.aborted === true) cancel(run);
      const settled = await run.settled();
      const { progress } = standingOf(run.durable.state);
      for (const name of LIMITS) this.#spent[name] += progress[name];
      this.#begun.delete(job.runId);
      this.#put(job, { ...settled, runId: run.id });
    } finally {
      this.#running.delete(run);
    }
  }

  #put({ place }: Job, result: MapResult<Tools, Output>): void {
    this.#results[place] = result;
    this.#done += 1;
    const { cost } = this.#spent;
    this.#options.onProgress?.({ done: this.#done, all: this.#inputs.length, cost });
  }
}

/** A run that rests or has ended stays as it is. */
function cancel(run: Run<unknown, unknown>): void {
  if (standingOf(run.durable.state).status === 'running')
    void run.cancel({ reason: 'aborted by the caller' }).catch(() => {});
}
