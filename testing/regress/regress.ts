import type { Agent } from '../../agent/agent.ts';
import { defineAgent } from '../../agent/agent-options.ts';
import { foreignRun } from '../../agent/sub-agents.ts';
import { systemHost } from '../../engine/host/host.ts';
import { readFromStart, readJournal, type WholeJournal } from '../../engine/journal/read-journal.ts';
import { describeOutcome, type Outcome } from '../../engine/replay/describe-outcome.ts';
import { type RecordedRun, recordJournal } from '../../engine/replay/record-run.ts';
import type { ChartState } from '../../machines/step.ts';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import { digestCall, hashOf } from '../../protocol/content/digest.ts';
import { EngineError, invalidInput, messageOf } from '../../protocol/error.ts';
import { callsOf, type JournalEntry } from '../../protocol/event.ts';
import { type JsonValue, omitUndefined, toJson } from '../../protocol/json.ts';
import { type Labels, MOST_LABELS } from '../../protocol/listing/label.ts';
import { optionNames, refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import { listAll, type RunRecord, type RunStatus, type Store } from '../../protocol/store.ts';
import type { Tool } from '../../protocol/tool.ts';
import { compareRuns } from '../../regress/compare-runs.ts';
import { readPlayedNote } from '../../regress/played-note.ts';
import { type Comparison, type Paired, type PlayedNote, REGRESS } from '../../regress/played-run.ts';
import { type RegressReport, ReportBuilder } from '../../regress/report.ts';
import { memory } from '../../stores/memory.ts';
import { connectTools, isToolSource } from '../../tools/connect-tools.ts';
import { type FollowedRun, followRecording, isPaused, keyAsRead } from '../play/follow-recording.ts';
import { copyRun, writeCopy } from './copy-run.ts';

/** The recorded runs: the agent's, newest first. `since`: created at this time or later, in ms since the epoch. */
export type RecordedRuns = {
  /** Default: the agent's store. */
  store?: Store;
  /** At most so many. Default 200. */
  last?: number;
  labels?: Labels;
  since?: number;
  status?: RunStatus;
  /** These runs, without the other filters. */
  ids?: readonly string[];
};

/** A run, for a score of one's own. `calls`: of tools, in order, with the results that they had. Cost is in the prices' unit. */
export type ScoredRun = Outcome & { runId: string; turns: number; cost: number };

/** Says how good a run is: whether it is, or in a number, of which more is better. */
export type Score = (run: ScoredRun) => number | boolean | Promise<number | boolean>;

export type RegressOptions = {
  runs?: RecordedRuns;
  /** Instead of the agent's model. */
  model?: ModelAdapter;
  /** How often each run is played. Default 1. */
  samples?: number;
  /** Another agent that the runs are played by too, such as that of the main branch: its differences are noise. */
  baseline?: Agent;
  /** Starts no more runs once the played ones have cost this much together, in the unit of the agent's prices. */
  cost?: number;
  /** Tools without side effects, whose calls are executed where the recording has no result. */
  execute?: readonly string[];
  score?: Score;
  /**
   * Where the played runs are kept, with copies of the recorded ones: the job continues there. A function gets the name of
   * the job, which differs for another agent or model, and returns a store to be closed. Default: nowhere.
   */
  out?: Store | ((job: string) => Store);
  /** How many runs are played at the same time. Default 4. */
  concurrency?: number;
  /** Does not ask tool servers for their tools: runs that called one of them are undecidable. */
  offline?: boolean;
  /** Ends it early, with a report of what was played. */
  signal?: AbortSignal;
  /** Called before the first sample and after each one. */
  onProgress?(progress: RegressProgress): void;
};

/** `cost`: what the played runs have cost, `again`: how many of `done` an earlier job had played. */
export type RegressProgress = { done: number; all: number; again: number; cost: number };

const NAMES = optionNames<RegressOptions>()(
  'runs model samples baseline cost execute score out concurrency offline signal onProgress',
);
const RUN_NAMES = optionNames<RecordedRuns>()('store last labels since status ids');
const DEFAULTS = { last: 200, samples: 1, concurrency: 4 };
const MOST = { last: 100_000, samples: 100, concurrency: 64 };

/**
 * Plays recorded runs on the agent as it is now, and compares what they do: which tools they call with what, what people
 * are asked, how they end, and what they cost. Nothing is executed: calls get the results that equal calls had, and what
 * the recording does not have ends that sample (see `followRecording`). The recorded runs are only read.
 *
 * A played run is written to `out` in one commit, cancelled, with a note that has its comparison. So a job that was killed
 * continues where it was, with the same agent, options and `out`.
 *
 * Throws `input-invalid`, `run-unknown`, `run-foreign`, `model-missing`, the provider's error if it refuses the key, and
 * the errors of the stores and of tool servers.
 *
 * @example
 * const report = await regress(agent, { runs: { last: 200, labels: { team: 'support' } } });
 * expect(report.newCalls({ sideEffect: 'once' })).toEqual([]);
 */
export async function regress(agent: Agent, options: RegressOptions = {}): Promise<RegressReport> {
  const checked = checkOptions(agent, options);
  const { runs = {}, baseline, model, offline = false } = options;
  const players: Player[] = [];
  try {
    players.push(await makePlayer('candidate', agent, { model, offline, checked }));
    if (baseline !== undefined)
      players.push(await makePlayer('baseline', baseline, { model: undefined, offline, checked }));
    const source = runs.store ?? agent.store;
    const listed = await listRuns(agent, source, runs, checked.last);
    if (listed.length === 0)
      throw new EngineError('run-unknown', `No recorded run of the agent "${agent.name}" matches.`);
    const name = hashOf(players.map(({ digest }) => digest)).slice(0, 16);
    const { out: given } = options;
    const out = typeof given === 'function' ? given(name) : given;
    try {
      if (out !== undefined) await assertOwn(out, name, source);
      return await new Job({ name, source, out, players, options, checked }).run(listed);
    } finally {
      if (typeof given === 'function') await out?.close();
    }
  } finally {
    await Promise.all(players.map(({ close }) => close()));
  }
}

/** Refuses the store of the recorded runs, and one with runs that this job did not play or copy. */
async function assertOwn(out: Store, name: string, source: Store): Promise<void> {
  if (out === source) throw invalidInput('out: the recorded runs are there. Give another store.');
  const { runs: played } = await out.list({ labels: { [REGRESS]: 'candidate' }, limit: 1 });
  const [other] = played;
  if (other?.labels.job === name) return;
  if (other !== undefined)
    throw invalidInput(
      'out: the store has runs that another agent, model or baseline played. Give another one, or delete this one.',
    );
  const { runs } = await out.list({ limit: MOST_COPIES });
  for (const { runId } of runs)
    if ((await source.get(runId)) === undefined)
      throw invalidInput('out: the store has other runs. Give another one, for the played runs alone.');
}

/** How many runs are looked at; a job that was killed early has left copies only. */
const MOST_COPIES = 20;

type Checked = { last: number; samples: number; concurrency: number; executes: ReadonlySet<string> };

function checkOptions(agent: Agent, options: RegressOptions): Checked {
  refuseUnknownOptions('regress', options, NAMES, 'input-invalid');
  const { runs = {}, baseline, model, cost, execute = [] } = options;
  refuseUnknownOptions('runs of regress', runs, RUN_NAMES, 'input-invalid');
  const whole = (name: keyof typeof DEFAULTS, value: number = DEFAULTS[name]): number => {
    if (Number.isSafeInteger(value) && value > 0 && value <= MOST[name]) return value;
    throw invalidInput(`${name}: expected a whole number from 1 to ${MOST[name]}, got ${value}.`);
  };
  const filter = (['last', 'labels', 'since', 'status'] as const).find(name => runs[name] !== undefined);
  if (runs.ids !== undefined && filter !== undefined)
    throw invalidInput(`ids and ${filter} exclude each other. Give one of them.`);
  if (cost !== undefined && !(Number.isFinite(cost) && cost > 0))
    throw invalidInput(`cost: expected a positive number, got ${cost}.`);
  if (cost !== undefined && agent.options.prices === undefined)
    throw invalidInput('cost: the agent has no prices. Give createAgent the prices of its models.');
  if (baseline !== undefined && baseline.name !== agent.name)
    throw invalidInput(`baseline: expected the agent "${agent.name}", got "${baseline.name}".`);
  const models = model ?? agent.options.model;
  if (models === undefined)
    throw new EngineError(
      'model-missing',
      `The agent "${agent.name}" has no model. Give regress one: its option model, or --model or AGENTCHART_MODEL on the command line.`,
    );
  return {
    last: whole('last', runs.last),
    samples: whole('samples', options.samples),
    concurrency: whole('concurrency', options.concurrency),
    executes: new Set(execute),
  };
}

/** An agent that plays, with its tools. `lacks`: it has tool servers that were not asked. */
type Player = {
  side: PlayedNote['side'];
  agent: Agent;
  model: ModelAdapter | undefined;
  tools: ReadonlyMap<string, Tool>;
  lacks: boolean;
  /** Differs for agents, models and options that may play otherwise. */
  digest: string;
  close(): Promise<void>;
};

type PlayerOptions = { model: ModelAdapter | undefined; offline: boolean; checked: Checked };

async function makePlayer(
  side: Player['side'],
  agent: Agent,
  { model, offline, checked: { executes } }: PlayerOptions,
): Promise<Player> {
  const entries = agent.options.tools ?? [];
  const sources = entries.filter(isToolSource);
  const { tools, close } = await connectTools(
    offline ? entries.filter(entry => !isToolSource(entry)) : entries,
  );
  const refused = [...executes].find(name => tools.get(name)?.sideEffect !== 'none');
  if (refused !== undefined) {
    await close();
    const why = tools.has(refused) ? 'has side effects' : 'is not a tool of the agent';
    throw invalidInput(`execute: "${refused}" ${why}. Only tools with the side effect "none" are executed.`);
  }
  const digest = digestPlayer(agent, { model, tools, executes });
  return { side, agent, model, tools, lacks: offline && sources.length > 0, digest, close };
}

/** A function counts by its source, so that a change in what it calls goes unnoticed. */
function digestPlayer(
  agent: Agent,
  { model, tools, executes }: Pick<Player, 'model' | 'tools'> & Pick<Checked, 'executes'>,
): string {
  const {
    tools: _,
    store: __,
    host: ___,
    watchers: ____,
    model: own = [],
    output: _____,
    ...rest
  } = agent.options;
  const models = [model ?? own].flat().map(one => `${one.provider}/${one.model}`);
  const { output } = defineAgent(agent.options);
  const named = { output: output?.format, models, executes: [...executes], tools: [...tools.values()] };
  return hashOf(describe({ ...rest, ...named }, new Set()));
}

/** JSON of data, the source of functions, and of objects of classes their names. */
function describe(value: unknown, above: ReadonlySet<object>): JsonValue {
  if (typeof value === 'function') return value.toString();
  if (typeof value !== 'object' || value === null) return value === undefined ? null : toJson(value);
  if (above.has(value)) return null;
  const inside = new Set([...above, value]);
  if (Array.isArray(value)) return value.map(one => describe(one, inside));
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return value.constructor.name;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, describe(one, inside)]));
}

