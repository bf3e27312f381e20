import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { anthropicMessages } from '../../../examples/stand-in/wire/anthropic.ts';
import { chat } from '../../../examples/stand-in/wire/chat.ts';
import { type Encoder, event, seeded, type WrittenTurn } from '../../../examples/stand-in/wire/turn.ts';
import type { JsonObject } from '../../../protocol/json.ts';

/** One turn of the model. `items` are output items of the Responses dialect, before its text and calls. */
export type PlayedTurn = {
  text?: string;
  calls?: readonly { name: string; arguments: JsonObject }[];
  items?: readonly JsonObject[];
};

/** The dialects that it speaks, each as a model of a gateway. */
export const DIALECTS = { responses: 'openai:any', chat: 'openai-chat:any', anthropic: 'anthropic:any' };

const USAGE = { input: 5, output: 5, cached: 0, reasoning: 0 };

/** A provider of three dialects that plays turns in order and keeps the requests. */
export class DialectProvider {
  /** The bodies of the requests, in order. */
  requests: JsonObject[] = [];
  /** What it reports as used, in Chat Completions and Messages. */
  usageOf: (body: JsonObject) => NonNullable<WrittenTurn['usage']> = () => USAGE;
  readonly #server: Server;
  #turns: readonly PlayedTurn[] = [];
  #ids = 0;

  private constructor() {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', chunk => chunks.push(chunk));
      request.on('end', () => {
        const body: JsonObject = JSON.parse(Buffer.concat(chunks).toString());
        const turn = this.#turns[this.requests.length] ?? { text: 'No more turns.' };
        this.requests.push(body);
        this.#answer(request.url ?? '', response, { body, turn });
      });
    });
  }

  static async listen(): Promise<DialectProvider> {
    const provider = new DialectProvider();
    await new Promise<void>(done => provider.#server.listen(0, '127.0.0.1', done));
    return provider;
  }

  /** The environment variables that lead an adapter here. */
  get environment(): Record<string, string> {
    const url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    const key = 'sk-dialects';
    return {
      OPENAI_BASE_URL: `${url}/v1`,
      OPENAI_API_KEY: key,
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_API_KEY: key,
    };
  }

  /** Plays these turns, one per request from now on, and forgets earlier requests. */
  play(...turns: PlayedTurn[]): void {
    this.#turns = turns;
    this.requests = [];
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise(done => this.#server.close(done));
  }

  #answer(
    url: string,
    response: ServerResponse,
    { body, turn }: { body: JsonObject; turn: PlayedTurn },
  ): void {
    if (url.endsWith('/responses')) return this.#answerResponses(response, { body, turn });
    const encoder: Encoder = url.endsWith('/chat/completions') ? chat({}) : anthropicMessages;
    const written = {
      model: 'any',
      reasoning: '',
      text: turn.text ?? '',
      finish: 'stop' as const,
      calls: (turn.calls ?? []).map(call => ({
        id: `call_${this.#ids++}`,
        name: call.name,
        arguments: JSON.stringify(call.arguments),
      })),
      usage: this.usageOf(body),
    };
    if (body.stream !== true)
      return send(response, 'application/json', [JSON.stringify(encoder.whole(written))]);
    send(response, encoder.contentType, encoder.stream(written, seeded(1)));
  }

  #answerResponses(response: ServerResponse, { body, turn }: { body: JsonObject; turn: PlayedTurn }): void {
    const { text = '', calls = [], items = [] } = turn;
    const content = [{ type: 'output_text', text, annotations: [] }];
    const message = { type: 'message', role: 'assistant', status: 'completed', content };
    const output = [
      ...items,
      ...(text === '' ? [] : [{ ...message, id: `msg_${this.#ids++}` }]),
      ...calls.map(call => {
        const id = this.#ids++;
        const made = { id: `fc_${id}`, call_id: `call_${id}`, name: call.name };
        return {
          type: 'function_call',
          ...made,
          arguments: JSON.stringify(call.arguments),
          status: 'completed',
        };
      }),
    ];
    const usage = { input_tokens: 5, output_tokens: 5, total_tokens: 10 };
    const head = { id: `resp_${this.#ids++}`, object: 'response', model: 'any', created_at: 1, error: null };
    const end: JsonObject = { ...head, status: 'completed', output, usage };
    if (body.stream !== true) return send(response, 'application/json', [JSON.stringify(end)]);
    const events = [
      { type: 'response.created', response: { ...head, status: 'in_progress', output: [] } },
      ...output.flatMap((item, output_index) => [
        { type: 'response.output_item.added', output_index, item: openingOf(item) },
        ...deltasOf(item, output_index),
        { type: 'response.output_item.done', output_index, item },
      ]),
      { type: 'response.completed', response: end },
    ];
    send(
      response,
      'text/event-stream',
      events.map((data, sequence_number) =>
        event({ ...data, sequence_number } as JsonObject, String(data.type)),
      ),
    );
  }
}

function openingOf(item: JsonObject): JsonObject {
  return item.type === 'message' ? { ...item, status: 'in_progress', content: [] } : item;
}

function deltasOf(item: JsonObject, output_index: number): JsonObject[] {
  if (item.type !== 'message') return [];
  const [part] = item.content as { text: string }[];
  const place = { output_index, content_index: 0, item_id: item.id ?? '' };
  return (part?.text.match(/\S+\s*/g) ?? []).map(delta => ({
    type: 'response.output_text.delta',
    ...place,
    delta,
  }));
}

function send(response: ServerResponse, type: string, blocks: readonly string[]): void {
  response.writeHead(200, { 'content-type': type });
  for (const block of blocks) response.write(block);
  response.end();
}
