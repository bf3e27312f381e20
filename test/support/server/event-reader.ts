import { parseEvents, type SentEvent } from './runs-app.ts';

/** Reads server-sent events of a response until `isDone` says so of all that came, or the stream ends. */
export class EventReader {
  readonly events: SentEvent[] = [];
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #decoder = new TextDecoder();
  #text = '';

  constructor({ body }: Response) {
    if (body === null) throw new Error('no body');
    this.#reader = body.getReader();
  }

  async until(isDone: (events: readonly SentEvent[]) => boolean): Promise<SentEvent[]> {
    while (!isDone(this.events)) {
      const { done, value } = await this.#reader.read();
      if (done) break;
      this.#text += this.#decoder.decode(value, { stream: true });
      const end = this.#text.lastIndexOf('\n\n');
      if (end === -1) continue;
      this.events.push(...parseEvents(this.#text.slice(0, end + 2)));
      this.#text = this.#text.slice(end + 2);
    }
    return this.events;
  }

  async close(): Promise<void> {
    await this.#reader.cancel();
  }
}