async function listRuns(
  agent: Agent,
  store: Store,
  { ids, labels, since, status }: RecordedRuns,
  last: number,
): Promise<RunRecord[]> {
  const listed: RunRecord[] = [];
  if (ids !== undefined) {
    for (const runId of new Set(ids)) {
      const record = await store.get(runId);
      if (record === undefined) throw new EngineError('run-unknown', `The store has no run ${runId}.`);
      if (record.agent !== agent.name) throw foreignRun(runId, record.agent, agent.name);
      listed.push(record);
    }
    return listed;
  }
  const filter = omitUndefined({ labels, since, status });
  for await (const record of listAll(store, { ...filter, agent: agent.name, onDamaged: () => {} })) {
    if (record.labels[REGRESS] !== undefined || (record.status === 'running' && status === undefined))
      continue;
    if (await isWorkOfCall(store, record)) continue;
    listed.push(record);
    if (listed.length === last) break;
  }
  return listed;
}

/** A run of one call in the background has the agent of the run that made the call, and is played with that. */
async function isWorkOfCall(store: Store, { parent, agent }: RunRecord): Promise<boolean> {
  return parent !== undefined && (await store.get(parent.runId))?.agent === agent;
}

type JobParts = {
  name: string;
  source: Store;
  out: Store | undefined;
  players: readonly Player[];
  options: RegressOptions;
  checked: Checked;
};

