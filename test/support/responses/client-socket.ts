import { WebSocket } from 'ws';
import type { JsonObject } from '../../../protocol/json.ts';
import type { WireEvent } from '../../../server/responses/response-writer.ts';

/** A WebSocket client that sends texts and reads events one by one. */
export class ClientSocket {
  readonly #socket: WebSocket;
  readonly #messages: WireEvent[] = [];
  #arrived = Promise.withResolvers<void>();
  /** Settles with the code when the connection is closed. */
  readonly closed: Promise<number>;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on('message', data => {
      this.#messages.push(JSON.parse(data.toString()));
      this.#arrived.resolve();
    });
    this.closed = new Promise(resolve => socket.on('close', resolve));
    void this.closed.then(() => this.#arrived.resolve());
  }

  /** Rejects with the status where the server refuses the upgrade. */
  static async open(url: string, headers: Record<string, string> = {}): Promise<ClientSocket> {
    const socket = new WebSocket(url.replace(/^http/, 'ws'), { headers });
    const client = new ClientSocket(socket);
    await new Promise((resolve, reject) => {
      socket.on('open', resolve);
      socket.on('unexpected-response', (_request, { statusCode }) =>
        reject(new Error(`status ${statusCode}`)),
      );
      socket.on('error', reject);
    });
    return client;
  }

  send(text: string): void {
    this.#socket.send(text);
  }

  /** The events of a request, up to its end or its error. */
  async create(body: object): Promise<WireEvent[]> {
    this.send(JSON.stringify({ type: 'response.create', ...body }));
    return await this.untilEnd();
  }

  async untilEnd(): Promise<WireEvent[]> {
    const events: WireEvent[] = [];
    for (;;) {
      const event = await this.next();
      events.push(event);
      if (/^(error|response\.(completed|failed|incomplete))$/.test(event.type)) return events;
    }
  }

  /** Rejects if the connection closes first. */
  async next(): Promise<WireEvent> {
    for (;;) {
      const message = this.#messages.shift();
      if (message !== undefined) return message;
      if (this.#socket.readyState === WebSocket.CLOSED) throw new Error('closed before the next event');
      this.#arrived = Promise.withResolvers();
      await this.#arrived.promise;
    }
  }

  /** Reads nothing more until the connection is closed. */
  stopReading(): void {
    this.#socket.pause();
  }

  close(): void {
    this.#socket.close();
  }
}

/** The error object of the last event. */
export function errorOf(events: readonly WireEvent[]): JsonObject {
  return events.at(-1)?.error as JsonObject;
}
