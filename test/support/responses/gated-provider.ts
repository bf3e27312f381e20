import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * A word of the model; `gate`: the answer waits until the gate is opened; `hang`: it sends nothing more; `status`: it is
 * this error; `silent`: an event without content.
 */
type Step =
  | string
  | { gate: true }
  | { hang: true }
  | { silent: true }
  | { call: string }
  | { status: number; headers?: Record<string, string>; body?: object };

export const GATE = { gate: true } as const;
export const HANG = { hang: true } as const;

/** A streaming Chat Completions server whose answers wait at gates. Each request plays the next script, or the last. */
export class GatedProvider {
  readonly #server: Server;
  #scripts: readonly (readonly Step[])[] = [[]];
  #gate = Promise.withResolvers<void>();
  #changed = Promise.withResolvers<void>();
  /** The number of requests since `play`, and of those whose connection was closed before their answer was complete. */
  requests = 0;
  left = 0;

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
    this.left = 0;
    this.#gate = Promise.withResolvers();
  }

  /** Resolves once there are so many requests. */
  async asked(count = 1): Promise<void> {
    while (this.requests < count) await this.#changed.promise;
  }

  /** Resolves once so many connections were closed early. */
  async wasLeft(count = 1): Promise<void> {
    while (this.left < count) await this.#changed.promise;
  }

  #tell(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
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
    response.on('close', () => {
      if (!response.writableEnded) this.left += 1;
      this.#tell();
    });
    this.#tell();
    let finish = 'stop';
    for (const step of script) {
      if (typeof step === 'object' && 'status' in step) {
        const { status, headers, body = { error: { message: 'No.' } } } = step;
        response.writeHead(status, { 'content-type': 'application/json', ...headers });
        response.end(JSON.stringify(body));
        return;
      }
      if (typeof step === 'object' && 'gate' in step) {
        await this.#gate.promise;
        continue;
      }
      if (typeof step === 'object' && 'hang' in step) return;
      if (!response.headersSent) response.writeHead(200, { 'content-type': 'text/event-stream' });
      if (typeof step === 'string') write(response, { role: 'assistant', content: step }, null);
      else if ('silent' in step) write(response, { role: 'assistant', content: '' }, null);
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
    if (!response.headersSent) response.writeHead(200, { 'content-type': 'text/event-stream' });
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