class Job {
  readonly #parts: JobParts;
  #report = new ReportBuilder();
  #progress: RegressProgress = { done: 0, all: 0, again: 0, cost: 0 };

  constructor(parts: JobParts) {
    this.#parts = parts;
  }

  async run(listed: readonly RunRecord[]): Promise<RegressReport> {
    const { checked, players, options } = this.#parts;
    const all = listed.length * checked.samples * players.length;
    this.#progress = { ...this.#progress, all };
    this.#report = new ReportBuilder(listed.map(({ runId }) => runId));
    options.onProgress?.(this.#progress);
    const queue = listed.values();
    const failed = new AbortController();
    const signal = AbortSignal.any([failed.signal, ...(options.signal ? [options.signal] : [])]);
    const work = async () => {
      for (const record of queue) {
        if (signal.aborted || this.#isSpent()) return;
        await this.#playAll(record, signal);
      }
    };
    const workers = Array.from({ length: checked.concurrency }, () =>
      work().catch(error => {
        if (options.signal?.aborted !== true) failed.abort(error);
      }),
    );
    await Promise.all(workers);
    failed.signal.throwIfAborted();
    return this.#report.report({ complete: this.#progress.done === all });
  }

  #isSpent(): boolean {
    const { cost = Number.POSITIVE_INFINITY } = this.#parts.options;
    return this.#progress.cost >= cost;
  }

  async #playAll(record: RunRecord, signal: AbortSignal): Promise<void> {
    const { checked, players } = this.#parts;
    let recorded: Recorded | Unplayable | undefined;
    for (let sample = 1; sample <= checked.samples; sample += 1)
      for (const player of players) {
        if (signal.aborted || this.#isSpent()) return;
        const candidate = idOf(record, player, sample);
        const known = await this.#findNote(candidate);
        if (known === undefined) recorded ??= await this.#read(record);
        const played = { job: this.#parts.name, record, player, sample, candidate, signal };
        const note = known ?? (await this.#play(recorded ?? { why: '' }, played));
        this.#report.add(candidate, note);
        const { done, again, cost, all } = this.#progress;
        this.#progress = {
          all,
          done: done + 1,
          again: again + (known === undefined ? 0 : 1),
          cost: cost + note.cost.candidate,
        };
        this.#parts.options.onProgress?.(this.#progress);
      }
  }

  /** The note of an earlier job. */
  async #findNote(candidate: string): Promise<PlayedNote | undefined> {
    const { out } = this.#parts;
    const record = await out?.get(candidate);
    if (out === undefined || record === undefined) return undefined;
    const [last] = await readJournal(out, candidate, record.seq - 1);
    return last === undefined ? undefined : readPlayedNote(last.event);
  }

  /** The run as it was recorded, or why it cannot be played. */
  async #read(record: RunRecord): Promise<Recorded | Unplayable> {
    const { source } = this.#parts;
    const { runId, redactions } = record;
    try {
      const journal = await readFromStart(source, runId, 'Play');
      if (redactions > 0) return { journal, why: 'Parts of it were redacted.' };
      const { run, end } = recordJournal(journal, { raw: true });
      return { journal, run, end };
    } catch (error) {
      if (!(error instanceof EngineError) || !UNREADABLE.has(error.code)) throw error;
      return { why: error.message };
    }
  }

