import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A word of the model; `gate`: the answer waits until the gate is opened; `hang`: it sends nothing more. */
type Step = string | { gate: true } | { hang: true } | { call: string };

export const GATE = { gate: true } as const;
export const HANG = { hang: true } as const;

/** A streaming Chat Completions server whose answers wait at gates. Each request plays the next script, or the last. */
export class GatedProvider {
  readonly #server: Server;
  #scripts: readonly (readonly Step[])[] = [[]];
  #gate = Promise.withResolvers<void>();
  /** The number of requests since `play`. */
  requests = 0;

  private constructor() {
    this.#server = createServer((request, response) => {
      request.resume();
      request.on('end', () => void this.#answer(response));
    });
  }

  static async listen(): Promise<GatedProvider> {
    const provider = new GatedProvider();
    await new Promise<void>(done => provider.#server.listen(0, '127.0.0.1', done));
    return provider;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  play(...scripts: (readonly Step[])[]): void {
    this.#scripts = scripts;
    this.requests = 0;
    this.#gate = Promise.withResolvers();
  }

  /** Lets everything through that waits at a gate, now and later. */
  open(): void {
    this.#gate.resolve();
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise(done => this.#server.close(done));
  }

  async #answer(response: ServerResponse): Promise<void> {
    const script = this.#scripts[Math.min(this.requests++, this.#scripts.length - 1)] ?? [];
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    let finish = 'stop';
    for (const step of script) {
      if (typeof step === 'string') write(response, { role: 'assistant', content: step }, null);
      else if ('hang' in step) return;
      else if ('gate' in step) await this.#gate.promise;
      else {
        finish = 'tool_calls';
        const call = {
          index: 0,
          id: 'call_1',
          type: 'function',
          function: { name: step.call, arguments: '{}' },
        };
        write(response, { role: 'assistant', tool_calls: [call] }, null);
      }
    }
    write(response, {}, finish);
    response.end('data: [DONE]\n\n');
  }
}

function write(response: ServerResponse, delta: object, finish_reason: string | null): void {
  const chunk = {
    id: 'x',
    object: 'chat.completion.chunk',
    model: 'any',
    choices: [{ index: 0, delta, finish_reason }],
  };
  response.write(`data: ${JSON.stringify(chunk)}\n\n`);
}
