import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { JsonObject } from '../../../../protocol/json.ts';

/** A provider that streams one turn. Its first connection breaks off where the test says; the next ones are complete. */
export class BreakingProvider {
  readonly #server: Server;
  #frames: readonly string[] = [];
  #breaksAfter = Number.POSITIVE_INFINITY;
  /** The number of requests since `play`. */
  requests = 0;

  private constructor() {
    this.#server = createServer((request, response) => {
      request.resume();
      request.on('end', () => {
        const sent = this.requests++ === 0 ? this.#frames.slice(0, this.#breaksAfter) : this.#frames;
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        for (const frame of sent) response.write(frame);
        if (sent.length === this.#frames.length) return response.end();
        return response.write(':', () => setImmediate(() => response.destroy()));
      });
    });
  }

  static async listen(): Promise<BreakingProvider> {
    const provider = new BreakingProvider();
    await new Promise<void>(done => provider.#server.listen(0, '127.0.0.1', done));
    return provider;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  /** `breaksAfter`: how many frames the first connection sends. By default it sends all. */
  play(frames: readonly string[], breaksAfter = Number.POSITIVE_INFINITY): void {
    this.#frames = frames;
    this.#breaksAfter = breaksAfter;
    this.requests = 0;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise(done => this.#server.close(done));
  }
}

/** The frames of a turn in Chat Completions, one delta each. */
export function chatFrames(deltas: readonly JsonObject[], finish_reason: string): string[] {
  const chunks = [
    ...deltas.map(delta => ({ choices: [{ index: 0, delta, finish_reason: null }] })),
    { choices: [{ index: 0, delta: {}, finish_reason }] },
    { choices: [], usage: { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12 } },
  ].map(chunk => JSON.stringify({ id: 'x', object: 'chat.completion.chunk', model: 'any', ...chunk }));
  return [...chunks, '[DONE]'].map(data => `data: ${data}\n\n`);
}

/** The frames of a turn in the Responses API with these output items: each is announced, begun and completed. */
export function responseFrames(items: readonly JsonObject[]): string[] {
  const events = items.flatMap((item, output_index) => [
    { type: 'response.output_item.added', output_index, item: { ...item, ...begunOf(item) } },
    ...deltasOf(item, output_index),
    { type: 'response.output_item.done', output_index, item },
  ]);
  const response = {
    id: 'resp_up',
    object: 'response',
    model: 'any',
    status: 'completed',
    output: items,
    usage: { input_tokens: 7, output_tokens: 5, total_tokens: 12 },
  };
  const begun = { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } };
  return [begun, ...events, { type: 'response.completed', response }].map(
    (event, sequence_number) =>
      `event: ${event.type}\ndata: ${JSON.stringify({ ...event, sequence_number })}\n\n`,
  );
}

function begunOf({ type }: JsonObject): JsonObject {
  if (type === 'message') return { content: [], status: 'in_progress' };
  return type === 'reasoning' ? { summary: [] } : { arguments: '', status: 'in_progress' };
}

function deltasOf(item: JsonObject, output_index: number): { type: string }[] {
  const place = { item_id: item.id, output_index };
  const [part] = (item.content ?? item.summary ?? []) as { text: string }[];
  if (item.type === 'function_call')
    return halvesOf(String(item.arguments)).map(delta => ({
      type: 'response.function_call_arguments.delta',
      ...place,
      delta,
    }));
  const type = item.type === 'message' ? 'output_text' : 'reasoning_summary_text';
  return halvesOf(part?.text ?? '').map(delta => ({
    type: `response.${type}.delta`,
    ...place,
    content_index: 0,
    summary_index: 0,
    delta,
  }));
}

function halvesOf(text: string): string[] {
  const middle = Math.ceil(text.length / 2);
  return [text.slice(0, middle), text.slice(middle)].filter(half => half !== '');
}
