import { Console } from 'node:console';
import { styleText } from 'node:util';
import { formatSafeJson, showSafely } from './show-safely.ts';

export type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan';
export type Segment = string | { style: Style; text: string };

export type OutputOptions = { json: boolean };

/**
 * Where a command's words go.
 *
 * O1 Under `json`, stdout has JSON lines and nothing else: people's text, and whatever agent modules write
 *    there, go to stderr.
 * O2 Every text is made safe here, whoever wrote it; colours are added after, and only on a terminal.
 */
export class Output {
  readonly json: boolean;
  /** A person watches: text is shown as it comes, in colours. */
  readonly isLive: boolean;
  /** A person can be asked. */
  readonly canAsk: boolean;
  readonly #people: NodeJS.WriteStream;
  readonly #colours: boolean;
  readonly #write: (text: string) => boolean;
  #isMidLine = false;

  constructor({ json }: OutputOptions) {
    this.json = json;
    this.#people = json ? process.stderr : process.stdout;
    this.isLive = !json && process.stdout.isTTY === true;
    this.canAsk = this.isLive && process.stdin.isTTY === true;
    this.#colours = this.#people.isTTY === true && (process.env.NO_COLOR ?? '') === '';
    for (const stream of [process.stdout, process.stderr]) stream.on('error', ignoreClosedPipe);
    this.#write = process.stdout.write.bind(process.stdout);
    if (json) divertStdout();
  }

  line(...segments: Segment[]): void {
    this.endLine();
    this.#people.write(`${this.render(segments)}\n`);
  }

  /** Text that goes on where the last one ended. */
  stream(text: string): void {
    if (text === '') return;
    this.#people.write(showSafely(text, { lines: true }));
    this.#isMidLine = !text.endsWith('\n');
  }

  endLine(): void {
    if (this.#isMidLine) this.#people.write('\n');
    this.#isMidLine = false;
  }

  /** One JSON line on stdout. */
  data(value: unknown): void {
    this.#write(`${formatSafeJson(value)}\n`);
  }

  /** What went wrong, on stderr. */
  problem(message: string): void {
    this.endLine();
    process.stderr.write(`${showSafely(message, { lines: true })}\n`);
  }

  render(segments: readonly Segment[]): string {
    return segments.map(segment => this.#renderSegment(segment)).join('');
  }

  #renderSegment(segment: Segment): string {
    if (typeof segment === 'string') return showSafely(segment);
    const text = showSafely(segment.text);
    return this.#colours ? styleText(segment.style, text, { validateStream: false }) : text;
  }
}

/** From here on, what is written to stdout by anybody else comes out on stderr. */
function divertStdout(): void {
  globalThis.console = new Console(process.stderr);
  process.stdout.write = process.stderr.write.bind(process.stderr);
}

/** A reader that went away, as in `| head`, ends the showing, not the run. */
function ignoreClosedPipe(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error;
}
