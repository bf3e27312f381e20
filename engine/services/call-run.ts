import { findCall } from '../../machines/calls.ts';
import type { Call, CallResult } from '../../machines/context.ts';
import { InDoubt, messageOf } from '../../protocol/error.ts';
import type { Spent } from '../../protocol/event.ts';
import { type JsonValue, toJsonText } from '../../protocol/json.ts';
import type { Tool, ToolCallContext } from '../../protocol/tool.ts';
import type { ChildAnswer, ChildRuns } from '../child-runs.ts';
import { cutText, fitsBytes, MODEL_READS_BYTES } from '../cut-text.ts';
import { sleep } from '../host.ts';
import { maxResultBytesOf } from '../run-blobs.ts';
import { type ServiceScope, Stopped } from '../service.ts';
import { type ChildOutcome, runChild } from './run-child.ts';

export type ToolBatchParts = {
  connectTools(): Promise<ReadonlyMap<string, Tool>>;
  concurrency: number;
  /** The first wait before a call is tried again, in ms; it doubles. */
  retryBaseMs: number;
  children: ChildRuns;
};

/** Of a doubt. */
const LONGEST_REASON_BYTES = 10_000;

export const ONCE_NOW =
  'Whoever ran it stopped before its outcome was recorded, and its tool is one by now that must not run twice.';

/** The tool was declared to be more than what was recorded of the call. */
export function becameOnce({ sideEffect }: Call, tool: Tool | undefined): boolean {
  return sideEffect !== 'once' && tool?.sideEffect === 'once';
}

/** How one attempt of a tool's function ended; `lost` means that nobody can know whether it acted. */
type Outcome =
  | { type: 'returned'; output: unknown }
  | ChildOutcome
  | { type: 'threw'; error: unknown }
  | { type: 'lost'; reason: string };

/** One call of a batch, from its start to its result, its doubt or its rest. The batch's invariants are here. */
export class CallRun {
  readonly call: Call;
  readonly #scope: ServiceScope;
  readonly #tool: Tool | undefined;
  readonly #parts: ToolBatchParts;
  readonly #key: string;
  #attempt: number;

  constructor(scope: ServiceScope, call: Call, tool: Tool | undefined, parts: ToolBatchParts) {
    const { runId, turn } = scope.context();
    this.#scope = scope;
    this.call = call;
    this.#tool = tool;
    this.#parts = parts;
    this.#key = call.key ?? `${runId}:${turn.number}:${call.callId}`;
    this.#attempt = call.attempt;
  }

