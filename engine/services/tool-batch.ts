import { findCall, mayRunUnrecorded } from '../../machines/calls.ts';
import type { Call, CallResult } from '../../machines/context.ts';
import { forwardedMessages } from '../../machines/hand-off.ts';
import { limitsOf } from '../../machines/limits.ts';
import { backOffMs } from '../../protocol/back-off.ts';
import { serverDigest } from '../../protocol/content/digest.ts';
import { readContent, textOfParts } from '../../protocol/content/read-content.ts';
import { EngineError, InDoubt, isThrown, messageOf } from '../../protocol/error.ts';
import type { HeldLimits, Spent } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import { isJsonObject, type JsonValue, omitUndefined, toBoundedJson } from '../../protocol/json.ts';
import type { PastCall } from '../../protocol/rule.ts';
import type { AskedQuestion, QuestionAnswer, Tool, ToolCallContext } from '../../protocol/tool.ts';
import type { Rule } from '../../rules/rule.ts';
import { cutText, fitsBytes, MODEL_READS_BYTES } from '../../text/cut-text.ts';
import type { TextFilter } from '../../text/text-filter.ts';
import { endWithin, sleep } from '../host/host.ts';
import { isCallRunning, trackCall, withinCall } from '../host/running-calls.ts';
import type { PlayedCall } from '../journal/recorded-calls.ts';
import { type BoundOutput, maxResultBytesOf } from '../journal/run-blobs.ts';
import type { Settled } from '../log/settled.ts';
import { toolsIn } from '../sub-agents/hand-back.ts';
import { relayAnswer } from '../sub-agents/relay-answer.ts';
import {
  answerFor,
  type ChildAnswer,
  type ChildRequest,
  childRunIdOf,
  heldBy,
  type RunHandle,
  type SubAgentRuns,
  shareLimits,
  spentBy,
} from '../sub-agents/sub-agent-runs.ts';
import { digestQuestions, MOST_ASKS, Questions } from './ask-people.ts';
import { type CallJudge, combineRulings, findRulings } from './judge-calls.ts';
import { readOutput } from './read-output.ts';
import {
  Cancelled,
  connectOrAsk,
  LONGEST_REASON_BYTES,
  type Report,
  type Service,
  type ServiceScope,
  Stopped,
  Yielding,
} from './service.ts';

type ToolBatchParts = {
  connectTools(): Promise<ReadonlyMap<string, Tool>>;
  concurrency: number;
  /** The first wait before a call is retried, in ms; it doubles. */
  retryBaseMs: number;
  subAgents: SubAgentRuns;
  textFilters: readonly (() => TextFilter)[];
  rules: readonly Rule[];
};

const INTERRUPTED = 'The process that ran it stopped before its outcome was recorded';
const ONCE_NOW = `${INTERRUPTED}, and its tool must not run twice now.`;
const OF_ORIGINAL = 'The run that this one was copied from has begun it, and may continue it.';
const READ_AGAIN = 'Read it as it is now, and call the tool again if that is still right.';
const IN_ANOTHER_STORE =
  'It was started when this run was in another store, and this store has no record of its child run.';

/** Without a store, the original's results are out of reach. */
const OUT_OF_REACH: PlayedCall = {
  missing:
    'Not executed: this run plays the results of another one, and has no store. Retry executes the call.',
};

/** How long the function of a timed-out `once` call may take to end, in ms, before the call becomes in doubt. */
const RETURN_GRACE_MS = 1_000;

/** Whether the tool is now declared `once`, although the call was recorded with a lesser side effect. */
export function becameOnce({ sideEffect, background }: Call, tool: Tool | undefined): boolean {
  return background !== true && sideEffect !== 'once' && tool?.sideEffect === 'once';
}

/**
 * Returns the service that runs a batch of calls.
 *
 * B1 A call found `running` was started by an earlier process: it is first reported as interrupted (or in doubt), and
 *    then handled as the chart decides.
 *    A call whose function this process is known not to have called begins again with the same attempt.
 * B2 Before a tool's function is called, `tool.started` is durable and this process is known to drive the run. The
 *    first attempt of a call without side effects and approval starts while that commit is pending; if the commit
 *    conflicts and the run has moved on, the call is aborted and its result dropped.
 * B3 Every attempt of a call has the same key.
 * B4 A `once` call that may have happened and did not settle never gets a result from here: it is reconciled or becomes
 *    in doubt. A call is `once` if it was recorded as such or if its tool is declared so now.
 * B5 The outcome of an abandoned attempt is kept as evidence.
 * B6 In a fork that plays results, a call is executed only after a person decided to retry it. A call found `running`
 *    there, and never in doubt, was not executed.
 *    A call that the original had begun and asked about is in doubt once it is answered in the fork.
 * B7 Events of other processes may arrive before a batch is durable and change its calls: a call runs only while the
 *    chart has it as running, and the batch continues until none of its calls is left.
 * B8 The run of a sub-agent survives this process: it is cancelled only with its parent, and given up with its parent.
 * B9 The rules judge a call right before its first attempt, after all that has happened since its turn made it.
 * B10 A background call is settled once its child run exists: that run does the work, also after this process.
 * B11 A tool prepares before `tool.started`, so nothing has happened while it asks; for background work, in the run that does
 *    it. Only a call that may run again, or that has kept how far it came, asks after its start.
 */
