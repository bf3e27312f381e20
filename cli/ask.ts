import { createInterface, type Interface } from 'node:readline/promises';
import { systemHost } from '../engine/driver/host.ts';
import type { CommandResult } from '../engine/run/explain-refusal.ts';
import type { Run } from '../engine/run/run.ts';
import type { OpenCall, Settled } from '../engine/run/settled.ts';
import { messageOf } from '../protocol/error.ts';
import { type JsonValue, omitUndefined } from '../protocol/json.ts';
import type { Output } from './render/output.ts';
import { HEADINGS, showCall } from './render/show-call.ts';

type Asking = { run: Run; output: Output; by: string; after: number };
type Decision = () => Promise<CommandResult>;
type Waiting = Extract<Settled, { status: 'waiting' }>;

/**
 * Asks on the terminal about every open call, then submits the decisions. Returns whether the run resumes:
 * because a decision was made here, or because new entries after `after` show that another client made one,
 * which ends the questions. `q`, Ctrl-C and the end of input leave the remaining calls open.
 */
export async function askForDecisions(
  { run, output, by, after }: Asking,
  settled: Waiting,
): Promise<boolean> {
  const terminal = new Questions(output);
  const elsewhere = watchForEntries(run, after, () => terminal.stop());
  const decisions: Decision[] = [];
  try {
    for (const open of settled.open)
      if (open.kind !== 'pause') decisions.push(await ASK[open.kind](terminal, run, open, by));
    if (settled.paused && decisions.length === 0) decisions.push(await askPaused(terminal, run));
  } catch (error) {
    if (!(error instanceof Quit)) throw error;
  } finally {
    terminal.close();
    elsewhere.stop();
  }
  if (elsewhere.found && decisions.length === 0) {
    output.line({ style: 'yellow', text: 'Resolved elsewhere; resuming.' });
  }
  for (const decision of decisions) {
    const result = await decision();
    if (!result.accepted) output.problem(result.message);
  }
  return decisions.length > 0 || elsewhere.found;
}

/** Calls `onEntry` once another client has appended an entry after `after`. */
function watchForEntries(run: Run, after: number, onEntry: () => void) {
  const happenings = run.events({ after, follow: true })[Symbol.asyncIterator]();
  const watch = { found: false, stop: () => void happenings.return?.() };
  const poll = async () => {
    for (let next = await happenings.next(); next.done !== true; next = await happenings.next()) {
      if (!('seq' in next.value)) continue;
      watch.found = true;
      return onEntry();
    }
  };
  poll().catch(() => {});
  return watch;
}

async function askApproval(terminal: Questions, run: Run, call: OpenCall, by: string): Promise<Decision> {
  const { callId, digest, runId } = call;
  terminal.show(call, HEADINGS.approval);
  const choice = await terminal.choose('[a]pprove  [r]eject  [q]uit', ['approve', 'reject', 'yes']);
  if (choice !== 'reject') return () => run.approve(callId, { digest, runId, by });
  const reason = await terminal.ask('reason for the model (optional): ');
  return () =>
    run.reject(callId, {
      digest,
      runId,
      by,
      ...omitUndefined({ reason: reason === '' ? undefined : reason }),
    });
}

async function askDoubt(terminal: Questions, run: Run, call: OpenCall, by: string): Promise<Decision> {
  const { callId, runId } = call;
  terminal.show(call, HEADINGS.doubt);
  const choice = await terminal.choose('[t]ry again  [h]appened  [f]ailed  [q]uit', [
    'try again',
    'happened',
    'failed',
  ]);
  if (choice === 'try again') return () => run.resolve(callId, { retry: true, runId, by });
  if (choice === 'happened') {
    const output = await terminal.askJson('result (JSON): ');
    return () => run.resolve(callId, { happened: true, output, runId, by });
  }
  const failed = await terminal.ask('reason for the model: ');
  return () => run.resolve(callId, { failed, runId, by });
}

async function askResult(terminal: Questions, run: Run, call: OpenCall, by: string): Promise<Decision> {
  const { callId, digest, runId } = call;
  terminal.show(call, HEADINGS.result);
  const output = await terminal.askJson('result (JSON), or [q]uit: ');
  return () => run.answer(callId, { output, digest, runId, by });
}

const ASK = { approval: askApproval, doubt: askDoubt, result: askResult } as const;

async function askPaused(terminal: Questions, run: Run): Promise<Decision> {
  const choice = await terminal.choose('paused: [s]tep  [u]npause  [q]uit', ['step', 'unpause']);
  return () => (choice === 'step' ? run.step() : run.unpause());
}

/** Thrown when the person quits instead of answering. */
class Quit extends Error {}

/** Prompts on stdin and stdout. Each question throws `Quit` when the person quits or `stop` is called. */
class Questions {
  readonly #output: Output;
  readonly #lines: Interface;
  readonly #abort = new AbortController();

  constructor(output: Output) {
    this.#output = output;
    this.#lines = createInterface({ input: process.stdin, output: process.stdout });
    this.#lines.once('SIGINT', () => this.#abort.abort());
    this.#lines.once('close', () => this.#abort.abort());
  }

  /** Aborts the current question and all later ones. */
  stop(): void {
    this.#abort.abort();
  }

  show(call: OpenCall, heading: string): void {
    showCall(this.#output, call, heading, systemHost.now());
  }

  async ask(question: string): Promise<string> {
    try {
      return (await this.#lines.question(question, { signal: this.#abort.signal })).trim();
    } catch {
      process.stdout.write('\n');
      throw new Quit();
    }
  }

  /** Asks until the answer is one of the choices, or its first letter. */
  async choose(question: string, choices: readonly string[]): Promise<string> {
    for (;;) {
      const answer = (await this.ask(`${question}: `)).toLowerCase();
      if (answer === 'q' || answer === 'quit') throw new Quit();
      const choice = choices.find(one => answer === one || answer === one[0]);
      if (choice !== undefined) return choice;
    }
  }

  async askJson(question: string): Promise<JsonValue> {
    for (;;) {
      const answer = await this.ask(question);
      if (answer === 'q') throw new Quit();
      try {
        return JSON.parse(answer);
      } catch (error) {
        this.#output.problem(`Not valid JSON: ${messageOf(error)}`);
      }
    }
  }

  close(): void {
    this.#lines.close();
  }
}