  async execute(): Promise<void> {
    const tool = this.#tool;
    if (this.#wasInterrupted && becameOnce(this.call, tool)) {
      this.#reportStart();
      return this.#doubt(ONCE_NOW);
    }
    const value = await this.#validate();
    if (tool?.run === undefined || value === undefined) return;
    for (let failures = 0; ; failures += 1) {
      const outcome = await this.#attemptOnce(tool, value.input);
      if (this.#scope.signal.aborted) return await this.#keepEvidence(outcome);
      if (outcome.type === 'returned') return await this.#settle(outcome.output);
      if (outcome.type === 'answered') return await this.#settleAnswer(outcome.answer, outcome.spent);
      if (outcome.type === 'suspended') return this.#suspend(outcome.childRunId);
      if (outcome.type === 'unknown') return this.#doubt(outcome.reason);
      if (this.#isOnce) {
        if (outcome.type === 'threw') return await this.#fail(messageOf(outcome.error));
        return await this.#reconcile(outcome.reason, () =>
          this.#fail(`${outcome.reason} It did not happen.`),
        );
      }
      if (failures >= tool.retries) {
        return await this.#fail(outcome.type === 'threw' ? messageOf(outcome.error) : outcome.reason);
      }
      await sleep(this.#scope.host, this.#parts.retryBaseMs * 2 ** failures, this.#scope.signal);
      if (this.#scope.signal.aborted) return;
    }
  }

  /** For a call that another process started: asks the tool whether it happened, and runs it if it did not. */
  async recover(): Promise<void> {
    await this.#reconcile('Whoever ran it stopped before its outcome was recorded.', () => this.execute());
  }

  /** Without an answer the call is in doubt. */
  async #reconcile(reason: string, whenNot: () => void | Promise<void>): Promise<void> {
    const { callId, name, input } = this.call;
    const tool = this.#tool;
    if (tool?.reconcile === undefined) return this.#doubt(reason);
    const validation = await tool.validate(input);
    const { runId } = this.#scope.context();
    const view = { callId, runId, name, input: validation.valid ? validation.value : input };
    await this.#scope.durable();
    if (!this.#is('reconciling') && !this.#is('running')) return;
    this.#scope.host.reach?.('reconcile.before');
    try {
      const found = await tool.reconcile(view, this.#toolContext(this.#scope.signal));
      this.#scope.host.reach?.('reconcile.after');
      if (this.#scope.signal.aborted) return;
      const happened = 'happened' in found ? found.happened : undefined;
      if ('happened' in found && found.happened === true) return await this.#settle(found.output);
      // Only a plain no lets it run again: nothing else may count as one.
      if (happened !== false) return this.#doubt(reason);
    } catch (error) {
      if (this.#scope.signal.aborted || error instanceof Stopped) return;
      return this.#doubt(`${reason} Asking whether it happened failed: ${messageOf(error)}`);
    }
    await whenNot();
  }

  async #validate(): Promise<{ input: unknown } | undefined> {
    if (this.#tool?.run === undefined) {
      await this.#refuse(`The agent has no tool "${this.call.name}" any more.`);
      return undefined;
    }
    const validation = await this.#tool.validate(this.call.input);
    if (validation.valid) return { input: validation.value };
    await this.#refuse(`The arguments are not valid: ${validation.message}`);
    return undefined;
  }

  /** A call that cannot be started gets its result by way of a start that touches nothing. */
  async #refuse(message: string): Promise<void> {
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

  /** Started by a process that is gone, and nobody has said since that it may run again. */
  get #wasInterrupted(): boolean {
    return this.call.attempt > 0 && this.call.doubt === undefined;
  }

  /** Where the chart has the call by now. */
  #is(status: Call['status']): boolean {
    return findCall(this.#scope.context(), this.call.callId)?.status === status;
  }

  async #attemptOnce(tool: Tool, input: unknown): Promise<Outcome> {
    this.#reportStart();
    await this.#scope.durable();
    if (!this.#is('running')) throw new Stopped('The run does not want this call now.');
    this.#scope.assertDriving();
    this.#scope.host.reach?.('tool.before');
    const outcome = await this.#callWithin(tool, input);
    this.#scope.host.reach?.('tool.after');
    return outcome;
  }

  async #callWithin(tool: Tool, input: unknown): Promise<Outcome> {
    const { host, signal } = this.#scope;
    const { timeoutMs } = tool;
    if (this.#parts.children.has(tool.name)) return await this.#askSubAgent(input);
    if (timeoutMs === undefined) return await callTool(tool, input, this.#toolContext(signal));
    const timeout = new AbortController();
    const called = callTool(tool, input, this.#toolContext(AbortSignal.any([signal, timeout.signal])));
    let cancel = () => {};
    const late = new Promise<Outcome>(resolve => {
      cancel = host.setTimer(timeoutMs, () => {
        const reason = `The tool did not answer within ${timeoutMs} ms.`;
        resolve({ type: 'lost', reason });
        timeout.abort(new Error(reason));
      });
    });
    const outcome = await Promise.race([called, late]);
    cancel();
    if (outcome.type === 'lost' && timeout.signal.aborted)
      void called.then(rest => this.#keepEvidence(rest)).catch(() => {});
    return outcome;
  }

  async #askSubAgent(input: unknown): Promise<Outcome> {
    const outcome = await runChild(this.#scope, this.#parts.children, {
      call: this.call,
      key: this.#key,
      input,
    });
    return outcome ?? { type: 'threw', error: new Error('Not run: nothing is left to spend.') };
  }

  async #settleAnswer({ output, isError }: ChildAnswer, spent: Spent): Promise<void> {
    await this.#reportResult({ output, isError }, JSON.stringify(output), spent);
  }

  #suspend(childRunId: string): void {
    this.#scope.report({ type: 'tool.suspended', callId: this.call.callId, childRunId });
  }

  #toolContext(signal: AbortSignal): ToolCallContext {
    const { callId } = this.call;
    const { runId } = this.#scope.context();
    const progress = (data: JsonValue) => this.#scope.publish({ type: 'tool.progress', callId, data });
    return { signal, key: this.#key, callId, runId, progress };
  }

  async #settle(output: unknown): Promise<void> {
    const read = readOutput(output);
    if ('fault' in read) return await this.#fail(read.fault);
    await this.#reportResult({ output: read.value, isError: false }, read.text);
  }

  async #fail(message: string): Promise<void> {
    await this.#reportResult({ output: message, isError: true }, JSON.stringify(message));
  }

