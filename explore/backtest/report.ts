import type { CallVerdict, Duties } from '../../protocol/event.ts';
import type { RuleVerdict } from '../../protocol/rule.ts';
import type { RuleView } from '../ruled-agents.ts';

/** What becomes of a call: it is allowed, or what rules and approvals say. */
export type CallOutcome = 'allow' | RuleVerdict;

/**
 * A call of a stored run about which a rule or an approval function now says something, or did in the run. `seq`: of the
 * entry in which the run made the call, changed it or began it, as `place` says.
 */
export type BacktestCase = Duties & {
  runId: string;
  seq: number;
  callId: string;
  tool: string;
  place: 'turn' | 'edit' | 'start';
  /** What is said now, and what became of the call there in the run; `asked`: whom the run asked, if it did. */
  now: CallOutcome;
  then: CallOutcome;
  asked?: Duties;
  /** The run did the same with the call, for any reason. */
  same: boolean;
  reason?: string;
};

/**
 * Why calls could not be judged:
 * - `redacted`: what the rule reads was redacted;
 * - `failed`: the function threw, or gave no verdict; a run would ask for an approval;
 * - `history-missing`: runs that its run continues are not here, or cannot be read;
 * - `tool-missing`, `input-invalid`: the agent no longer has the tool, or the tool no longer takes the input.
 */
export type UnjudgedCode = 'redacted' | 'failed' | 'history-missing' | 'tool-missing' | 'input-invalid';

/** `runId`, `seq` and `callId`: of the first of `count` calls. `message`: about that one. */
export type Unjudged = {
  code: UnjudgedCode;
  message: string;
  count: number;
  runId: string;
  seq: number;
  callId: string;
  tool: string;
};

/** How often something is asked of the same people: of anyone, without duties. */
export type AskedPeople = Duties & { count: number };

export type Counts = {
  /** Calls by what becomes of them. */
  ask: number;
  block: number;
  stop: number;
  /** In how many runs there are such calls. */
  runs: number;
  /** Of the calls, how often the run did the same, for any reason. */
  same: number;
  /** Calls that it did not allow in the run, and allows now. */
  dropped: number;
  /** Who is asked, most often first. */
  asks: AskedPeople[];
  unjudged: Unjudged[];
  /** Some of the cases: those that differ from what the run did come first, and of these the first of each run. */
  cases: BacktestCase[];
};

export type BacktestedRule = RuleView & Counts;

/** The approval function of a tool. */
export type BacktestedApproval = { agent: string; tool: string } & Counts;

/** What an agent's rules say of stored runs. */
export type BacktestReport = {
  agent: string;
  /** The runs that were read, and the calls in them that could be judged. */
  runs: number;
  calls: number;
  /** Not all runs were read: `signal` was aborted. */
  complete: boolean;
  rules: BacktestedRule[];
  approvals: BacktestedApproval[];
  /** Calls that nothing could judge. */
  unjudged: Unjudged[];
  /** Runs that cannot be read, by the code of the error. `message` and `runId`: of the first. */
  skipped: { code: string; message: string; count: number; runId: string }[];
};

/** Counts what a rule or an approval function says, and keeps some of its cases. */
export class Tally {
  readonly #most: number;
  readonly #counts = { ask: 0, block: 0, stop: 0, runs: 0, same: 0, dropped: 0 };
  readonly #asks = new Map<string, AskedPeople>();
  readonly #unjudged = new UnjudgedCalls();
  /** The first of each run that differs, others that differ, and those that are the same. */
  readonly #cases: [BacktestCase[], BacktestCase[], BacktestCase[]] = [[], [], []];
  #lastDiffering: string | undefined;
  #lastRun: string | undefined;

  /** `most`: how many cases are kept. */
  constructor(most: number) {
    this.#most = most;
  }

  /** The cases of a run come one after another. */
  add(one: BacktestCase): void {
    const { now, same, runId } = one;
    if (now === 'allow') this.#counts.dropped += 1;
    else this.#count(now, one);
    const [firsts, others, alike] = this.#cases;
    const differing = runId === this.#lastDiffering ? others : firsts;
    if (!same) this.#lastDiffering = runId;
    const kept = same ? alike : differing;
    if (kept.length < this.#most) kept.push(one);
  }

  #count(now: RuleVerdict, { runId, same, by, not, quorum }: BacktestCase): void {
    if (runId !== this.#lastRun) this.#counts.runs += 1;
    this.#lastRun = runId;
    this.#counts[now] += 1;
    if (same) this.#counts.same += 1;
    if (now !== 'ask') return;
    const key = JSON.stringify([by?.toSorted(), not, quorum]);
    const asked = this.#asks.get(key) ?? {
      ...(by && { by }),
      ...(not && { not }),
      ...(quorum && { quorum }),
      count: 0,
    };
    asked.count += 1;
    this.#asks.set(key, asked);
  }

  addUnjudged(one: Omit<Unjudged, 'count'>): void {
    this.#unjudged.add(one.code, one);
  }

  report(): Counts {
    return {
      ...this.#counts,
      asks: [...this.#asks.values()].toSorted((one, other) => other.count - one.count),
      unjudged: this.#unjudged.list(),
      cases: this.#cases.flat().slice(0, this.#most),
    };
  }
}

/** Counts calls that cannot be judged. */
export class UnjudgedCalls {
  readonly #known = new Map<string, Unjudged>();

  add(key: string, one: Omit<Unjudged, 'count'>): void {
    const known = this.#known.get(key) ?? { ...one, count: 0 };
    known.count += 1;
    this.#known.set(key, known);
  }

  list(): Unjudged[] {
    return [...this.#known.values()];
  }
}

/** What a run recorded about a call at one place. */
export type RecordedOutcome = { verdicts: readonly CallVerdict[]; gate: boolean; duties: Duties };

function outcomeOf({ verdicts, gate }: RecordedOutcome): CallOutcome {
  const enforced = verdicts.filter(({ shadow }) => shadow !== true).map(({ verdict }) => verdict);
  if (enforced.includes('stop')) return 'stop';
  if (enforced.includes('block')) return 'block';
  return gate || enforced.includes('ask') ? 'ask' : 'allow';
}

/** What became of a call at a place, as a case says it. */
export function describeThen(recorded: RecordedOutcome): Pick<BacktestCase, 'then' | 'asked'> {
  const then = outcomeOf(recorded);
  return { then, ...(then === 'ask' && { asked: recorded.duties }) };
}

/** Whether the run did what the rule of this name says now, for any reason. An approval of more people is another. */
export function didSame(
  { rule, verdict: now, shadow }: CallVerdict,
  duties: Duties,
  recorded: RecordedOutcome,
): boolean {
  const wasSaid = recorded.verdicts.some(
    one => one.rule === rule && one.verdict === now && one.shadow === shadow,
  );
  if (outcomeOf(recorded) !== now) return wasSaid;
  return now !== 'ask' || (shadow === true && wasSaid) || asksThem(recorded.duties, duties);
}

/** Whether everyone who may decide by the first duties may decide by the others. */
function asksThem(asked: Duties, { by, not, quorum = 1 }: Duties): boolean {
  if (by !== undefined && asked.by?.every(group => by.includes(group)) !== true) return false;
  if (not !== undefined && asked.not !== not && asked.not !== 'sender') return false;
  return (asked.quorum ?? 1) >= quorum;
}
