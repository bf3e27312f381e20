import { findCall, mayRunUnrecorded } from '../../machines/calls.ts';
import type { Call, CallResult } from '../../machines/context.ts';
import { backOffMs } from '../../protocol/back-off.ts';
import { readContent, textOfParts } from '../../protocol/content/read-content.ts';
import { InDoubt, isThrown, messageOf } from '../../protocol/error.ts';
import type { Spent } from '../../protocol/event.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Tool, ToolCallContext } from '../../protocol/tool.ts';
import { cutText, fitsBytes, MODEL_READS_BYTES } from '../../text/cut-text.ts';
import { sleep } from '../host/host.ts';
import { endWithin, isCallRunning, trackCall, withinCall } from '../host/running-calls.ts';
import type { PlayedCall } from '../journal/recorded-calls.ts';
import { maxResultBytesOf } from '../journal/run-blobs.ts';
import type { ChildAnswer, SubAgentRuns } from '../sub-agents/sub-agent-runs.ts';
import type { ChildOutcome } from './drive-child.ts';
import { driveChild } from './drive-child.ts';
import { readOutput } from './read-output.ts';
import type { ServiceScope } from './service.ts';
import { Cancelled, LONGEST_REASON_BYTES, Stopped } from './service.ts';

/** The parts of an agent that run its tool batches. */
export type ToolBatchParts = {
  connectTools(): Promise<ReadonlyMap<string, Tool>>;
  concurrency: number;
  /** The first wait before a call is retried, in ms; it doubles. */
  retryBaseMs: number;
  subAgents: SubAgentRuns;
};

/** Without a store, the original's results are out of reach. */
const OUT_OF_REACH: PlayedCall = {
  missing:
    'Not executed: this run plays the results of another one, and has no store. Retry executes the call.',
};

/** The reason of a doubt about a call whose tool is now declared `once`. */
export const ONCE_NOW =
  'The process that ran it stopped before its outcome was recorded, and its tool must not run twice now.';

/** Whether the tool is now declared `once`, although the call was recorded with a lesser side effect. */
export function becameOnce({ sideEffect }: Call, tool: Tool | undefined): boolean {
  return sideEffect !== 'once' && tool?.sideEffect === 'once';
}

/**
 * Runs one call of a batch until it has a result, is in doubt, or waits. Implements the invariants of `tool-batch.ts`.
 */
export class CallRun {
  readonly call: Call;
  readonly #scope: ServiceScope;
  readonly #tool: Tool | undefined;
  readonly #parts: ToolBatchParts;
  readonly #key: string;
  #attempt: number;
  /** A note for the model about the parts of the input that could not be checked. */
  #unchecked: string | undefined;

  constructor(scope: ServiceScope, call: Call, tool: Tool | undefined, parts: ToolBatchParts) {
    const { runId, turn } = scope.context();
    this.#scope = scope;
    this.call = call;
    this.#tool = tool;
    this.#parts = parts;
    this.#key = call.key ?? `${runId}:${turn.number}:${call.callId}`;
    this.#attempt = call.attempt;
  }

