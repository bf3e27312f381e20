import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { anthropicMessages } from '../../../examples/stand-in/wire/anthropic.ts';
import { chat } from '../../../examples/stand-in/wire/chat.ts';
import { geminiContent } from '../../../examples/stand-in/wire/gemini.ts';
import { responses } from '../../../examples/stand-in/wire/responses.ts';
import { type Encoder, seeded, type WrittenTurn } from '../../../examples/stand-in/wire/turn.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { typedEvents } from '../adapters/fixtures/sse-body.ts';

/** The APIs of the upstream, each as a model of a gateway. */
export const UPSTREAMS = {
  anthropic: 'anthropic:claude-sonnet-4-5',
  responses: 'openai:gpt-5',
  chat: 'openai-chat:any',
  gemini: 'gemini:gemini-3-flash',
} as const;

const ENCODERS: readonly (readonly [path: RegExp, encoder: Encoder])[] = [
  [/\/messages$/, anthropicMessages],
  [/\/responses$/, responses()],
  [/\/chat\/completions$/, chat({})],
  [/:(generate|streamGenerate)Content/, geminiContent],
];

/** A provider with four APIs that plays turns in order and records the requests. */
export class Upstream {
  /** The bodies of the requests since the last `play`. */
  requests: JsonObject[] = [];
  /** Of the last request. */
  headers: IncomingHttpHeaders = {};
  readonly #server: Server;
  #turns: readonly Partial<WrittenTurn>[] = [];
  #blocks: readonly JsonObject[] | undefined;
  #gate: Promise<void> | undefined;

  private constructor() {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', chunk => chunks.push(chunk));
      request.on('end', async () => {
        await this.#gate;
        const url = request.url ?? '';
        const path = url.split('?')[0] ?? '';
        const body: JsonObject = JSON.parse(Buffer.concat(chunks).toString());
        this.requests.push(body);
        this.headers = request.headers;
        if (path.endsWith('/count_tokens')) {
          response.setHeader('content-type', 'application/json');
          return response.end('{"input_tokens":17}');
        }
        const blocks = this.#blocks;
        if (blocks !== undefined) {
          response.setHeader('content-type', body.stream === true ? 'text/event-stream' : 'application/json');
          return response.end(body.stream === true ? streamOf(blocks) : JSON.stringify(messageOf(blocks)));
        }
        const [, encoder] = ENCODERS.find(([pattern]) => pattern.test(path)) ?? [];
        const turn = this.#turns[this.requests.length - 1];
        if (encoder === undefined || turn === undefined) {
          response.writeHead(400, { 'content-type': 'application/json' });
          return response.end('{"error":{"message":"no more turns"}}');
        }
        const written = { ...EMPTY, ...turn };
        const isStream = body.stream === true || path.includes(':streamGenerate');
        response.setHeader('content-type', isStream ? encoder.contentType : 'application/json');
        if (!isStream) return response.end(JSON.stringify(encoder.whole(written)));
        return response.end(encoder.stream(written, seeded(3)).join(''));
      });
    });
  }

  static async listen(): Promise<Upstream> {
    const upstream = new Upstream();
    await new Promise<void>(done => upstream.#server.listen(0, '127.0.0.1', done));
    return upstream;
  }

  /** The environment variables that point an adapter to this server. */
  get environment(): Record<string, string> {
    const url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    const key = 'sk-upstream';
    return {
      OPENAI_BASE_URL: `${url}/v1`,
      OPENAI_API_KEY: key,
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_API_KEY: key,
      GEMINI_BASE_URL: url,
      GEMINI_API_KEY: key,
    };
  }

  /** Plays these turns, one per request, and forgets earlier requests. */
  play(...turns: Partial<WrittenTurn>[]): void {
    this.#turns = turns;
    this.#blocks = undefined;
    this.requests = [];
  }

  /** Answers every request with a message of Anthropic's API with these content blocks. */
  playBlocks(blocks: readonly JsonObject[]): void {
    this.play();
    this.#blocks = blocks;
  }

  /** Answers no request until the returned function is called. */
  hold(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#gate = promise;
    return resolve;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise(done => this.#server.close(done));
  }
}

const EMPTY: WrittenTurn = {
  model: 'any',
  reasoning: '',
  text: '',
  calls: [],
  finish: 'stop',
  usage: { input: 10, output: 6, cached: 4, reasoning: 2 },
};

function messageOf(content: readonly JsonObject[]): JsonObject {
  return {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'any',
    content: [...content],
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage: { input_tokens: 3, output_tokens: 2 },
  };
}

function streamOf(blocks: readonly JsonObject[]): string {
  const { stop_reason, usage } = messageOf(blocks);
  const events = [
    { type: 'message_start', message: { ...messageOf([]), stop_reason: null } },
    ...blocks.flatMap((block, index) => [
      {
        type: 'content_block_start',
        index,
        content_block: { ...block, ...(block.type === 'text' && { text: '' }) },
      },
      ...(block.type === 'text'
        ? [{ type: 'content_block_delta', index, delta: { type: 'text_delta', text: block.text } }]
        : []),
      { type: 'content_block_stop', index },
    ]),
    { type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage },
    { type: 'message_stop' },
  ];
  return typedEvents(events as JsonObject[]);
}