  /** `text` is the output's JSON. What came too late, while it was being stored, is kept as evidence. */
  async #reportResult(whole: Whole, text: string, spent?: Spent): Promise<void> {
    const result = await this.#bound(whole, text);
    const { callId } = this.call;
    const report = {
      type: 'tool.settled',
      callId,
      ...result,
      ...(spent === undefined ? {} : { spent }),
    } as const;
    if (!this.#scope.report(report) && this.#isOnce) this.#recordLate(result);
  }

  /** The result as the journal has it: cut where it is too long, with what the model reads of it. */
  async #bound({ output, isError }: Whole, text: string): Promise<CallResult> {
    const context = this.#scope.context();
    const { blobs } = this.#scope;
    const maxBytes = maxResultBytesOf(context, this.call.callId);
    const read = typeof output === 'string' ? output : text;
    const isLarge = blobs !== null && !fitsBytes(text, maxBytes);
    const bound = isLarge ? await blobs.put(output, read, maxBytes) : { output };
    const edited = findCall(context, this.call.callId)?.edited === true;
    if (!edited && (isLarge || fitsBytes(read, MODEL_READS_BYTES))) return { ...bound, isError };
    const note = edited ? `[A person changed the input to ${JSON.stringify(this.call.input)}.]\n` : '';
    return { ...bound, isError, shown: note + cutText(read, Math.min(maxBytes, MODEL_READS_BYTES)) };
  }

  #recordLate({ output, isError, blob }: CallResult): void {
    this.#scope.recordLate(this.call.callId, { output, ...(blob === undefined ? {} : { blob }) }, isError);
  }

  #doubt(reason: string): void {
    this.#scope.report({
      type: 'tool.doubted',
      callId: this.call.callId,
      reason: cutText(reason, LONGEST_REASON_BYTES),
    });
  }

  /** The batch was stopped while the tool ran: its outcome is reported if the chart still wants it, else kept. */
  async #keepEvidence(outcome: Outcome): Promise<void> {
    if (outcome.type !== 'returned') return;
    const read = readOutput(outcome.output);
    const { value, text } = 'fault' in read ? { value: read.fault, text: JSON.stringify(read.fault) } : read;
    const { shown: _, ...result } = await this.#bound({ output: value, isError: false }, text);
    if (this.#scope.report({ type: 'tool.settled', callId: this.call.callId, ...result })) return;
    if (this.#isOnce) this.#recordLate(result);
  }
}

type Whole = { output: JsonValue; isError: boolean };

/** What a tool gave, as JSON and its text. */
function readOutput(output: unknown): { value: JsonValue; text: string } | { fault: string } {
  try {
    const text = toJsonText(output);
    return { value: JSON.parse(text), text };
  } catch (error) {
    return { fault: `The tool ran, but what it returned could not be recorded: ${messageOf(error)}` };
  }
}

async function callTool(tool: Tool, input: unknown, context: ToolCallContext): Promise<Outcome> {
  try {
    return { type: 'returned', output: await tool.run?.(input, context) };
  } catch (error) {
    if (error instanceof InDoubt) return { type: 'lost', reason: error.message };
    return context.signal.aborted
      ? { type: 'lost', reason: `The call was aborted: ${messageOf(error)}` }
      : { type: 'threw', error };
  }
}