export function makeToolBatch(parts: ToolBatchParts): Service {
  return async scope => {
    const connected = await connectOrAsk(scope, parts.connectTools);
    if (connected === null) return;
    const tools = toolsIn(connected, scope.context());
    const isUnbegun = ({ callId, status, attempt }: Call) =>
      status === 'running' && scope.unbegun?.get(callId) === attempt;
    for (const call of scope.context().calls.filter(({ status }) => status === 'running')) {
      const { callId } = call;
      const run = new CallRun(scope, call, tools.get(call.name), parts);
      if (run.isPlayed) await run.play();
      else if (!isUnbegun(call))
        scope.report(
          becameOnce(call, tools.get(call.name)) && call.kept === undefined
            ? { type: 'tool.doubted', callId, reason: ONCE_NOW }
            : { type: 'tool.interrupted', callId },
        );
    }
    const started = new Set<string>();
    let past: Promise<readonly PastCall[]> | undefined;
    const loadPast = () => {
      past ??= scope.past();
      return past;
    };
    let place = 0;
    const takeNext = () => {
      if (scope.stop.isStopped || scope.yielding.aborted) return undefined;
      const { calls } = scope.context();
      for (let checked = 0; checked < calls.length; checked += 1) {
        const call = calls[place % calls.length];
        place += 1;
        if (call === undefined || started.has(call.callId)) continue;
        if (call.status === 'queued' || call.status === 'reconciling') return call;
        if (isUnbegun(call)) return { ...call, attempt: call.attempt - 1 };
      }
      return undefined;
    };
    const work = async () => {
      for (let next = takeNext(); next !== undefined; next = takeNext()) {
        const call = next;
        started.add(call.callId);
        const run = new CallRun(scope, call, tools.get(call.name), parts);
        try {
          const mayBegin = () => isAllowed(scope, call, { tools, rules: parts.rules, loadPast });
          const allowed = mayBegin();
          if (allowed !== true && !(await allowed)) continue;
          await (call.status === 'reconciling' ? run.recover(mayBegin) : run.execute(mayBegin));
        } catch (error) {
          if (!isThrown(error, Stopped)) throw error;
        }
      }
    };
    const count = Math.min(parts.concurrency, scope.context().batch);
    await Promise.all(Array.from({ length: count }, work));
  };
}

/**
 * Whether the rules let the call begin, after all that happened since its turn made it. Any other verdict is reported.
 * Later attempts repeat what has begun, results that are played are those of the run that was forked, and a message that
 * is handed on is not a call of the model.
 */
function isAllowed(scope: ServiceScope, call: Call, judge: BatchJudge): true | Promise<boolean> {
  const { status, attempt, forwards } = call;
  // The parent's rules have judged the one call of a child run.
  if (scope.context().onlyCall !== undefined) return true;
  if (judge.rules.length === 0 || status !== 'queued' || attempt > 0 || forwards !== undefined) return true;
  if (scope.context().config.playsResultsOf !== undefined) return true;
  return askRules(scope, call, judge);
}

type BatchJudge = Pick<CallJudge, 'tools' | 'rules'> & { loadPast: ServiceScope['past'] };

async function askRules(
  scope: ServiceScope,
  { callId }: Call,
  { tools, rules, loadPast }: BatchJudge,
): Promise<boolean> {
  const past = await loadPast();
  const context = scope.context();
  const now = scope.host.now();
  const known = findCall(context, callId);
  if (known?.status !== 'queued') return false;
  const rulings = findRulings(known, context.calls, { rules, tools, context, past, now });
  const { verdicts, refusal, gate } = combineRulings(rulings, undefined, now);
  if (verdicts === undefined) return true;
  scope.report({ type: 'call.judged', callId, verdicts, ...omitUndefined({ reason: refusal }), ...gate });
  return refusal === undefined && gate === undefined;
}

