import { hasColors, renderSegment, type Segment } from '../render/output.ts';
import { type Key, KeyReader } from './keys.ts';

export type Line = readonly Segment[];
export type Size = { columns: number; rows: number };

type Input = NodeJS.EventEmitter &
  Pick<NodeJS.ReadStream, 'resume' | 'pause' | 'setEncoding' | 'setRawMode' | 'isRaw'>;
type Drawn = NodeJS.EventEmitter & Pick<NodeJS.WriteStream, 'write' | 'columns' | 'rows' | 'isTTY'>;

/** The alternate screen, without a cursor and without automatic breaks of lines; pastes come with marks around them. */
const ENTER = '\u001b[?1049h\u001b[?25l\u001b[?7l\u001b[?2004h';
const LEAVE = '\u001b[?2004l\u001b[?7h\u001b[?25h\u001b[?1049l';
const CLEAR = '\u001b[2J';

/** What a terminal without a size has. */
const DEFAULT_SIZE = { columns: 80, rows: 24 };

/**
 * A terminal's whole screen, and its keys.
 *
 * S1 However the process ends, unless it is killed, the terminal is as it was before `enter`.
 * S2 Texts are escaped (`renderSegment`), and a line that is as wide as the terminal or less never breaks.
 */
export class Screen {
  readonly #input: Input;
  readonly #output: Drawn;
  readonly #listen: { key(key: Key): void; resize(): void; end(): void };
  readonly #keys = new KeyReader();
  #isEntered = false;
  #shown: readonly string[] = [];

  constructor(
    { input, output }: { input: Input; output: Drawn },
    listen: { key(key: Key): void; resize(): void; end(): void },
  ) {
    this.#input = input;
    this.#output = output;
    this.#listen = listen;
  }

  get size(): Size {
    const { columns, rows } = this.#output;
    return { columns: columns || DEFAULT_SIZE.columns, rows: rows || DEFAULT_SIZE.rows };
  }

  enter(): void {
    if (this.#isEntered) return;
    this.#isEntered = true;
    this.#shown = [];
    this.#input.setEncoding('utf8');
    this.#input.setRawMode(true);
    this.#input.on('data', this.#read).on('end', this.#listen.end);
    this.#input.resume();
    this.#output.on('resize', this.#resize);
    this.#output.write(ENTER + CLEAR);
    process.on('exit', this.leave).on('uncaughtExceptionMonitor', this.leave);
  }

  readonly leave = (): void => {
    if (!this.#isEntered) return;
    this.#isEntered = false;
    process.off('exit', this.leave).off('uncaughtExceptionMonitor', this.leave);
    this.#output.off('resize', this.#resize);
    this.#input.off('data', this.#read).off('end', this.#listen.end);
    this.#input.setRawMode(false);
    this.#input.pause();
    this.#output.write(LEAVE);
  };

  /** Shows the lines; writes only those that differ from what is shown. */
  draw(lines: readonly Line[]): void {
    if (!this.#isEntered) return;
    const colors = hasColors(this.#output);
    const texts = lines
      .slice(0, this.size.rows)
      .map(line => line.map(segment => renderSegment(segment, colors)).join(''));
    const changed = texts.flatMap((text, row) =>
      text === this.#shown[row] ? [] : [`\u001b[${row + 1};1H${text}\u001b[K`],
    );
    const rest = texts.length < this.#shown.length ? [`\u001b[${texts.length + 1};1H\u001b[J`] : [];
    this.#shown = texts;
    if (changed.length + rest.length > 0) this.#output.write([...changed, ...rest].join(''));
  }

  readonly #read = (chunk: string): void => {
    for (const key of this.#keys.read(chunk)) if (this.#isEntered) this.#listen.key(key);
  };

  readonly #resize = (): void => {
    this.#shown = [];
    this.#output.write(CLEAR);
    this.#listen.resize();
  };
}
