import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { JsonObject } from '../../../protocol/json.ts';

/** An HTTP endpoint for web searches, with what it was asked. */
export class SearchEndpoint {
  asked: { body: JsonObject; headers: IncomingHttpHeaders }[] = [];
  /** The answer: its status and its body; `null`: there is none. */
  answer: { status: number; body: string } | null = { status: 200, body: '{"results":[]}' };
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', chunk => chunks.push(chunk));
      request.on('end', () => {
        this.asked.push({ body: JSON.parse(Buffer.concat(chunks).toString()), headers: request.headers });
        if (this.answer === null) return;
        response.writeHead(this.answer.status, { 'content-type': 'application/json' });
        response.end(this.answer.body);
      });
    });
  }

  static async listen(): Promise<SearchEndpoint> {
    const endpoint = new SearchEndpoint();
    await new Promise<void>(done => endpoint.#server.listen(0, '127.0.0.1', done));
    return endpoint;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/search`;
  }

  /** Answers with these results from now on. */
  find(...results: JsonObject[]): void {
    this.answer = { status: 200, body: JSON.stringify({ results }) };
    this.asked = [];
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise(done => this.#server.close(done));
  }
}