  async #play(recorded: Recorded | Unplayable, sample: Sample): Promise<PlayedNote> {
    const { out } = this.#parts;
    const { record, player, candidate } = sample;
    const store = memory();
    const { comparison, isLasting } = await this.#compare(recorded, sample, store);
    const note: PlayedNote = { ...comparison, of: record.runId, side: player.side, sample: sample.sample };
    const isPlayed = (await store.get(candidate)) !== undefined;
    if (out !== undefined && isLasting && (isPlayed || recorded.journal !== undefined)) {
      const event = { type: 'run.noted', at: systemHost.now(), by: REGRESS, note: toJson(note) } as const;
      await copyRun(this.#parts.source, out, record.runId);
      if (isPlayed) await copyRun(store, out, candidate, [event]);
      else if (recorded.journal !== undefined)
        await writeCopy(out, onlyStart(recorded.journal, sample), { last: [event] });
    }
    await store.close();
    return note;
  }

  /** `isLasting`: another try would not end otherwise because a service answers again. */
  async #compare(
    recorded: Recorded | Unplayable,
    sample: Sample,
    store: Store,
  ): Promise<{ comparison: Comparison; isLasting: boolean }> {
    const { source, checked, options } = this.#parts;
    const { record, player, candidate, signal } = sample;
    if ('why' in recorded) return { comparison: undecidable(recorded.why, record), isLasting: true };
    const { journal, run, end } = recorded;
    const { agent, model, tools } = player;
    const missing = player.lacks ? findMissing(run, tools) : undefined;
    if (missing !== undefined) {
      const why = `Its tool "${missing}" belongs to a tool server, which was not asked.`;
      return { comparison: undecidable(why, record), isLasting: false };
    }
    const { continues, title } = record;
    if (continues !== undefined) await copyRun(source, store, continues);
    const { handedTo } = run.started;
    if (handedTo !== undefined) await copyRun(source, store, handedTo.runId);
    const given = {
      agent,
      model,
      tools,
      store,
      runId: candidate,
      labels: labelsOf(sample),
      title,
      signal,
      endsPaused: isPaused(end.value),
      executes: checked.executes,
    };
    let followed: FollowedRun;
    try {
      followed = await followRecording(run, given);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof EngineError && REFUSING.has(error.code)) throw error;
      return { comparison: undecidable(messageOf(error), record), isLasting: true };
    }
    signal.throwIfAborted();
    if (followed.refused !== undefined)
      return { comparison: undecidable(followed.refused, record), isLasting: true };
    const entries = (await readFromStart(store, candidate, 'Compare')).slice(0, followed.seq) as WholeJournal;
    const played = recordJournal(entries).end;
    const failure = failureOf(played);
    if (failure !== undefined && failure.code !== failureOf(end)?.code) {
      if (REFUSING.has(failure.code)) throw new EngineError('refused', failure.message);
      if (FLEETING.has(failure.code))
        return { comparison: undecidable(`The model failed: ${failure.message}`, record), isLasting: false };
    }
    const keyOf = await makeKeys([...journal, ...entries], tools);
    const compare = (score?: Paired) =>
      compareRuns({ entries: journal }, { entries }, { keyOf, ...omitUndefined({ score }) });
    let found = compare();
    if (options.score !== undefined && found.stopped !== true) {
      const score = await scoreBoth(options.score, { end, played });
      if (typeof score === 'string') return { comparison: undecidable(score, record), isLasting: false };
      found = compare(score);
    }
    const differences = found.differences.slice(0, MOST_DIFFERENCES);
    return { comparison: { ...found, differences }, isLasting: true };
  }
}