  /** Runs the call, with retries, and reports its outcome. */
  async execute(): Promise<void> {
    if (this.isPlayed) return await this.play();
    const tool = this.#tool;
    if (this.#wasInterrupted && becameOnce(this.call, tool)) {
      this.#reportStart();
      return this.#doubt(ONCE_NOW);
    }
    const value = await this.#validate();
    if (tool?.run === undefined || value === undefined) return;
    for (let failures = 0; ; failures += 1) {
      const outcome = await this.#attemptOnce(tool, value.input);
      if (this.#scope.stop.isStopped) return await this.#keepEvidence(outcome);
      if (outcome.type === 'returned') return await this.#settle(outcome.output);
      if (outcome.type === 'answered') return await this.#settleAnswer(outcome.answer, outcome.spent);
      if (outcome.type === 'suspended') return this.#suspend(outcome.childRunId);
      if (outcome.type === 'unknown') return this.#doubt(outcome.reason);
      if (outcome.type === 'refused') return await this.#fail(`Not run: ${outcome.reason}`);
      if (this.#isOnce) {
        if (outcome.type === 'threw') return await this.#fail(messageOf(outcome.error));
        return await this.#reconcile(outcome.reason, () =>
          this.#fail(`${outcome.reason} It did not happen.`),
        );
      }
      if (failures >= tool.retries) {
        return await this.#fail(outcome.type === 'threw' ? messageOf(outcome.error) : outcome.reason);
      }
      const stopped = AbortSignal.any([this.#scope.stop.signal, this.#scope.yielding]);
      const waitMs = backOffMs(failures + 1, { baseMs: this.#parts.retryBaseMs });
      await sleep(this.#scope.host, waitMs, stopped);
      if (stopped.aborted) return;
    }
  }

  /**
   * Recovers a call that another process started: asks the tool whether it happened, and runs it only if it did not and
   * can no longer happen.
   */
  async recover(): Promise<void> {
    if (this.isPlayed) return await this.play();
    await this.#reconcile('The process that ran it stopped before its outcome was recorded.', () =>
      this.execute(),
    );
  }

  /** Whether the call has to be played and not executed: the run plays results, and no person decided to retry it. */
  get isPlayed(): boolean {
    return this.#scope.context().config.playsResultsOf !== undefined && this.call.doubt === undefined;
  }

  /** Settles the call with its result in the run whose results this one plays, or puts it in doubt without one. */
  async play(): Promise<void> {
    const played = (await this.#scope.play?.(this.#scope.context(), this.call)) ?? OUT_OF_REACH;
    const { callId } = this.call;
    const result =
      'missing' in played ? null : await this.#bound({ ...played, text: JSON.stringify(played.output) });
    if (!this.#is('running')) this.#reportStart();
    if (result !== null && 'from' in played)
      this.#scope.report({ type: 'tool.settled', callId, ...result, played: played.from });
    else if ('missing' in played)
      this.#scope.report({ type: 'tool.doubted', callId, reason: played.missing, returned: true });
  }

  /**
   * Without a definite answer, the call becomes in doubt. `happened: false` is definite only if no attempt could still
   * be running when the tool was asked, or if the answer is `final`.
   */
  async #reconcile(reason: string, whenNot: () => void | Promise<void>): Promise<void> {
    const { callId, name, input } = this.call;
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
    const { callId, attempt } = this.call;
    if (isCallRunning(this.#scope.context().runId, callId))
      return `attempt ${this.#attempt} still runs in this process`;
    return attempt === 0 ? null : await this.#scope.findLiveAttempt({ callId, attempt });
  }

  async #validate(): Promise<{ input: unknown } | undefined> {
    if (this.#tool?.run === undefined) {
      await this.#settleInvalid(`The agent no longer has a tool "${this.call.name}".`);
      return undefined;
    }
    const validation = await this.#tool.validate(this.call.input);
    if (validation.valid) {
      this.#unchecked = validation.unchecked;
      return { input: validation.value };
    }
    await this.#settleInvalid(`The arguments are not valid: ${validation.message}`);
    return undefined;
  }

  /** Settles a call that cannot run. The chart requires a reported start before a result. */
  async #settleInvalid(message: string): Promise<void> {
    this.#reportStart();
    await this.#fail(`${this.call.attempt > 0 ? 'Not run again' : 'Not run'}: ${message}`);
  }

  #reportStart(): void {
    this.#attempt += 1;
    const { callId } = this.call;
    this.#scope.report({ type: 'tool.started', callId, attempt: this.#attempt, key: this.#key });
  }

  get #isOnce(): boolean {
    return this.call.sideEffect === 'once' || becameOnce(this.call, this.#tool);
  }

  /** Started by an earlier process, and not resolved by a person since. */
  get #wasInterrupted(): boolean {
    return this.call.attempt > 0 && this.call.doubt === undefined;
  }

  #is(status: Call['status']): boolean {
    return findCall(this.#scope.context(), this.call.callId)?.status === status;
  }

  async #attemptOnce(tool: Tool, input: unknown): Promise<Outcome> {
    const { commitsInBackground, unbegun } = this.#scope;
    const mayRunNow = commitsInBackground && this.#attempt === 0 && tool.sideEffect === 'none';
    this.#reportStart();
    unbegun?.set(this.call.callId, this.#attempt);
    if (!mayRunNow || !mayRunUnrecorded(this.call)) await this.#scope.durable();
    if (!this.#is('running')) throw new Stopped('The call is no longer running in the chart.');
    this.#scope.assertDriving();
    unbegun?.delete(this.call.callId);
    this.#scope.host.reach?.('tool.before');
    const outcome = await this.#callWithin(tool, input);
    this.#scope.host.reach?.('tool.after');
    return outcome;
  }

  async #callWithin(tool: Tool, input: unknown): Promise<Outcome> {
    const { timeoutMs } = tool;
    if (this.#parts.subAgents.has(tool.name)) return await this.#askSubAgent(input);
    const { host, stop } = this.#scope;
    if (timeoutMs === undefined)
      return await this.#track(callTool(tool, input, this.#toolContext(stop.signal)));
    const timeout = new AbortController();
    const called = this.#track(
      callTool(tool, input, this.#toolContext(AbortSignal.any([stop.signal, timeout.signal]))),
    );
    let cancel = () => {};
    const late = new Promise<Outcome>(resolve => {
      cancel = host.setTimer(timeoutMs, () => {
        const reason = `The tool did not answer within ${timeoutMs} ms.`;
        resolve({ type: 'lost', reason, returned: false });
        timeout.abort(new Error(reason));
      });
    });
    const outcome = await Promise.race([called, late]);
    cancel();
    if (outcome.type !== 'lost' || outcome.returned) return outcome;
    const ended = this.#isOnce ? await endWithin(called, host, stop.signal) : null;
    if (ended === null) void called.then(rest => this.#keepEvidence(rest)).catch(() => {});
    if (ended?.type === 'returned') return ended;
    return { ...outcome, returned: ended !== null };
  }

  #track(called: Promise<Outcome>): Promise<Outcome> {
    trackCall(this.#scope.context().runId, this.call.callId, called);
    return called;
  }

  async #askSubAgent(input: unknown): Promise<Outcome> {
    return await driveChild(this.#scope, this.#parts.subAgents, { call: this.call, key: this.#key, input });
  }

  async #settleAnswer({ output, isError }: ChildAnswer, spent: Spent): Promise<void> {
    await this.#reportResult({ output, isError, text: JSON.stringify(output) }, spent);
  }

  #suspend(childRunId: string): void {
    this.#scope.report({ type: 'tool.suspended', callId: this.call.callId, childRunId });
  }

  #toolContext(signal: AbortSignal): ToolCallContext {
    const { callId } = this.call;
    const { runId, runContext } = this.#scope.context();
    const progress = (data: JsonValue) => this.#scope.publish({ type: 'tool.progress', callId, data });
    return { signal, key: this.#key, callId, runId, attempt: this.#attempt, runContext, progress };
  }

  async #settle(output: unknown): Promise<void> {
    const read = readOutput(output);
    if ('fault' in read) return await this.#fail(read.fault);
    await this.#reportResult({ output: read.value, isError: false, text: read.text });
  }

  async #fail(message: string): Promise<void> {
    await this.#reportResult({ output: message, isError: true, text: JSON.stringify(message) });
  }

  /** A result that came too late, while it was stored, is kept as evidence. */
  async #reportResult(full: FullResult, spent?: Spent): Promise<void> {
    const result = await this.#bound(full);
    const { callId } = this.call;
    const report = { type: 'tool.settled', callId, ...result, ...omitUndefined({ spent }) } as const;
    if (!this.#scope.report(report) && this.#isOnce) this.#recordLate(result);
  }

  #bound(full: FullResult): Promise<CallResult> {
    return boundResult(this.#scope, this.call, full, this.#unchecked);
  }

  #recordLate({ shown: _, ...result }: CallResult): void {
    this.#scope.recordLate({ callId: this.call.callId, attempt: this.#attempt, ...result });
  }

