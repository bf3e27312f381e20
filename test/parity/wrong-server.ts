import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { JsonObject, JsonValue } from '../../protocol/json.ts';

/** A proxy in front of a Responses server that changes its answers and events on purpose. */
export class WrongServer {
  /** Changes each answer and each event. `null` passes them on. */
  change: ((value: JsonValue) => JsonValue) | null = null;
  /** Changes the order of the events of a stream. */
  reorder: ((events: JsonObject[]) => JsonObject[]) | null = null;
  /** Replaces the status of errors. */
  status: number | null = null;
  readonly #server: Server;

  private constructor(target: string) {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', chunk => chunks.push(chunk));
      request.on('end', async () => {
        const answer = await fetch(`${target}${request.url?.replace(/^\/v1/, '')}`, {
          method: request.method ?? 'GET',
          headers: { 'content-type': 'application/json' },
          ...(chunks.length === 0 ? {} : { body: Buffer.concat(chunks) }),
        });
        const type = answer.headers.get('content-type') ?? '';
        const text = await answer.text();
        response.writeHead(answer.status >= 400 ? (this.status ?? answer.status) : answer.status, {
          'content-type': type,
        });
        response.end(
          type.startsWith('text/event-stream') ? this.#changeStream(text) : this.#changeJson(text),
        );
      });
    });
  }

  static async listen(target: string): Promise<WrongServer> {
    const server = new WrongServer(target);
    await new Promise<void>(done => server.#server.listen(0, '127.0.0.1', done));
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise(done => this.#server.close(done));
  }

  #changeJson(text: string): string {
    return this.change === null ? text : JSON.stringify(this.change(JSON.parse(text)));
  }

  #changeStream(text: string): string {
    const events = [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data = '']) => {
      const event: JsonObject = JSON.parse(data);
      return (this.change?.(event) ?? event) as JsonObject;
    });
    const ordered = this.reorder?.(events) ?? events;
    return `${ordered.map(event => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('')}data: [DONE]\n\n`;
  }
}
