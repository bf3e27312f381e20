import { createInterface, type Interface } from 'node:readline/promises';
import { systemHost } from '../engine/driver/host.ts';
import type { CommandResult } from '../engine/run/explain-refusal.ts';
import type { Run } from '../engine/run/run.ts';
import type { OpenCall, Settled } from '../engine/run/settled.ts';
import { messageOf } from '../protocol/error.ts';
import type { JsonValue } from '../protocol/json.ts';
import { parseJson } from './options.ts';
import type { Output } from './render/output.ts';
import { HEADINGS, showCall } from './render/show-call.ts';

type Asking = { run: Run; output: Output; by: string; after: number };
type Decision = () => Promise<CommandResult>;
type Waiting = Extract<Settled, { status: 'waiting' }>;

/**
 * Asks at the terminal about everything the run waits for, then tells the run. Gives whether the run
 * goes on: something was decided here, or somewhere else meanwhile, which ends the questions. `q`, Ctrl-C
 * and the end of input leave the rest waiting. `after` is the last entry that was shown.
 */
export async function askAbout({ run, output, by, after }: Asking, settled: Waiting): Promise<boolean> {
  const terminal = new Questions(output);
  const elsewhere = watchFor(run, after, () => terminal.stop());
  const decisions: Decision[] = [];
  const results = settled.results.filter(({ waitsFor }) => waitsFor === undefined);
  try {
    for (const call of settled.approvals) decisions.push(await askApproval(terminal, run, call, by));
    for (const call of settled.doubts) decisions.push(await askDoubt(terminal, run, call, by));
    for (const call of results) decisions.push(await askResult(terminal, run, call, by));
    if (settled.paused && decisions.length === 0) decisions.push(await askPaused(terminal, run));
  } catch (error) {
    if (!(error instanceof Quit)) throw error;
  } finally {
    terminal.close();
    elsewhere.end();
  }
  if (elsewhere.happened && decisions.length === 0) {
    output.line({ style: 'yellow', text: 'Somebody else said something; the run goes on.' });
  }
  for (const decision of decisions) {
    const result = await decision();
    if (!result.accepted) output.problem(result.message);
  }
  return decisions.length > 0 || elsewhere.happened;
}

/** Looks for what others append to the run's journal behind `after`. */
function watchFor(run: Run, after: number, tell: () => void) {
  const happenings = run.events({ after, follow: true })[Symbol.asyncIterator]();
  const watch = {
    happened: false,
    end: () => void happenings.return?.(),
  };
  const poll = async () => {
    for (let next = await happenings.next(); next.done !== true; next = await happenings.next()) {
      if (!('seq' in next.value)) continue;
      watch.happened = true;
      return tell();
    }
  };
  poll().catch(() => {});
  return watch;
}

async function askApproval(terminal: Questions, run: Run, call: OpenCall, by: string): Promise<Decision> {
  const { callId, digest, runId } = call;
  terminal.show(call, HEADINGS.approval);
  const choice = await terminal.choose('[a]pprove  [r]eject  [q]uit', ['a', 'r']);
  if (choice === 'a') return () => run.approve(callId, { digest, runId, by });
  const reason = await terminal.ask('reason, for the model (may be empty): ');
  return () => run.reject(callId, { digest, runId, by, ...(reason === '' ? {} : { reason }) });
}

async function askDoubt(terminal: Questions, run: Run, call: OpenCall, by: string): Promise<Decision> {
  const { callId, runId } = call;
  terminal.show(call, HEADINGS.doubt);
  const choice = await terminal.choose('[t]ry again  [h]appened  [f]ailed  [q]uit', ['t', 'h', 'f']);
  if (choice === 't') return () => run.resolve(callId, { retry: true, runId, by });
  if (choice === 'h') {
    const output = await terminal.askJson('what it gave, as JSON: ');
    return () => run.resolve(callId, { happened: true, output, runId, by });
  }
  const failed = await terminal.ask('why, for the model: ');
  return () => run.resolve(callId, { failed, runId, by });
}

async function askResult(terminal: Questions, run: Run, call: OpenCall, by: string): Promise<Decision> {
  const { callId, digest, runId } = call;
  terminal.show(call, HEADINGS.result);
  const output = await terminal.askJson('its result, as JSON ([q]uit leaves it waiting): ');
  return () => run.answer(callId, { output, digest, runId, by });
}

async function askPaused(terminal: Questions, run: Run): Promise<Decision> {
  const choice = await terminal.choose('paused: [s]tep  [u]npause  [q]uit', ['s', 'u']);
  return () => (choice === 's' ? run.step() : run.unpause());
}

/** Thrown by a question that was not answered. */
class Quit extends Error {}

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

  /** Ends the question that is being asked, and all that would come. */
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

  async choose(question: string, choices: readonly string[]): Promise<string> {
    for (;;) {
      const answer = (await this.ask(`${question}: `)).slice(0, 1).toLowerCase();
      if (answer === 'q') throw new Quit();
      if (choices.includes(answer)) return answer;
    }
  }

  async askJson(question: string): Promise<JsonValue> {
    for (;;) {
      const answer = await this.ask(question);
      if (answer === 'q') throw new Quit();
      try {
        return parseJson(answer, 'this');
      } catch (error) {
        this.#output.problem(messageOf(error));
      }
    }
  }

  close(): void {
    this.#lines.close();
  }
}