/** How one attempt ended. `threw` and `lost` have the words for the model. */
type Outcome =
  | Ended
  /** The run of a sub-agent has ended. */
  | { type: 'answered'; answer: ChildAnswer; spent: Spent }
  /** The run of a sub-agent rests and resumes later. */
  | { type: 'suspended'; childRunId: string }
  /** A run does the work in the background, within these limits. */
  | { type: 'begun'; childRunId: string; held: HeldLimits }
  /** The run of a sub-agent may exist in another store. */
  | { type: 'unknown'; reason: string }
  /** A limit of the run leaves nothing for that of a sub-agent, so none was started. */
  | { type: 'refused'; reason: string }
  /** The function asks people, and has ended. */
  | { type: 'asks'; questions: Questions };

type Asks = Extract<Outcome, { type: 'asks' }>;

/** `lost`: it is unknown whether the side effect happened; unless `returned`, the function may still be running. */
type Ended =
  | { type: 'returned'; output: unknown }
  | { type: 'threw'; reason: string }
  | { type: 'lost'; reason: string; returned: boolean };

/** `text`: the JSON of the output, if it is known. */
type FullResult = { output: JsonValue; isError: boolean; text?: string };

class CallRun {
  readonly #call: Call;
  readonly #scope: ServiceScope;
  readonly #tool: Tool | undefined;
  readonly #parts: ToolBatchParts;
  readonly #key: string;
  #attempt: number;
  /** A note for the model about the parts of the input that could not be checked. */
  #unchecked: string | undefined;
  #prepared: unknown;

  constructor(scope: ServiceScope, call: Call, tool: Tool | undefined, parts: ToolBatchParts) {
    const { runId, turn } = scope.context();
    this.#scope = scope;
    this.#call = call;
    this.#tool = tool;
    this.#parts = parts;
    this.#key = call.key ?? `${runId}:${turn.number}:${call.callId}`;
    this.#attempt = call.attempt;
  }

