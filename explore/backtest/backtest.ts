import type { Agent } from '../../agent/agent.ts';
import { foreignRun } from '../../agent/sub-agents.ts';
import type { Context } from '../../machines/context.ts';
import { EngineError, invalidInput } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Labels } from '../../protocol/listing/label.ts';
import { optionNames, refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import type { PastCall } from '../../protocol/rule.ts';
import { listAll, type RunRecord, type RunStatus, type Store } from '../../protocol/store.ts';
import type { Rule } from '../../rules/rule.ts';
import { type RuledAgent, ruledAgents, viewRule } from '../ruled-agents.ts';
import { RunJudge, type Tallies } from './judge-run.ts';
import { RedactionWatch } from './redaction-watch.ts';
import { type BacktestReport, Tally, UnjudgedCalls } from './report.ts';
import { foldHistory, ThreadHistories, type ThreadHistory } from './thread-history.ts';

/** Which runs are judged: by default all of the agent and its sub-agents. Times are in ms since the epoch. */
export type BacktestOptions = {
  /** Only these runs; without the filters. */
  runs?: readonly string[];
  /** Only runs that were started at this time or later, and before the other. */
  since?: number;
  before?: number;
  /** Only runs with these labels. */
  labels?: Labels;
  status?: RunStatus;
  /** Where the runs are. Default: the agent's store. */
  store?: Store;
  /** How many cases are kept of each rule and each approval function. Default 20. */
  cases?: number;
  /** Whether to start the agent's tool servers, to list their tools. Default `false`: their calls are judged by name. */
  connect?: boolean;
  /** Ends it early, with a report of the runs so far. */
  signal?: AbortSignal;
  /** Called before each run: `done` of `all` runs were read. */
  onProgress?(done: number, all: number): void;
};

const NAMES = optionNames<BacktestOptions>()(
  'runs since before labels status store cases connect signal onProgress',
);
const FILTERS = ['since', 'before', 'labels', 'status'] as const;
const CASES = 20;
const MOST_CASES = 10_000;

/**
 * Judges the calls of stored runs by the rules and the approval functions that the agent has now: how often they would
 * have asked, blocked or stopped. It reads journals, calls these functions and validates inputs, and executes nothing
 * else. Throws `input-invalid`, `run-unknown`, `run-foreign`, and the errors of the store.
 *
 * @example
 * const { rules } = await backtest(agent, { since: Date.now() - 30 * 86_400_000 });
 * for (const { name, ask, block, cases } of rules) console.log(name, ask, block, cases);
 */
export async function backtest(agent: Agent, options: BacktestOptions = {}): Promise<BacktestReport> {
  refuseUnknownOptions('backtest', options, NAMES, 'input-invalid');
  const { store = agent.store, cases = CASES, connect = false, signal, onProgress = () => {} } = options;
  if (!Number.isSafeInteger(cases) || cases < 0 || cases > MOST_CASES)
    throw invalidInput(`cases: expected a whole number from 0 to ${MOST_CASES}, got ${cases}.`);
  const { agents, close } = await ruledAgents(agent, store, connect);
  try {
    const test = new Backtest(store, agents, cases);
    const listed = await test.list(agent, options);
    let done = 0;
    for (const record of listed) {
      onProgress(done, listed.length);
      if (!(await endsBefore(signal, test.judge(record)))) break;
      done += 1;
    }
    return { agent: agent.name, complete: done === listed.length, ...test.report() };
  } finally {
    await close();
  }
}

type Listed = Pick<RunRecord, 'runId' | 'agent' | 'createdAt'>;

/** Whether the work ended before the signal was aborted. */
async function endsBefore(signal: AbortSignal | undefined, work: Promise<void>): Promise<boolean> {
  if (signal === undefined) return await work.then(() => true);
  return await new Promise((resolve, reject) => {
    const stop = () => resolve(false);
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
    work.then(() => resolve(true), reject).finally(() => signal.removeEventListener('abort', stop));
  });
}

class Backtest {
  readonly #store: Store;
  readonly #agents: ReadonlyMap<string, RuledAgent>;
  readonly #tallies: ReadonlyMap<string, Tallies>;
  readonly #watch = new RedactionWatch();
  readonly #misled = new WeakMap<readonly PastCall[], Set<Rule>>();
  readonly #histories: ThreadHistories;
  readonly #unjudged = new UnjudgedCalls();
  readonly #skipped = new Map<string, BacktestReport['skipped'][number]>();
  #runs = 0;
  #calls = 0;

  constructor(store: Store, agents: ReadonlyMap<string, RuledAgent>, cases: number) {
    this.#store = store;
    this.#agents = agents;
    this.#histories = new ThreadHistories(this.#parts);
    const tallyOf = (name: string) => [name, new Tally(cases)] as const;
    this.#tallies = new Map(
      [...agents.values()].map(({ name, rules, tools }) => {
        const asking = [...tools].filter(([, { fixedApproval }]) => fixedApproval === undefined);
        const approvals = new Map(asking.map(([tool]) => tallyOf(tool)));
        return [name, { rules: new Map(rules.map(rule => tallyOf(rule.name))), approvals }];
      }),
    );
  }

  get #parts() {
    return { store: this.#store, agents: this.#agents, watch: this.#watch };
  }

  /** The runs, oldest first: those of a thread then come in its order. */
  async list(agent: Agent, options: BacktestOptions): Promise<Listed[]> {
    const listed: Listed[] = [];
    const add = ({ runId, agent: name, createdAt }: RunRecord) =>
      void listed.push({ runId, agent: name, createdAt });
    const { runs } = options;
    if (runs === undefined) {
      const { since, before, labels, status } = options;
      const filter = { ...omitUndefined({ since, before, labels, status }), order: 'asc' as const };
      const onDamaged = (error: EngineError) => this.#skip('', error);
      for (const name of this.#agents.keys())
        for await (const record of listAll(this.#store, { ...filter, agent: name, onDamaged })) add(record);
    } else {
      const filter = FILTERS.find(name => options[name] !== undefined);
      if (filter !== undefined)
        throw invalidInput(`runs and ${filter} exclude each other. Give one of them.`);
      for (const runId of new Set(runs)) {
        const record = await this.#store.get(runId);
        if (record === undefined) throw new EngineError('run-unknown', `The store has no run ${runId}.`);
        if (!this.#agents.has(record.agent)) throw foreignRun(runId, record.agent, agent.name);
        add(record);
      }
    }
    return listed.sort((one, other) => one.createdAt - other.createdAt);
  }

  /** Reads a run once. A run that cannot be read is skipped, and counted. */
  async judge({ runId, agent: name }: Listed): Promise<void> {
    const agent = this.#agents.get(name);
    const tallies = this.#tallies.get(name);
    if (agent === undefined || tallies === undefined) return;
    try {
      let judge: RunJudge | undefined;
      let history: ThreadHistory | undefined;
      const load = async ({ continues, continuesAt }: Context) =>
        (history ??= await this.#histories.load(continues, continuesAt));
      const run = await foldHistory(this.#parts, runId, {
        begin: ({ redactions, forkOf }) => {
          judge = undefined;
          history = undefined;
          return async ({ context }, entry) => {
            judge ??= new RunJudge({
              runId,
              agent,
              tallies,
              watch: this.#watch,
              misled: this.#misled,
              history: await load(context),
              isRedacted: redactions > 0,
              isCopy: forkOf !== undefined,
            });
            await judge.take(context, entry);
          };
        },
      });
      if (run === undefined) return;
      this.#histories.add(await load(run.context), run);
      this.#runs += 1;
      this.#count(judge);
    } catch (error) {
      if (!(error instanceof EngineError) || !UNREADABLE.has(error.code)) throw error;
      this.#skip(runId, error);
    }
  }

  #count(judge: RunJudge | undefined): void {
    this.#calls += judge?.calls ?? 0;
    for (const one of judge?.findings ?? []) {
      if (one.type === 'case') one.tally.add(one.found);
      else if (one.tally !== null) one.tally.addUnjudged(one.found);
      else this.#unjudged.add(`${one.found.code} ${one.found.tool}`, one.found);
    }
  }

  #skip(runId: string, { code, message }: EngineError): void {
    const known = this.#skipped.get(code) ?? { code, message, count: 0, runId };
    known.count += 1;
    this.#skipped.set(code, known);
  }

  report(): Omit<BacktestReport, 'agent' | 'complete'> {
    const agents = [...this.#agents.values()];
    const none = new Tally(0);
    return {
      runs: this.#runs,
      calls: this.#calls,
      rules: agents.flatMap(agent =>
        agent.rules.map(rule => {
          const tally = this.#tallies.get(agent.name)?.rules.get(rule.name) ?? none;
          return { ...viewRule(agent, rule), ...tally.report() };
        }),
      ),
      approvals: agents.flatMap(({ name }) =>
        [...(this.#tallies.get(name)?.approvals ?? [])].map(([tool, tally]) => ({
          agent: name,
          tool,
          ...tally.report(),
        })),
      ),
      unjudged: this.#unjudged.list(),
      skipped: [...this.#skipped.values()],
    };
  }
}

const UNREADABLE: ReadonlySet<string> = new Set(['journal-damaged', 'chart-mismatch', 'refused']);
