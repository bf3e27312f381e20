/** One server-sent event. `event` is empty when the stream names none; `data` is the data lines joined by LF. */
export type SseEvent = { event: string; data: string };

/** The events that each chunk of a body completes; none is empty. */
export type EventBatches = AsyncGenerator<readonly SseEvent[], void, undefined>;

/** The events of a `text/event-stream`, `[DONE]` included; the last block needs no blank line after it. */
export function readSse(chunks: AsyncIterable<Uint8Array>): EventBatches {
  const block = new EventBlock();
  return eventsIn(chunks, line => block.push(line));
}

/** Yields the lines of an `application/x-ndjson` stream as events without a name, without blank ones. */
export function readNdjson(chunks: AsyncIterable<Uint8Array>): EventBatches {
  return eventsIn(chunks, data => (data.trim() === '' ? undefined : { event: '', data }));
}

async function* eventsIn(
  chunks: AsyncIterable<Uint8Array>,
  take: (line: string) => SseEvent | undefined,
): EventBatches {
  const decoder = new TextDecoder();
  const scanner = new LineScanner();
  const takeAll = (lines: readonly string[]) => {
    const events: SseEvent[] = [];
    for (const line of lines) {
      const event = take(line);
      if (event) events.push(event);
    }
    return events;
  };
  const lines: string[] = [];
  for await (const chunk of chunks) {
    scanner.push(decoder.decode(chunk, { stream: true }), lines);
    const events = takeAll(lines);
    lines.length = 0;
    if (events.length > 0) yield events;
  }
  scanner.push(decoder.decode(), lines);
  const events = takeAll([...lines, scanner.rest(), '']);
  if (events.length > 0) yield events;
}

/** Whether the data is the `[DONE]` that OpenAI's streams end with, ignoring surrounding whitespace. */
export function isDone(data: string): boolean {
  return data.trim() === '[DONE]';
}

class EventBlock {
  #event = '';
  #data: string[] = [];

  push(line: string): SseEvent | undefined {
    if (line === '') return this.#take();
    if (line.startsWith('data:')) this.#data.push(valueAfter(line, 5));
    else if (line.startsWith('event:')) this.#event = valueAfter(line, 6);
    else if (line === 'data') this.#data.push('');
    return undefined;
  }

  #take(): SseEvent | undefined {
    const event = this.#event;
    this.#event = '';
    const [first, ...more] = this.#data;
    if (first === undefined) return undefined;
    const data = more.length === 0 ? first : this.#data.join('\n');
    this.#data.length = 0;
    return { event, data };
  }
}

function valueAfter(line: string, colon: number): string {
  return line.charCodeAt(colon) === SPACE ? line.slice(colon + 1) : line.slice(colon);
}

const SPACE = 32;

/**
 * Splits text that arrives in pieces into lines. Lines end with LF, CRLF or CR.
 *
 * L1 Every character is scanned once: a line that arrives in many pieces is joined when it ends.
 * L2 A CR ends its line immediately; an LF right after it, in this piece or the next, belongs to the same
 *    line end.
 */
export class LineScanner {
  #tail = '';
  #skipLineFeed = false;

  /** Appends the lines that `text` completes to `lines`, without their line ends. */
  push(text: string, lines: string[]): void {
    if (text === '') return;
    let start = 0;
    if (this.#skipLineFeed) {
      if (text.charCodeAt(0) === LINE_FEED) start = 1;
      this.#skipLineFeed = false;
    }
    let feed = text.indexOf('\n', start);
    let carriage = text.indexOf('\r', start);
    while (feed !== -1 || carriage !== -1) {
      const byFeed = carriage === -1 || (feed !== -1 && feed < carriage);
      const end = byFeed ? feed : carriage;
      lines.push(this.#tail === '' ? text.slice(start, end) : this.#tail + text.slice(start, end));
      this.#tail = '';
      start = end + 1;
      if (!byFeed) {
        if (start === text.length) this.#skipLineFeed = true;
        else if (text.charCodeAt(start) === LINE_FEED) start += 1;
        carriage = text.indexOf('\r', start);
      }
      if (feed !== -1 && feed < start) feed = text.indexOf('\n', start);
    }
    if (start < text.length) this.#tail += start === 0 ? text : text.slice(start);
  }

  rest(): string {
    return this.#tail;
  }
}

const LINE_FEED = 10;