  #doubt(reason: string): void {
    const { callId, attempt } = this.call;
    const { runId } = this.#scope.context();
    const hasReturned = this.#attempt > attempt && !isCallRunning(runId, callId);
    this.#scope.report({
      type: 'tool.doubted',
      callId,
      reason: cutText(reason, LONGEST_REASON_BYTES),
      ...(hasReturned && { returned: true }),
    });
  }

  /**
   * Handles the outcome of an abandoned attempt: reports it if the chart still accepts it, otherwise records it as
   * late. A failure of a `once` call is recorded too, because it shows that the attempt can have no further side
   * effect.
   */
  async #keepEvidence(outcome: Outcome): Promise<void> {
    if (!hasReturned(outcome)) return;
    const { callId } = this.call;
    const bound = await this.#bound(describeLate(outcome));
    const { shown: _, ...result } = bound;
    const { isError } = result;
    if (!isError && this.#scope.report({ type: 'tool.settled', callId, ...result })) return;
    const isWanted = !isError || !(this.#scope.stop.signal.reason instanceof Cancelled);
    if (this.#isOnce && isWanted) this.#recordLate(bound);
  }
}

async function callTool(tool: Tool, input: unknown, context: ToolCallContext): Promise<Outcome> {
  try {
    const { callId, runId } = context;
    const running = { runId, callId, tool: tool.name };
    return { type: 'returned', output: await withinCall(running, () => tool.run?.(input, context)) };
  } catch (error) {
    if (isThrown(error, InDoubt)) return { type: 'lost', reason: messageOf(error), returned: true };
    return context.signal.aborted
      ? { type: 'lost', reason: `The call was aborted: ${messageOf(error)}`, returned: true }
      : { type: 'threw', error };
  }
}

/**
 * The end of one attempt of a tool's function. `lost`: it is unknown whether the side effect happened; unless
 * `returned`, the function may still be running.
 */
export type Outcome =
  | { type: 'returned'; output: unknown }
  | ChildOutcome
  | { type: 'threw'; error: unknown }
  | { type: 'lost'; reason: string; returned: boolean };

type FullResult = { output: JsonValue; isError: boolean; text: string };

type Ended = Extract<Outcome, { type: 'returned' | 'threw' | 'lost' }>;

/** Whether the function has returned or thrown, so it can have no further side effect. */
function hasReturned(outcome: Outcome): outcome is Ended {
  return (
    outcome.type === 'returned' || outcome.type === 'threw' || (outcome.type === 'lost' && outcome.returned)
  );
}

function describeLate(outcome: Ended): FullResult {
  if (outcome.type !== 'returned') {
    const output = outcome.type === 'threw' ? messageOf(outcome.error) : outcome.reason;
    return { output, isError: true, text: JSON.stringify(output) };
  }
  const read = readOutput(outcome.output);
  if ('fault' in read) return { output: read.fault, isError: false, text: JSON.stringify(read.fault) };
  return { output: read.value, isError: false, text: read.text };
}

/**
 * Returns the result for the journal, shortened if necessary, with the text for the model. `unchecked`: a note for the
 * model about the parts of the input that could not be checked.
 */
async function boundResult(
  scope: Pick<ServiceScope, 'context' | 'blobs'>,
  { callId, input }: Call,
  { output, isError, text }: FullResult,
  unchecked: string | undefined,
): Promise<CallResult> {
  const { blobs } = scope;
  const context = scope.context();
  const maxBytes = maxResultBytesOf(context, callId);
  const isLarge = blobs !== null && !fitsBytes(text, maxBytes);
  const bound = isLarge ? await blobs.put(output, readText(output, text), maxBytes) : { output };
  const read = readText(bound.output, text);
  const edited = findCall(context, callId)?.edited === true;
  if (!edited && unchecked === undefined && (isLarge || fitsBytes(read, MODEL_READS_BYTES)))
    return { ...bound, isError };
  const note =
    (unchecked === undefined ? '' : `[${unchecked}]\n`) +
    (edited ? `[A person changed the input to ${JSON.stringify(input)}.]\n` : '');
  return { ...bound, isError, shown: note + cutText(read, Math.min(maxBytes, MODEL_READS_BYTES)) };
}

/** The text that the model reads of an output, whose JSON is `text`. */
function readText(output: JsonValue, text: string): string {
  const content = readContent(output);
  if (content !== undefined) return textOfParts(content.parts);
  return typeof output === 'string' ? output : text;
}
