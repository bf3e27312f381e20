import type { WireEvent } from '../../../server/responses/response-writer.ts';

/** Reads a stream of server-sent events step by step. */
export class EventReader {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #decoder = new TextDecoder();
  #text = '';
  /** All events that were read. */
  readonly events: WireEvent[] = [];
  /** Whether `[DONE]` was read. */
  isDone = false;

  constructor(response: Response) {
    if (response.status !== 200 || response.body === null) throw new Error(`status ${response.status}`);
    this.#reader = response.body.getReader();
  }

  /** The events that were not read before, up to the first for which `isLast` holds, or up to the end. */
  async until(isLast: (event: WireEvent) => boolean): Promise<WireEvent[]> {
    const read: WireEvent[] = [];
    for (;;) {
      const event = await this.#next();
      if (event === undefined) return read;
      read.push(event);
      this.events.push(event);
      if (isLast(event)) return read;
    }
  }

  async untilEnd(): Promise<WireEvent[]> {
    return await this.until(() => false);
  }

  /** Leaves, as a client whose connection is gone. */
  async leave(): Promise<void> {
    await this.#reader.cancel();
  }

  async #next(): Promise<WireEvent | undefined> {
    for (;;) {
      const end = this.#text.indexOf('\n\n');
      if (end === -1) {
        const { done, value } = await this.#reader.read();
        if (done) {
          if (this.#text !== '') throw new Error(`a torn frame: ${this.#text}`);
          return undefined;
        }
        this.#text += this.#decoder.decode(value, { stream: true });
        continue;
      }
      const frame = this.#text.slice(0, end);
      this.#text = this.#text.slice(end + 2);
      if (frame.startsWith(':')) continue;
      const [, data = ''] = /^data: (.+)$/m.exec(frame) ?? [];
      if (data === '[DONE]') this.isDone = true;
      else return JSON.parse(data) as WireEvent;
    }
  }
}

/** Whether an event is a text delta with this text. */
export function saying(text: string): (event: WireEvent) => boolean {
  return ({ type, delta }) => type === 'response.output_text.delta' && delta === text;
}

/** The id of the response that an event announces. */
export function idOf(event: WireEvent | undefined): string {
  return (event?.response as { id: string } | undefined)?.id ?? '';
}
