import { createInterface, type Interface } from 'node:readline/promises';
import { systemHost } from '../engine/host/host.ts';
import type { Open } from '../engine/log/settled.ts';
import type { Run } from '../engine/run/run.ts';
import { messageOf } from '../protocol/error.ts';
import type { JsonObject, JsonValue } from '../protocol/json.ts';
import { type Answer, type AnswerCommand, commandFor } from '../protocol/open/answer.ts';
import { isOpenItem, type OpenItem } from '../protocol/run-view.ts';
import { describeCoded } from './exit-codes.ts';
import type { Sender } from './options.ts';
import { type Output, yellow } from './render/output.ts';
import { HEADINGS, showOpen } from './render/show-open.ts';

type Asking = { run: Run; output: Output; sender: Sender; after: number };

/**
 * Asks on the terminal about every open call of `waiting`, then submits the answers. Returns whether the run resumes:
 * because an answer was given here, or because new entries after `after` show that another client made one,
 * which ends the questions. `q`, Ctrl-C and the end of input leave the remaining calls open.
 */
export async function askForDecisions(
  { run, output, sender, after }: Asking,
  waiting: readonly Open[],
): Promise<boolean> {
  const terminal = new Questions(output);
  const elsewhere = watchForEntries(run, after, () => terminal.stop());
  const calls = waiting.filter(({ kind }) => kind !== 'pause');
  const asked = calls.length > 0 ? calls : waiting.slice(0, 1);
  const commands: AnswerCommand[] = [];
  try {
    for (const open of asked) commands.push({ ...commandFor(open, await ask(terminal, open)), ...sender });
  } catch (error) {
    if (!(error instanceof Quit)) throw error;
  } finally {
    terminal.close();
    elsewhere.stop();
  }
  if (elsewhere.found && commands.length === 0) {
    output.line(yellow('Resolved elsewhere; resuming.'));
  }
  for (const command of commands) {
    const result = await run.submit([command]);
    if (!result.accepted) output.problem(describeCoded(result));
  }
  return commands.length > 0 || elsewhere.found;
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

async function ask(terminal: Questions, open: Open): Promise<Answer> {
  if (isOpenItem(open)) terminal.show(open, HEADINGS[open.kind]);
  switch (open.kind) {
    case 'approval': {
      const choice = await terminal.choose('[a]pprove  [r]eject  [q]uit', ['approve', 'reject', 'yes']);
      if (choice !== 'reject') return { type: 'approve' };
      const reason = await terminal.ask('reason for the model (optional): ');
      return { type: 'reject', ...(reason !== '' && { reason }) };
    }
    case 'review': {
      const choices = ['approve', 'edit', 'send back', 'yes'];
      const choice = await terminal.choose('[a]pprove  [e]dit  [s]end back  [q]uit', choices);
      if (choice === 'edit') return { type: 'approve', answer: await terminal.ask('answer in its place: ') };
      if (choice !== 'send back') return { type: 'approve' };
      const reason = await terminal.ask('remark for the model (optional): ');
      return { type: 'reject', ...(reason !== '' && { reason }) };
    }
    case 'doubt': {
      const choices = ['try again', 'happened', 'failed'];
      const choice = await terminal.choose('[t]ry again  [h]appened  [f]ailed  [q]uit', choices);
      if (choice === 'try again') return { type: 'retry' };
      if (choice === 'happened')
        return { type: 'happened', output: await terminal.askJson('result (JSON): ') };
      return { type: 'failed', reason: await terminal.ask('reason for the model: ') };
    }
    case 'question': {
      const choice = await terminal.choose('[a]nswer  [d]ecline  [q]uit', ['answer', 'decline']);
      if (choice === 'decline') {
        const reason = await terminal.ask('reason for the model (optional): ');
        return { type: 'reject', ...(reason !== '' && { reason }) };
      }
      const answers: Record<string, JsonValue> = {};
      for (const { key, schema } of open.questions) {
        const value = await terminal.askValue(key, schema);
        if (value !== undefined) answers[key] = value;
      }
      if (Object.keys(answers).length === 0) throw new Quit();
      return { type: 'answers', answers };
    }
    case 'result':
      return { type: 'result', output: await terminal.askJson('result (JSON), or [q]uit: ') };
    case 'sign-in': {
      terminal.tell(`${open.reason} Use: agentchart mcp login ${open.server} --agent MODULE`);
      await terminal.choose('[s]igned in  [q]uit', ['signed in']);
      return { type: 'signed-in' };
    }
    case 'pause': {
      const choice = await terminal.choose('paused: [s]tep  [u]npause  [q]uit', ['step', 'unpause']);
      return { type: choice === 'step' ? 'step' : 'continue' };
    }
  }
}

const FORMS: Readonly<Record<string, string>> = {
  boolean: 'yes or no',
  number: 'a number',
  integer: 'a number',
};

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

  stop(): void {
    this.#abort.abort();
  }

  tell(text: string): void {
    this.#output.line(text);
  }

  show(open: OpenItem, heading: string): void {
    showOpen(this.#output, open, heading, systemHost.now());
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

  /** A value for a question of a tool; `undefined` for an empty line, which leaves it open. */
  async askValue(key: string, { type, enum: choices }: JsonObject): Promise<JsonValue | undefined> {
    const texts = Array.isArray(choices) ? choices.filter(one => typeof one === 'string') : [];
    const isText = type === 'string' || (texts.length > 0 && texts.length === (choices as unknown[]).length);
    const form = texts.length > 0 ? texts.join(', ') : FORMS[String(type)];
    for (;;) {
      const answer = await this.ask(`${key}${isText && texts.length === 0 ? '' : ` (${form ?? 'JSON'})`}: `);
      if (answer === '') return undefined;
      if (isText) return answer;
      if (type === 'boolean' && /^(y|yes|n|no)$/i.test(answer)) return /^y/i.test(answer);
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
