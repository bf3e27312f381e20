/**
 * Rendering: how the commands print runs, events, calls and reports.
 *
 * `Output` below is the only code that writes to stdout and stderr. `format.ts` turns values into text; the
 * `show-*` files print one thing each; `terminal-view.ts` shows a run while it is driven or followed.
 */
import { Console } from 'node:console';
import { once } from 'node:events';
import { styleText } from 'node:util';
import { EXIT } from '../exit-codes.ts';
import { formatSafeJson, showSafely } from './format.ts';

export type Style = 'bold' | 'dim' | 'inverse' | 'red' | 'green' | 'yellow' | 'cyan';
export type Segment = string | { style: Style; text: string };

const inStyle = (style: Style) => (text: string) => ({ style, text });
export const bold = inStyle('bold');
export const dim = inStyle('dim');
export const red = inStyle('red');
export const green = inStyle('green');
export const yellow = inStyle('yellow');
export const cyan = inStyle('cyan');

/**
 * Writes the output of a command to stdout and stderr.
 *
 * O1 With `json`, stdout gets only JSON Lines. Text for people, and the stdout of agent modules,
 *    goes to stderr.
 * O2 All text is escaped here (see `showSafely`). Colors are added afterwards, and only on a terminal.
 */
export class Output {
  readonly json: boolean;
  readonly isLive: boolean;
  readonly canAsk: boolean;
  readonly #people: NodeJS.WriteStream;
  readonly #colors: boolean;
  readonly #write: (text: string | Uint8Array) => boolean;
  #isMidLine = false;

  constructor({ json = false }: { json?: boolean | undefined }) {
    this.json = json;
    this.#people = json ? process.stderr : process.stdout;
    this.isLive = !json && process.stdout.isTTY === true;
    this.canAsk = this.isLive && process.stdin.isTTY === true;
    this.#colors = hasColors(this.#people);
    for (const stream of [process.stdout, process.stderr]) stream.on('error', reportLoss);
    this.#write = process.stdout.write.bind(process.stdout);
    if (json) divertStdout();
  }

  get columns(): number | undefined {
    return this.isLive ? process.stdout.columns : undefined;
  }

  line(...segments: Segment[]): void {
    this.endLine();
    this.#people.write(`${segments.map(segment => this.#render(segment)).join('')}\n`);
  }

  /** Returns a function that writes lines of a dimmed label, `width` characters wide, and a text. */
  facts(width: number): (label: string, text: string) => void {
    return (label, text) => this.line(dim(label.padEnd(width)), text);
  }

  stream(text: string): void {
    if (text === '') return;
    this.#people.write(showSafely(text, { lines: true }));
    this.#isMidLine = !text.endsWith('\n');
  }

  endLine(): void {
    if (this.#isMidLine) this.#people.write('\n');
    this.#isMidLine = false;
  }

  data(value: unknown): void {
    this.#write(`${formatSafeJson(value)}\n`);
  }

  /** Writes to stdout as it is, also with `json`; resolves once there is room for more, or no more is read. */
  async raw(text: string | Uint8Array): Promise<void> {
    if (process.stdout.destroyed || this.#write(text)) return;
    await once(process.stdout, 'drain').catch(reportLoss);
  }

  tell(value: object, ...segments: Segment[]): void {
    if (this.json) this.data(value);
    else this.line(...segments);
  }

  problem(message: string): void {
    this.endLine();
    process.stderr.write(`${showSafely(message, { lines: true })}\n`);
  }

  #render(segment: Segment): string {
    return renderSegment(segment, this.#colors);
  }
}

/** The text of a segment, safe for a terminal (O2), in its style if `colors` is set. */
export function renderSegment(segment: Segment, colors: boolean): string {
  if (typeof segment === 'string') return showSafely(segment);
  const text = showSafely(segment.text);
  return colors ? styleText(segment.style, text, { validateStream: false }) : text;
}

/** Whether a stream shows colors: it is a terminal, and `NO_COLOR` is not set. */
export function hasColors(stream: Pick<NodeJS.WriteStream, 'isTTY'>): boolean {
  return stream.isTTY === true && (process.env.NO_COLOR ?? '') === '';
}

/** Redirects all other writes to stdout, including `console.log`, to stderr. */
function divertStdout(): void {
  globalThis.console = new Console(process.stderr);
  process.stdout.write = process.stderr.write.bind(process.stderr);
}

let isReported = false;

/**
 * A stream that cannot be written must not end the run. EPIPE is no failure: the reader stopped reading, as in `| head`.
 * After any other error, such as of a full disk, what follows is lost, and the command fails in the end.
 */
function reportLoss(error: NodeJS.ErrnoException): void {
  if (error.code === 'EPIPE' || isReported) return;
  isReported = true;
  process.once('exit', code => {
    if (code === EXIT.done) process.exitCode = EXIT.failed;
  });
  process.stderr.write(`Cannot write all of the output: ${error.message}\n`);
}