const MOST_DIFFERENCES = 200;

/** A recorded run that was read. */
type Recorded = { journal: WholeJournal; run: RecordedRun; end: ChartState };
type Unplayable = { journal?: WholeJournal; why: string };

type Sample = {
  job: string;
  record: RunRecord;
  player: Player;
  sample: number;
  /** The id of the played run. */
  candidate: string;
  signal: AbortSignal;
};

const UNREADABLE: ReadonlySet<string> = new Set(['journal-damaged', 'chart-mismatch', 'refused']);

/** A provider that refuses the key or the model refuses it for every run. */
const REFUSING: ReadonlySet<string> = new Set([
  ...['key-missing', 'base-url-invalid', 'authentication', 'permission', 'quota', 'not-found'],
]);

/** Failures of a service, which say nothing about the agent. */
const FLEETING: ReadonlySet<string> = new Set([
  ...['rate-limit', 'overloaded', 'server', 'timeout', 'network', 'malformed-stream'],
]);

/** Another agent, option or state of the recorded run gives another id. */
function idOf({ runId, seq, redactions }: RunRecord, { digest, side }: Player, sample: number): string {
  return `played_${hashOf({ runId, seq, redactions, digest, side, sample }).slice(0, 32)}`;
}

/** Those of the recorded run, and what says which sample it is. */
function labelsOf({ job, record, player, sample }: Omit<Sample, 'signal'>): Labels {
  const own = { [REGRESS]: player.side, of: record.runId, sample: String(sample), job };
  const kept = Object.entries(record.labels);
  return { ...Object.fromEntries(kept.slice(0, MOST_LABELS - Object.keys(own).length)), ...own };
}

