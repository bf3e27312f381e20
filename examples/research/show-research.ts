import { styleText } from 'node:util';
import {
  citationFilter,
  type Run,
  type RunHappening,
  type TextFilter,
  toolResults,
} from '../../agent/index.ts';
// In a project of your own: from 'agentchart'.
import { showSafely } from '../../cli/render/format.ts';
import { citations } from './tools.ts';

type Turn = Extract<RunHappening, { type: 'turn.completed' }>;

/**
 * Prints a run while it happens: each round of calls on a line, and the text as it streams, with citation markers
 * replaced by their numbers. `text` is the part of the answer printed so far.
 */
export class ResearchView {
  readonly #run: Run;
  #filter: TextFilter | null = null;
  text = '';

  constructor(run: Run) {
    this.#run = run;
  }

  /** Prints one event of the run. */
  take(happening: RunHappening): void {
    switch (happening.type) {
      case 'text.delta':
        this.#filter ??= citationFilter(toolResults(this.#run.context), citations);
        return this.#show(this.#filter.push(happening.text));
      case 'text.discarded':
        this.#filter = null;
        this.text = '';
        return note('The model call failed; retrying.');
      case 'turn.completed':
        this.#show(this.#filter?.end() ?? '');
        this.#filter = null;
        return noteCalls(happening);
      default:
        return;
    }
  }

  /** Prints the rest of the answer, or all of it if nothing was streamed. */
  finish(answer: string): void {
    if (answer.startsWith(this.text)) this.#show(answer.slice(this.text.length));
    else process.stdout.write(`\n\n${showSafely(answer, { lines: true })}`);
    process.stdout.write('\n\n');
  }

  #show(text: string): void {
    if (this.text === '' && text !== '') process.stdout.write('\n');
    this.text += text;
    process.stdout.write(showSafely(text, { lines: true }));
  }
}

/** Prints a status line. */
export function note(line: string): void {
  process.stdout.write(`${styleText('dim', `· ${showSafely(line)}`)}\n`);
}

function noteCalls({ calls }: Turn): void {
  for (const name of new Set(calls.map(call => call.name))) {
    const inputs = calls.filter(call => call.name === name).map(({ input }) => describeInput(input));
    note(`${name}${inputs.length > 1 ? ` ×${inputs.length}, in parallel` : ''}: ${inputs.join(', ')}`);
  }
}

function describeInput(input: unknown): string {
  const values = typeof input === 'object' && input !== null ? Object.values(input) : [input];
  return values.map(value => (typeof value === 'string' ? `“${value}”` : JSON.stringify(value))).join(' ');
}
