import { LineScanner } from './line-scanner.ts';

/**
 * One server-sent event. `event` is empty when the stream names none; `data` is the data lines joined by LF.
 */
export type SseEvent = { event: string; data: string };

/**
 * Yields the events of a `text/event-stream`, however its bytes are split. Comments, `id`, `retry` and blocks
 * without data are skipped. The last block does not need a blank line after it. `[DONE]` is yielded like any
 * other data.
 */
export async function* readSse(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<SseEvent, void, undefined> {
  const decoder = new TextDecoder();
  const scanner = new LineScanner();
  const block = new EventBlock();
  const lines: string[] = [];
  for await (const chunk of chunks) {
    scanner.push(decoder.decode(chunk, { stream: true }), lines);
    for (const line of lines) {
      const event = block.push(line);
      if (event) yield event;
    }
    lines.length = 0;
  }
  scanner.push(decoder.decode(), lines);
  for (const line of [...lines, scanner.rest(), '']) {
    const event = block.push(line);
    if (event) yield event;
  }
}

/** Whether the data is the `[DONE]` that OpenAI's streams end with, ignoring surrounding whitespace. */
export function isDone(data: string): boolean {
  return data.trim() === '[DONE]';
}

/** Whether the data has no content: it is blank or `[DONE]`. */
export function isBlank(data: string): boolean {
  return data.trim() === '' || isDone(data);
}

/** Collects the lines of one event until the blank line that ends it. */
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
