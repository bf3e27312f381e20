import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { isJsonObject, type JsonObject } from '../../../protocol/json.ts';

/** The words of the model, and the number of words after which each attempt's stream breaks off. Later attempts are complete. */
export type CutScript = {
  words: readonly string[];
  cuts: readonly number[];
  /** The calls of the first turn. The words follow after a result. */
  calls?: readonly { name: string; arguments: JsonObject }[];
};

/** A streaming Chat Completions server that closes connections in the middle of a text. */
export class CutProvider {
  readonly #server: Server;
  #script: CutScript = { words: [], cuts: [] };
  #attempt = 0;
  #body: JsonObject = {};

  private constructor() {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', chunk => chunks.push(chunk));
      request.on('end', () => {
        this.#body = JSON.parse(Buffer.concat(chunks).toString());
        const { words, cuts, calls = [] } = this.#script;
        const cut = cuts[this.#attempt++] ?? Infinity;
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        const say = (delta: JsonObject, finish: string | null) =>
          response.write(
            `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', model: 'any', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`,
          );
        if (calls.length > 0 && !JSON.stringify(this.#body).includes('"role":"tool"')) {
          const tool_calls = calls.map(({ name, arguments: input }, index) => ({
            index,
            id: `call_${index}`,
            type: 'function',
            function: { name, arguments: JSON.stringify(input) },
          }));
          say({ role: 'assistant', tool_calls }, 'tool_calls');
          return response.end('data: [DONE]\n\n');
        }
        for (const word of words.slice(0, cut)) say({ role: 'assistant', content: `${word} ` }, null);
        if (cut <= words.length) return response.write(':', () => setImmediate(() => response.destroy()));
        say({}, 'stop');
        return response.end('data: [DONE]\n\n');
      });
    });
  }

  static async listen(): Promise<CutProvider> {
    const provider = new CutProvider();
    await new Promise<void>(done => provider.#server.listen(0, '127.0.0.1', done));
    return provider;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  play(script: CutScript): void {
    this.#script = script;
    this.#attempt = 0;
  }

  /** The body of the last request. */
  get body(): JsonObject {
    return this.#body;
  }

  /** The messages of the last request. */
  get messages(): JsonObject[] {
    const { messages } = this.#body;
    return Array.isArray(messages) ? messages.filter(isJsonObject) : [];
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise(done => this.#server.close(done));
  }
}