  /** `mayBegin`: asks the rules again, for a tool that has prepared. */
  async execute(mayBegin: () => boolean | Promise<boolean>): Promise<void> {
    if (this.isPlayed) return await this.play();
    const tool = this.#tool;
    const { name, input, attempt, doubt, kept, toolDigest, background } = this.#call;
    const wasInterrupted = attempt > 0 && doubt === undefined && kept === undefined;
    if (wasInterrupted && becameOnce(this.#call, tool)) {
      this.#reportStart();
      return this.#doubt(ONCE_NOW);
    }
    if (attempt > 0 && doubt === undefined && !this.#key.startsWith(`${this.#scope.context().runId}:`)) {
      this.#reportStart();
      return this.#doubt(OF_ORIGINAL);
    }
    if (tool?.run === undefined)
      return await this.#settleInvalid(`The agent no longer has a tool "${name}".`);
    if (toolDigest !== undefined && serverDigest(tool) !== toolDigest)
      return await this.#settleInvalid(`The server of "${name}" has changed its definition. ${READ_AGAIN}`);
    const validating = tool.validate(input);
    const validation = 'then' in validating ? await validating : validating;
    if (!validation.valid)
      return await this.#settleInvalid(`The arguments are not valid: ${validation.message}`);
    this.#unchecked = validation.unchecked;
    const prepares = tool.prepare !== undefined && background !== true;
    if (prepares && !((await this.#prepare(tool, validation.value)) && (await mayBegin()))) return;
    if (this.#scope.yielding.aborted) return;
    for (let failures = 0; ; failures += 1) {
      const outcome = await this.#attemptOnce(tool, validation.value);
      if (this.#scope.stop.isStopped) return await this.#keepEvidence(outcome);
      switch (outcome.type) {
        case 'returned':
          return await this.#settle(outcome.output);
        case 'answered':
          return await this.#reportAnswer(outcome);
        case 'suspended':
          return this.#suspend(outcome.childRunId);
        case 'begun':
          return this.#reportBegun(outcome);
        case 'unknown':
          return this.#doubt(outcome.reason);
        case 'refused':
          return await this.#fail(`Not run: ${outcome.reason}`);
        case 'asks':
          return await this.#ask(outcome.questions);
        default:
      }
      const { type, reason } = outcome;
      if (this.#isOnce && type === 'lost')
        return await this.#reconcile(reason, () => this.#fail(`${reason} It did not happen.`));
      if (this.#isOnce || failures >= tool.retries) return await this.#fail(reason);
      const stopped = AbortSignal.any([this.#scope.stop.signal, this.#scope.yielding]);
      const waitMs = backOffMs(failures + 1, { baseMs: this.#parts.retryBaseMs });
      await sleep(this.#scope.host, waitMs, stopped);
      if (stopped.aborted) return;
    }
  }

  /** Asks the tool whether the call happened, and runs it only if it did not and can no longer happen. */
  async recover(mayBegin: () => boolean | Promise<boolean>): Promise<void> {
    if (this.isPlayed) return await this.play();
    await this.#reconcile(`${INTERRUPTED}.`, () => this.execute(mayBegin));
  }

  /** Whether the call has to be played and not executed: the run plays results, and no person decided to retry it. */
  get isPlayed(): boolean {
    return this.#scope.context().config.playsResultsOf !== undefined && this.#call.doubt === undefined;
  }

  /**
   * Settles the call with its result in the run whose results this one plays, or puts it in doubt without one. The outcome of
   * background work there is this run's too.
   */
  async play(): Promise<void> {
    const played = (await this.#scope.play?.(this.#scope.context(), this.#call)) ?? OUT_OF_REACH;
    const { callId } = this.#call;
    const result = 'from' in played ? await this.#bound(played) : null;
    if (!this.#is('running')) this.#reportStart();
    if ('work' in played) this.#reportBegun(played.work);
    else if (result !== null && 'from' in played)
      this.#scope.report({ type: 'tool.settled', callId, ...result, played: played.from });
    else if ('missing' in played)
      this.#scope.report({ type: 'tool.doubted', callId, reason: played.missing, returned: true });
  }

  /** `happened: false` is definite only if `final`, or if no attempt could still run when the tool was asked. Else: doubt. */
  async #reconcile(reason: string, whenNot: () => Promise<void>): Promise<void> {
    const { callId, name, input } = this.#call;
    const tool = this.#tool;
    if (tool?.reconcile === undefined) return this.#doubt(reason);
    const validation = await tool.validate(input);
    const { runId, runContext } = this.#scope.context();
    const view = { callId, runId, name, runContext, input: validation.valid ? validation.value : input };
    await this.#scope.durable();
    if (!this.#is('reconciling') && !this.#is('running')) return;
    this.#scope.host.reach?.('reconcile.before');
    try {
      const alive = await this.#findLiveAttempt();
      const found = await tool.reconcile(view, this.#toolContext(this.#scope.stop.signal));
      this.#scope.host.reach?.('reconcile.after');
      if (this.#scope.stop.isStopped) return;
      if ('happened' in found && found.happened === true) return await this.#settle(found.output);
      // Only an explicit `happened: false` allows another attempt.
      if (!('happened' in found) || found.happened !== false) return this.#doubt(reason);
      if (alive !== null && found.final !== true)
        return this.#doubt(`${reason} It has not happened so far, but may yet: ${alive}.`);
    } catch (error) {
      if (this.#scope.stop.isStopped || isThrown(error, Stopped)) return;
      return this.#doubt(`${reason} Asking whether it happened failed: ${messageOf(error)}`);
    }
    await whenNot();
  }

  async #findLiveAttempt(): Promise<string | null> {
    const { callId, attempt } = this.#call;
    if (this.#isRunningHere) return `attempt ${this.#attempt} still runs in this process`;
    return attempt === 0 ? null : await this.#scope.findLiveAttempt({ callId, attempt });
  }

  /** Whether the tool is prepared; if not, the call asks, has its result, or is given up. */
  async #prepare(tool: Tool, input: unknown): Promise<boolean> {
    const { host, stop, yielding } = this.#scope;
    const questions = new Questions(this.#call, () => host.now());
    const timeout = new AbortController();
    const signal = AbortSignal.any([stop.signal, yielding, timeout.signal]);
    const context = this.#toolContext(signal, questions);
    host.reach?.('prepare.before');
    const preparing = this.#endOf(tool, signal, () => tool.prepare?.(input, context));
    const { timeoutMs } = tool;
    const ended = timeoutMs === undefined ? await preparing : await endWithin(preparing, host, timeoutMs);
    host.reach?.('prepare.after');
    if (stop.isStopped || yielding.aborted) return false;
    if (questions.open.length > 0) {
      await this.#ask(questions);
      return false;
    }
    if (ended?.type === 'returned') {
      this.#prepared = ended.output;
      return true;
    }
    const reason = `The tool was not prepared within ${timeoutMs} ms.`;
    if (ended === null) timeout.abort(new Error(reason));
    await this.#refuse(ended?.reason ?? reason);
    return false;
  }

  async #ask({ open: questions }: Questions): Promise<void> {
    const { callId } = this.#call;
    if ((this.#call.asks ?? 0) >= MOST_ASKS)
      return await this.#refuse(`The tool has asked ${MOST_ASKS} times, the maximum for one call.`);
    const digest = digestQuestions(questions);
    this.#scope.report({ type: 'question.asked', callId, digest, questions: [...questions] });
  }

  /** The call fails. One that has not begun has no start. */
  async #refuse(reason: string): Promise<void> {
    if (this.#is('running')) return await this.#fail(reason);
    await this.#fail(`${this.#call.attempt > 0 ? 'Not run again' : 'Not run'}: ${reason}`);
  }

  /** Settles a call that cannot run. The chart requires a reported start before a result. */
  async #settleInvalid(message: string): Promise<void> {
    this.#reportStart();
    if (this.#isOnce && this.#call.kept !== undefined) return this.#doubt(message);
    await this.#fail(`${this.#call.attempt > 0 ? 'Not run again' : 'Not run'}: ${message}`);
  }

  #reportStart(): void {
    this.#scope.report(this.#start());
  }

  #start(): Report {
    this.#attempt += 1;
    return { type: 'tool.started', callId: this.#call.callId, attempt: this.#attempt, key: this.#key };
  }

  /** Beginning the run that does the work is not a side effect: the child run has it. */
  get #isOnce(): boolean {
    if (this.#call.background === true) return false;
    return this.#call.sideEffect === 'once' || becameOnce(this.#call, this.#tool);
  }

  get #isRunningHere(): boolean {
    return isCallRunning(this.#scope.context().runId, this.#call.callId);
  }

  #is(status: Call['status']): boolean {
    return findCall(this.#scope.context(), this.#call.callId)?.status === status;
  }

  async #attemptOnce(tool: Tool, input: unknown): Promise<Outcome> {
    const { commitsInBackground, unbegun } = this.#scope;
    const mayRunNow = commitsInBackground && this.#attempt === 0 && tool.sideEffect === 'none';
    const start = this.#start();
    unbegun?.set(this.#call.callId, this.#attempt);
    await this.#scope.reportSoon(start);
    if (!mayRunNow || !mayRunUnrecorded(this.#call)) await this.#scope.durable();
    if (this.#scope.stop.isStopped || !this.#is('running'))
      throw new Stopped('The call is no longer running in the chart.');
    this.#scope.assertDriving();
    unbegun?.delete(this.#call.callId);
    this.#scope.host.reach?.('tool.before');
    const isSubAgent = this.#parts.subAgents.has(tool.name);
    const hasRun = isSubAgent || this.#call.background === true;
    const outcome = await (hasRun ? this.#askChild(input) : this.#callWithin(tool, input));
    this.#scope.host.reach?.('tool.after');
    return outcome;
  }

  #callWithin(tool: Tool, input: unknown): Promise<Outcome> {
    const { timeoutMs } = tool;
    if (timeoutMs !== undefined) return this.#callInTime(tool, input, timeoutMs);
    return this.#callTool(tool, input, this.#scope.stop.signal);
  }

  async #callInTime(tool: Tool, input: unknown, timeoutMs: number): Promise<Outcome> {
    const { host, stop } = this.#scope;
    const timeout = new AbortController();
    const called = this.#callTool(tool, input, AbortSignal.any([stop.signal, timeout.signal]));
    const inTime = await endWithin(called, host, timeoutMs);
    if (inTime !== null) return inTime;
    const reason = `The tool did not answer within ${timeoutMs} ms.`;
    timeout.abort(new Error(reason));
    const ended = this.#isOnce ? await endWithin(called, host, RETURN_GRACE_MS, stop.signal) : null;
    if (ended === null) void called.then(rest => this.#keepEvidence(rest)).catch(() => {});
    if (ended?.type === 'returned') return ended;
    return { type: 'lost', reason, returned: ended !== null };
  }

  #callTool(tool: Tool, input: unknown, signal: AbortSignal): Promise<Ended | Asks> {
    const called = this.#runTool(tool, input, signal);
    trackCall(this.#scope.context().runId, this.#call.callId, called);
    return called;
  }

  async #runTool(tool: Tool, input: unknown, signal: AbortSignal): Promise<Ended | Asks> {
    const questions = new Questions(this.#call, () => this.#scope.host.now());
    const context = this.#toolContext(signal, questions);
    let ended: Ended;
    try {
      ended = { type: 'returned', output: await this.#within(tool, () => tool.run?.(input, context)) };
    } catch (error) {
      ended = describeThrown(error, signal);
    }
    return questions.open.length > 0 && !signal.aborted ? { type: 'asks', questions } : ended;
  }

  async #endOf(tool: Tool, signal: AbortSignal, work: () => unknown): Promise<Ended> {
    try {
      return { type: 'returned', output: await this.#within(tool, work) };
    } catch (error) {
      return describeThrown(error, signal);
    }
  }

  #within<Result>({ name }: Tool, work: () => Result): Result {
    const { callId } = this.#call;
    const { runId } = this.#scope.context();
    return withinCall({ runId, callId, tool: name }, work);
  }

  async #askChild(input: unknown): Promise<Outcome> {
    const { stop, yielding } = this.#scope;
    const { subAgents } = this.#parts;
    const { callId, name, attempt, forwards, background: inBackground = false } = this.#call;
    const signal = AbortSignal.any([stop.signal, yielding]);
    const parent = this.#scope.context();
    const runId = childRunIdOf(this.#key, parent.runId);
    const found = await subAgents.lookFor(runId, parent.runId);
    if (found === 'unknown' && attempt > 0) return { type: 'unknown', reason: IN_ANOTHER_STORE };
    const share = subAgents.has(name)
      ? shareLimits(parent, tool => subAgents.has(tool))
      : ({ type: 'share', limits: {} } as const);
    if (share.type === 'spent' && found !== 'there') return { type: 'refused', reason: share.reason };
    const limits = share.type === 'spent' ? {} : share.limits;
    let isAwaited = !inBackground;
    let endRelay = () => {};
    try {
      const child = await subAgents.begin(name, {
        runId,
        limits,
        stream: parent.stream,
        runContext: parent.runContext,
        parent: { runId: parent.runId, callId },
        people: parent.people,
        ...(await this.#shownTo(input)),
        isAwaited: () => isAwaited && !signal.aborted,
        ...omitUndefined({ inheritedLabels: parent.labels }),
      });
      if (this.#scope.stop.isStopped) await this.#cancelOrphan(child);
      if (inBackground) {
        const held = subAgents.has(name) ? heldBy(limitsOf(child.context)) : {};
        return { type: 'begun', childRunId: runId, held };
      }
      endRelay = relayAnswer(child, parent, this.#call, {
        ...this.#parts,
        publish: delta => this.#scope.publish(delta),
      });
      const settled = await settleUnlessStopped(child, signal);
      if (settled.status === 'waiting') return { type: 'suspended', childRunId: runId };
      const answer = answerFor(this.#call, child.context, settled);
      // The parent's clock counts the time of its batch, so the child's time must not count again.
      return { type: 'answered', answer, spent: { ...spentBy(child.context), activeMs: 0 } };
    } catch (error) {
      // Whoever keeps the run does not know whether it began.
      if (isThrown(error, InDoubt)) return { type: 'unknown', reason: error.message };
      if (!isThrown(error, EngineError) || error.code !== 'run-unknown' || forwards === undefined)
        throw error;
      return { type: 'refused', reason: `Not run: the conversation with ${name} was deleted.` };
    } finally {
      isAwaited = false;
      endRelay();
    }
  }

  /** The run of a call that was stopped meanwhile: what cancels it with its parent may have come before it was there. */
  async #cancelOrphan(child: RunHandle): Promise<void> {
    const reason = await this.#scope.findOrphan?.(child.context);
    if (reason) await child.cancel({ reason });
  }

  /** What the run of a sub-agent begins with, and what it sees before. */
  async #shownTo(
    input: unknown,
  ): Promise<Pick<ChildRequest, 'input' | 'continues' | 'continuesAt' | 'handedBy' | 'onlyCall' | 'title'>> {
    if (!this.#parts.subAgents.has(this.#call.name)) return onlyCallOf(this.#call);
    const { callId, forwards } = this.#call;
    const { sees, answers, subAgent } = this.#tool ?? {};
    const context = this.#scope.context();
    const { runId, transcript } = context;
    const handed = answers === 'directly' ? { handedBy: context.agent.name } : {};
    if (forwards !== undefined)
      return { input: forwardedMessages(context, callId), continues: forwards, ...handed };
    if (sees === undefined)
      return { input: isJsonObject(input) && 'input' in input ? String(input.input) : '', ...handed };
    const result: Item = {
      type: 'tool_result',
      callId,
      output: `${subAgent?.name} sees the conversation so far.`,
      isError: false,
    };
    const continuesAt = sees.filter === undefined ? await this.#scope.committed?.() : undefined;
    if (continuesAt !== undefined) return { input: [result], continues: runId, continuesAt, ...handed };
    const seen = [...(await this.#scope.inherited()), ...transcript, result];
    return { input: pairedItems(sees.filter?.(seen) ?? seen), ...handed };
  }

  #toolContext(signal: AbortSignal, questions?: Questions): ToolCallContext {
    const { callId } = this.#call;
    const { runId, runContext } = this.#scope.context();
    const progress = (data: JsonValue) => this.#scope.publish({ type: 'tool.progress', callId, data });
    const about = { key: this.#key, callId, runId, attempt: this.#attempt, runContext };
    const { store } = this.#scope;
    const kept = findCall(this.#scope.context(), callId)?.kept;
    return {
      signal,
      ...about,
      progress,
      prepared: this.#prepared,
      ...(questions && { askPeople: question => this.#askPeople(questions, question) }),
      keep: state => this.#keep(state),
      wait: ms => sleep(this.#scope.host, ms, signal),
      ...omitUndefined({ store, kept }),
    };
  }

  async #askPeople(questions: Questions, question: AskedQuestion): Promise<QuestionAnswer> {
    const { callId } = this.#call;
    if (this.#is('running') && this.#isOnce && findCall(this.#scope.context(), callId)?.kept === undefined)
      throw new Error(
        `"${this.#call.name}" has begun and must not run twice, so it cannot ask now. Ask in its \`prepare\`.`,
      );
    return await questions.ask(question);
  }

  async #keep(state: JsonValue): Promise<void> {
    this.#scope.report({ type: 'tool.kept', callId: this.#call.callId, state: toBoundedJson(state) });
    await this.#scope.durable();
  }

  #settle(output: unknown): Promise<void> {
    return this.#reportResult(readResult(output, { isFaultError: true }));
  }

  #fail(output: string): Promise<void> {
    return this.#reportResult({ output, isError: true });
  }

  /** A result that came too late, while it was stored, is kept as evidence. */
  async #reportResult(full: FullResult, spent?: Spent): Promise<void> {
    const bound = this.#bound(full);
    const result = 'then' in bound ? await bound : bound;
    const { callId } = this.#call;
    const report = { type: 'tool.settled', callId, ...result, ...omitUndefined({ spent }) } as const;
    const refused = await this.#scope.reportSoon(report);
    if (refused.includes(report) && this.#isOnce) this.#recordLate(result);
  }

  /** The answer of a run is not bounded, so neither is the result that it is taken from. */
  async #reportAnswer({ answer, spent }: Extract<Outcome, { type: 'answered' }>): Promise<void> {
    if (answer.answered === undefined) return await this.#reportResult(answer, spent);
    this.#scope.report({ type: 'tool.settled', callId: this.#call.callId, ...answer, spent });
  }

  #suspend(childRunId: string): void {
    this.#scope.report({ type: 'tool.suspended', callId: this.#call.callId, childRunId });
  }

  #reportBegun({ childRunId, held }: Omit<Extract<Outcome, { type: 'begun' }>, 'type'>): void {
    const { callId, input } = this.#call;
    const changedBy = whoChanged(findCall(this.#scope.context(), callId));
    const shown =
      changedBy &&
      `[${changedBy} changed the input to ${JSON.stringify(input)}.]\nThe work has started in run ${childRunId}.`;
    const about = { callId, childRunId, background: held, ...omitUndefined({ shown }) };
    this.#scope.report({ type: 'tool.suspended', ...about });
  }

  #recordLate({ shown: _, ...result }: CallResult): void {
    this.#scope.recordLate({ callId: this.#call.callId, attempt: this.#attempt, ...result });
  }

  #doubt(reason: string): void {
    const { callId, attempt } = this.#call;
    const hasReturned = this.#attempt > attempt && !this.#isRunningHere;
    this.#scope.report({
      type: 'tool.doubted',
      callId,
      reason: cutText(reason, LONGEST_REASON_BYTES),
      ...(hasReturned && { returned: true }),
    });
  }

  /** A failure of a `once` call is evidence too: its attempt can have no further side effect. */
  async #keepEvidence(outcome: Outcome): Promise<void> {
    const late = resultIfReturned(outcome);
    if (late === null) return;
    const bound = await this.#bound(late);
    const { shown: _, ...result } = bound;
    const { isError } = result;
    if (!isError && this.#scope.report({ type: 'tool.settled', callId: this.#call.callId, ...result }))
      return;
    const isWanted = !isError || !(this.#scope.stop.signal.reason instanceof Cancelled);
    if (this.#isOnce && isWanted) this.#recordLate(bound);
  }

  /** The result for the journal, shortened if necessary, with the text for the model. */
  #bound({ output, isError, text = JSON.stringify(output) }: FullResult): CallResult | Promise<CallResult> {
    const { blobs } = this.#scope;
    const maxBytes = maxResultBytesOf(this.#scope.context(), this.#call.callId);
    const about = { isError, text, maxBytes };
    if (blobs === null || fitsBytes(text, maxBytes)) return this.#noted({ output }, about);
    const storing = blobs.put(output, readText(output, text), maxBytes);
    return storing.then(bound => this.#noted(bound, { ...about, isStored: true }));
  }

  /** The result with the notes that its model reads before it. */
  #noted(
    bound: BoundOutput,
    {
      isError,
      text,
      maxBytes,
      isStored = false,
    }: { isError: boolean; text: string; maxBytes: number; isStored?: boolean },
  ): CallResult {
    const { callId, input } = this.#call;
    const unchecked = this.#unchecked;
    const read = readText(bound.output, text);
    const changedBy = whoChanged(findCall(this.#scope.context(), callId));
    if (
      changedBy === undefined &&
      unchecked === undefined &&
      (isStored || fitsBytes(read, MODEL_READS_BYTES))
    )
      return { ...bound, isError };
    const note =
      (unchecked === undefined ? '' : `[${unchecked}]\n`) +
      (changedBy === undefined ? '' : `[${changedBy} changed the input to ${JSON.stringify(input)}.]\n`);
    return { ...bound, isError, shown: note + cutText(read, Math.min(maxBytes, MODEL_READS_BYTES)) };
  }
}

function describeThrown(error: unknown, signal: AbortSignal): Exclude<Ended, { type: 'returned' }> {
  const reason = messageOf(error);
  if (isThrown(error, InDoubt)) return { type: 'lost', reason, returned: true };
  return signal.aborted
    ? { type: 'lost', reason: `The call was aborted: ${reason}`, returned: true }
    : { type: 'threw', reason };
}

/** What the run of one call begins with: the call as it was made and decided here. */
function onlyCallOf(call: Call): Pick<ChildRequest, 'input' | 'onlyCall' | 'title'> {
  const { callId, name, input, digest, readDigest, sideEffect, reconcilable, executedBy } = call;
  const { maxResultBytes, tags } = call;
  const known = { callId, name, input, digest, sideEffect, reconcilable, executedBy, gate: false };
  return {
    title: name,
    input: [{ type: 'tool_call', callId, name, arguments: JSON.stringify(input) }],
    onlyCall: { ...known, ...omitUndefined({ readDigest, maxResultBytes, tags }) },
  };
}

/** Who changed the input that the model wrote. */
function whoChanged(call: Call | undefined): string | undefined {
  if (call?.edited === true) return 'A person';
  return call?.replaced === true ? 'A guardrail' : undefined;
}

/** The items without calls that have no result among them, and without results of other calls. */
function pairedItems(items: readonly Item[]): readonly Item[] {
  const idsOf = (type: 'tool_call' | 'tool_result') =>
    new Set(items.flatMap(item => (item.type === type ? item.callId : [])));
  const made = idsOf('tool_call');
  const answered = idsOf('tool_result');
  return items.filter(item => {
    if (item.type === 'tool_call') return answered.has(item.callId);
    return item.type !== 'tool_result' || made.has(item.callId);
  });
}

async function settleUnlessStopped(child: RunHandle, signal: AbortSignal): Promise<Settled> {
  const stopped = Promise.withResolvers<'stopped'>();
  const stop = () => stopped.resolve('stopped');
  signal.addEventListener('abort', stop);
  if (signal.aborted) stop();
  try {
    const settled = await Promise.race([child.settled(), stopped.promise]);
    if (settled !== 'stopped') return settled;
    if (signal.reason instanceof Cancelled) {
      const { afterCalls } = signal.reason;
      await child.cancel({ reason: 'its parent run was cancelled', ...(afterCalls && { afterCalls }) });
    }
    if (signal.reason instanceof Yielding) await child.yield(signal.reason);
    throw new Stopped('The call is no longer needed.');
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

/** The result of a function that has returned or thrown, and so can have no further side effect; else `null`. */
function resultIfReturned(outcome: Outcome): FullResult | null {
  if (outcome.type === 'returned') return readResult(outcome.output, { isFaultError: false });
  if (outcome.type === 'threw' || (outcome.type === 'lost' && outcome.returned))
    return { output: outcome.reason, isError: true };
  return null;
}

/** A fault, such as an output that is not JSON, is the result. */
function readResult(output: unknown, { isFaultError }: { isFaultError: boolean }): FullResult {
  const read = readOutput(output);
  if ('fault' in read) return { output: read.fault, isError: isFaultError };
  return { output: read.value, isError: false, text: read.text };
}

function readText(output: JsonValue, text: string): string {
  const content = readContent(output);
  if (content !== undefined) return textOfParts(content.parts);
  return typeof output === 'string' ? output : text;
}