/** Of a run that could not be played, for lists. */
function onlyStart([{ event }]: WholeJournal, sample: Sample): WholeJournal {
  const { parent: _, forkOf: __, requestId: ___, asked: ____, thread: _____, ...started } = event;
  return [{ seq: 1, event: { ...started, runId: sample.candidate, labels: labelsOf(sample) } }];
}

function undecidable(why: string, { turns, tokens, cost }: RunRecord): Comparison {
  const pair = (recorded: number): Paired => ({ recorded, candidate: 0 });
  return {
    sameness: 'undecidable',
    differences: [],
    why,
    turns: pair(turns),
    tokens: pair(tokens),
    cost: pair(cost),
  };
}

function findMissing({ events }: RecordedRun, tools: ReadonlyMap<string, Tool>): string | undefined {
  return events.flatMap(callsOf).find(({ name, error }) => error === undefined && !tools.has(name))?.name;
}

function failureOf(state: ChartState) {
  return state.value === 'failed' ? (state.context.failure ?? undefined) : undefined;
}

/** The score of both runs, or what the user's function threw. */
async function scoreBoth(
  score: Score,
  { end, played }: { end: ChartState; played: ChartState },
): Promise<Paired | string> {
  const rate = async (state: ChartState): Promise<number> => {
    const { runId, turns, cost } = state.context;
    const value = await score({ ...describeOutcome(state), runId, turns, cost });
    if (typeof value !== 'boolean' && !Number.isFinite(value))
      throw new Error(`expected a number or a boolean, got ${String(value)}`);
    return Number(value);
  };
  try {
    return { recorded: await rate(end), candidate: await rate(played) };
  } catch (error) {
    return `The score failed: ${messageOf(error)}`;
  }
}

/** The keys of all calls, as the tools read their inputs now. */
async function makeKeys(
  entries: readonly JournalEntry[],
  tools: ReadonlyMap<string, Tool>,
): Promise<(call: { name: string; input: JsonValue }) => string> {
  const keys = new Map<string, string>();
  for (const { event } of entries)
    for (const { name, input } of callsOf(event)) {
      const written = digestCall(name, input);
      if (!keys.has(written)) keys.set(written, await keyAsRead(tools, name, input));
    }
  return ({ name, input }) => keys.get(digestCall(name, input)) ?? digestCall(name, input);
}
