import { findCall } from '../../machines/calls.ts';
import type { Call } from '../../machines/context.ts';
import { InDoubt, messageOf } from '../../protocol/error.ts';
import type { Spent } from '../../protocol/event.ts';
import { type JsonValue, toBoundedJson, toBoundedText } from '../../protocol/json.ts';
import type { Tool, ToolCallContext } from '../../protocol/tool.ts';
import type { ChildAnswer, ChildRuns } from '../child-runs.ts';
import { sleep } from '../host.ts';
import { type ServiceScope, Stopped } from '../service.ts';
import { type ChildOutcome, runChild } from './run-child.ts';

export type ToolBatchParts = {
  connectTools(): Promise<ReadonlyMap<string, Tool>>;
  concurrency: number;
  /** The first wait before a call is tried again, in ms; it doubles. */
  retryBaseMs: number;
  children: ChildRuns;
};

/** Longer outputs are journaled whole, and cut for the model, in characters. */
const LONGEST_SHOWN = 100_000;

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
  /** What of the input was not checked, for the model. */
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
      if (this.#scope.signal.aborted) return this.#keepEvidence(outcome);
      if (outcome.type === 'returned') return this.#settle(outcome.output);
      if (outcome.type === 'answered') return this.#settleAnswer(outcome.answer, outcome.spent);
      if (outcome.type === 'suspended') return this.#suspend(outcome.childRunId);
      if (outcome.type === 'unknown') return this.#doubt(outcome.reason);
      if (this.#isOnce) {
        if (outcome.type === 'threw') return this.#fail(messageOf(outcome.error));
        return await this.#reconcile(outcome.reason, () =>
          this.#fail(`${outcome.reason} It did not happen.`),
        );
      }
      if (failures >= tool.retries) {
        return this.#fail(outcome.type === 'threw' ? messageOf(outcome.error) : outcome.reason);
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
      if ('happened' in found && found.happened === true) return this.#settle(found.output);
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
      this.#refuse(`The agent has no tool "${this.call.name}" any more.`);
      return undefined;
    }
    const validation = await this.#tool.validate(this.call.input);
    if (validation.valid) {
      this.#unchecked = validation.unchecked;
      return { input: validation.value };
    }
    this.#refuse(`The arguments are not valid: ${validation.message}`);
    return undefined;
  }

  /** A call that cannot be started gets its result by way of a start that touches nothing. */
  #refuse(message: string): void {
    this.#reportStart();
    this.#fail(`${this.call.attempt > 0 ? 'Not run again' : 'Not run'}: ${message}`);
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
    if (outcome.type === 'lost' && timeout.signal.aborted) void called.then(rest => this.#keepEvidence(rest));
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

  #settleAnswer({ output, isError }: ChildAnswer, spent: Spent): void {
    this.#reportResult(output, isError, typeof output === 'string' ? output : JSON.stringify(output), spent);
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

  #settle(output: unknown): void {
    try {
      const text = toBoundedText(output);
      const value: JsonValue = JSON.parse(text);
      this.#reportResult(value, false, typeof value === 'string' ? value : text);
    } catch (error) {
      this.#fail(`The tool ran, but what it returned could not be recorded: ${messageOf(error)}`);
    }
  }

  /** `text`: the output as the model would read it. */
  #reportResult(output: JsonValue, isError: boolean, text: string, spent?: Spent): void {
    const shown = this.#showFor(text);
    const report = {
      ...({ type: 'tool.settled', callId: this.call.callId, output, isError } as const),
      ...(spent === undefined ? {} : { spent }),
    };
    this.#scope.report(shown === undefined ? report : { ...report, shown });
  }

  #showFor(text: string): string | undefined {
    const edited = findCall(this.#scope.context(), this.call.callId)?.edited === true;
    const unchecked = this.#unchecked === undefined ? '' : `[${this.#unchecked}]\n`;
    if (text.length <= LONGEST_SHOWN && !edited && unchecked === '') return undefined;
    const note =
      unchecked + (edited ? `[A person changed the input to ${JSON.stringify(this.call.input)}.]\n` : '');
    if (text.length <= LONGEST_SHOWN) return note + text;
    const cut = text.length - LONGEST_SHOWN;
    const kept = text.slice(0, LONGEST_SHOWN).replace(/[\ud800-\udbff]$/, '');
    return `${note}${kept}\n[${cut} more characters were left out. Ask for less at a time.]`;
  }

  #fail(message: string): void {
    this.#reportResult(message, true, message);
  }

  #doubt(reason: string): void {
    this.#scope.report({ type: 'tool.doubted', callId: this.call.callId, reason });
  }

  /** The batch was stopped while the tool ran: its outcome is reported if the chart still wants it, else kept. */
  #keepEvidence(outcome: Outcome): void {
    if (outcome.type !== 'returned') return;
    const { callId } = this.call;
    let output: JsonValue;
    try {
      output = toBoundedJson(outcome.output);
    } catch (error) {
      output = `The tool ran, but what it returned could not be recorded: ${messageOf(error)}`;
    }
    if (this.#scope.report({ type: 'tool.settled', callId, output, isError: false })) return;
    if (this.#isOnce) this.#scope.recordLate(callId, output, false);
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
