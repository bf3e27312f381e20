import { styleText } from 'node:util';
// In a project of your own: from 'agentchart'.
import { showSafely } from '../../cli/render/show-safely.ts';
import {
  citationFilter,
  type Run,
  type RunHappening,
  type TextFilter,
  toolResults,
} from '../../tools/agent/index.ts';
import { citations } from './tools.ts';

type Turn = Extract<RunHappening, { type: 'turn.completed' }>;

/**
 * Shows a run as it goes: each round of calls on a line, and the text as it comes, its markers as the
 * numbers they will have. `text` is what was shown of the answer.
 */
export class ResearchView {
  readonly #run: Run;
  #filter: TextFilter | null = null;
  text = '';

  constructor(run: Run) {
    this.#run = run;
  }

  take(happening: RunHappening): void {
    switch (happening.type) {
      case 'text.delta':
        this.#filter ??= citationFilter(toolResults(this.#run.context), citations);
        return this.#show(this.#filter.push(happening.text));
      case 'text.discarded':
        this.#filter = null;
        this.text = '';
        return note('the model failed in the middle; it begins again');
      case 'turn.completed':
        this.#show(this.#filter?.end() ?? '');
        this.#filter = null;
        return noteCalls(happening);
      default:
        return;
    }
  }

  /** What the answer has that was not shown yet: all of it where nothing was streamed. */
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

/** A line about what goes on, rather than of the answer. */
export function note(line: string): void {
  process.stdout.write(`${styleText('dim', `· ${showSafely(line)}`)}\n`);
}

function noteCalls({ calls }: Turn): void {
  for (const name of new Set(calls.map(call => call.name))) {
    const inputs = calls.filter(call => call.name === name).map(({ input }) => describeInput(input));
    note(
      `${name} ${inputs.length > 1 ? `×${inputs.length}, at once` : ''}: ${inputs.join(', ')}`.replace(
        ' :',
        ':',
      ),
    );
  }
}

function describeInput(input: unknown): string {
  const values = typeof input === 'object' && input !== null ? Object.values(input) : [input];
  return values.map(value => (typeof value === 'string' ? `“${value}”` : JSON.stringify(value))).join(' ');
}
