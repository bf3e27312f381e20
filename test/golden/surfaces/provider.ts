import type { JsonObject, JsonValue } from '../../../protocol/json.ts';
import type { ManualHost } from '../../../testing/manual-host.ts';

/** An output item of OpenAI's Responses API: as it is announced, the events about it, and as it is finished. */
export type Piece = { open: JsonObject; events: JsonObject[]; item: JsonObject } | { mark: true };

/** The end of a turn, or what goes wrong in it. Without `cut`, the stream is complete. */
type Ending = {
  /** The pieces come in turns, event by event. */
  mixed?: true;
  /** The stream breaks off after so many events. */
  cut?: number;
  /** Why the answer is incomplete: `max_output_tokens` or `content_filter`. */
  incomplete?: string;
  /** The provider does not say what the turn used. */
  uncounted?: boolean;
};

/** An answer of the provider: a turn, the events of a turn of another API, or an HTTP error. */
export type PlayedTurn =
  | ({ pieces: Piece[] } & Ending)
  | { blocks: JsonObject[] }
  | { status: number; error: JsonObject };

export function turn(...pieces: Piece[]): PlayedTurn {
  return { pieces };
}

export function turnWith(ending: Ending, ...pieces: Piece[]): PlayedTurn {
  return { pieces, ...ending };
}

/** The provider is busy. */
export const BUSY: PlayedTurn = { status: 503, error: { message: 'busy', type: 'server_error' } };
export const UNAUTHORIZED: PlayedTurn = {
  status: 401,
  error: { message: 'wrong key', code: 'invalid_api_key' },
};

/** Here the scenario acts, or a late reader comes. */
export const MARK: Piece = { mark: true };

const words = (text: string): string[] => text.match(/\s*\S{1,12}|\s+$/gu) ?? [];

type Said = { final?: string; annotations?: JsonObject[]; phase?: string };

/** A message. `final`: the text as the finished item has it, if the deltas differ from it. */
export function say(text: string, { final = text, annotations = [], phase }: Said = {}): Piece {
  const message = { type: 'message', role: 'assistant', ...(phase !== undefined && { phase }) };
  return {
    open: { ...message, content: [] },
    events: words(text).map(delta => ({ type: 'response.output_text.delta', content_index: 0, delta })),
    item: { ...message, content: [{ type: 'output_text', text: final, annotations }] },
  };
}

/** A message that refuses, after a text. */
export function refuse(refusal: string, text = ''): Piece {
  const said = text === '' ? [] : [{ type: 'output_text', text, annotations: [] }];
  const at = said.length;
  return {
    open: { type: 'message', role: 'assistant', content: [] },
    events: [
      ...words(text).map(delta => ({ type: 'response.output_text.delta', content_index: 0, delta })),
      ...words(refusal).map(delta => ({ type: 'response.refusal.delta', content_index: at, delta })),
    ],
    item: { type: 'message', role: 'assistant', content: [...said, { type: 'refusal', refusal }] },
  };
}

/** Reasoning with a summary, or without a readable text if it is empty. `sealed`: encrypted content. */
export function think(text: string, sealed?: string): Piece {
  const head = { type: 'reasoning', ...(sealed !== undefined && { encrypted_content: sealed }) };
  return {
    open: { ...head, summary: [] },
    events: words(text).map(delta => ({
      type: 'response.reasoning_summary_text.delta',
      summary_index: 0,
      delta,
    })),
    item: { ...head, summary: text === '' ? [] : [{ type: 'summary_text', text }] },
  };
}

/** A call of a function. */
export function call(name: string, input: JsonValue = {}, callId = `call_${name}`): Piece {
  const written = typeof input === 'string' ? input : JSON.stringify(input);
  const head = { type: 'function_call', call_id: callId, name };
  return {
    open: { ...head, arguments: '' },
    events: (written.match(/.{1,9}/gsu) ?? []).map(delta => ({
      type: 'response.function_call_arguments.delta',
      delta,
    })),
    item: { ...head, arguments: written },
  };
}

/** A call of a custom tool. */
export function callCustom(name: string, input: string): Piece {
  const head = { type: 'custom_tool_call', call_id: `call_${name}`, name };
  return {
    open: { ...head, input: '' },
    events: words(input).map(delta => ({ type: 'response.custom_tool_call_input.delta', delta })),
    item: { ...head, input },
  };
}

/** An item that the provider makes at once, such as a search. */
export function made(item: JsonObject): Piece {
  return { open: { ...item, status: 'in_progress' }, events: [], item: { ...item, status: 'completed' } };
}

export type Playing = {
  host: ManualHost;
  /** By the model's name. Each request plays the next turn. */
  turns: Readonly<Record<string, readonly PlayedTurn[]>>;
  atMark?: (() => Promise<unknown>) | undefined;
};

const PACE_MS = 10;

/**
 * A provider that plays turns, as a `fetch`. Before each event everyone does what there is to do, and 10 ms pass: a
 * reader that keeps up gets each event for itself, however many steps it takes.
 */
export class Provider {
  readonly #playing: Playing;
  readonly #played = new Map<string, number>();
  /** How many answers are being written. */
  busy = 0;

  constructor(playing: Playing) {
    this.#playing = playing;
  }

  readonly fetch: typeof fetch = async (url, init) => {
    if (init?.method !== 'POST') return new Response(null, { status: 405 });
    const body = JSON.parse(String(init.body)) as JsonObject;
    const path = new URL(String(url)).pathname;
    if (path.endsWith('/mcp')) return answerMcp(body);
    const model = String(body.model);
    const number = this.#played.get(model) ?? 0;
    this.#played.set(model, number + 1);
    const turn = this.#playing.turns[model]?.[number];
    if (turn === undefined) return Response.json({ error: { message: 'no more turns' } }, { status: 400 });
    if ('status' in turn) return Response.json({ error: turn.error }, { status: turn.status });
    const [events, whole] =
      'blocks' in turn
        ? messageEvents(turn.blocks, model)
        : responseEvents(turn, `${model}_${number}`, model);
    if (body.stream !== true) {
      if ('pieces' in turn && turn.cut !== undefined)
        return Response.json({ error: { message: 'broken' } }, { status: 502 });
      return Response.json(whole);
    }
    const cut = 'cut' in turn ? turn.cut : undefined;
    return new Response(this.#stream(events.slice(0, cut), init.signal), {
      headers: { 'content-type': 'text/event-stream' },
    });
  };

  #stream(events: readonly JsonObject[], signal?: AbortSignal | null): ReadableStream<Uint8Array> {
    const { host, atMark } = this.#playing;
    const encoder = new TextEncoder();
    const left = [...events];
    let isOver = false;
    const end = () => {
      if (!isOver) this.busy -= 1;
      isOver = true;
    };
    this.busy += 1;
    return new ReadableStream(
      {
        start(controller) {
          signal?.addEventListener('abort', () => {
            end();
            controller.error(signal.reason);
          });
        },
        async pull(controller) {
          for (;;) {
            await host.advance(PACE_MS);
            const event = left.shift();
            if (event?.type === 'mark') await atMark?.();
            if (isOver) return;
            if (event === undefined) {
              end();
              return controller.close();
            }
            if (event.type === 'mark') continue;
            const frame = `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
            return controller.enqueue(encoder.encode(frame));
          }
        },
        cancel: end,
      },
      { highWaterMark: 0 },
    );
  }
}

const USAGE = {
  input_tokens: 12,
  input_tokens_details: { cached_tokens: 2 },
  output_tokens: 7,
  output_tokens_details: { reasoning_tokens: 3 },
  total_tokens: 19,
};

const PREFIXES: Readonly<Record<string, string>> = { message: 'msg', reasoning: 'rs', function_call: 'fc' };

/** The events of a streamed response, and the response as it is without streaming. */
function responseEvents(
  { pieces, mixed, incomplete, uncounted }: Extract<PlayedTurn, { pieces: unknown }>,
  name: string,
  model: string,
): [JsonObject[], JsonObject] {
  const head: JsonObject = { id: `resp_${name}`, object: 'response', model, created_at: 1, error: null };
  const output: JsonObject[] = [];
  const groups = pieces.map((piece): JsonObject[][] => {
    if ('mark' in piece) return [[{ type: 'mark' }]];
    const at = output.length;
    const id = `${PREFIXES[String(piece.item.type)] ?? 'item'}_${name}_${at}`;
    const item = { id, ...piece.item };
    output.push(item);
    const place = { output_index: at };
    const about: JsonObject[] = piece.events.map(event => ({ ...event, ...place, item_id: id }));
    const opened = { type: 'response.output_item.added', ...place, item: { id, ...piece.open } };
    return [[opened], about, [{ type: 'response.output_item.done', ...place, item }]];
  });
  const ordered: JsonObject[] = mixed === true ? inTurns(groups) : groups.flat(2);
  const status = incomplete === undefined ? 'completed' : 'incomplete';
  const why = incomplete === undefined ? null : { reason: incomplete };
  const usage = uncounted === true ? null : USAGE;
  const whole: JsonObject = { ...head, status, incomplete_details: why, output, usage };
  const events = [
    { type: 'response.created', response: { ...head, status: 'in_progress', output: [] } },
    ...ordered,
    { type: `response.${status}`, response: whole },
  ];
  return [events.map((event, number): JsonObject => ({ ...event, sequence_number: number })), whole];
}

/** All items are open before the first ends, and their events alternate. */
function inTurns(groups: JsonObject[][][]): JsonObject[] {
  const [opened, about, done] = [0, 1, 2].map(part => groups.map(group => group[part] ?? []));
  const most = Math.max(0, ...(about ?? []).map(({ length }) => length));
  const mixed = Array.from({ length: most }, (_, at) =>
    (about ?? []).map(events => events.slice(at, at + 1)),
  );
  return [...(opened ?? []).flat(), ...mixed.flat(2), ...(done ?? []).flat()];
}

/** The events of a streamed message of Anthropic's API, and the message. */
function messageEvents(blocks: readonly JsonObject[], model: string): [JsonObject[], JsonObject] {
  const reason = blocks.some(({ type }) => type === 'tool_use') ? 'tool_use' : 'end_turn';
  const head: JsonObject = { id: 'msg_up', type: 'message', role: 'assistant', model };
  const usage = { input_tokens: 12, output_tokens: 7 };
  const whole: JsonObject = {
    ...head,
    content: [...blocks],
    stop_reason: reason,
    stop_sequence: null,
    usage,
  };
  const events = [
    {
      type: 'message_start',
      message: { ...head, content: [], stop_reason: null, stop_sequence: null, usage },
    },
    ...blocks.flatMap((block, index) => blockEvents(block, index)),
    { type: 'message_delta', delta: { stop_reason: reason, stop_sequence: null }, usage },
    { type: 'message_stop' },
  ];
  return [events, whole];
}

function blockEvents(block: JsonObject, index: number): JsonObject[] {
  const start = (content_block: JsonObject) => ({ type: 'content_block_start', index, content_block });
  const deltas = (...all: JsonObject[]) => all.map(delta => ({ type: 'content_block_delta', index, delta }));
  const stop = { type: 'content_block_stop', index };
  const { type } = block;
  if (type === 'text') {
    const { text, citations = [] } = block as { text: string; citations?: JsonObject[] };
    const written = words(text).map(text => ({ type: 'text_delta', text }));
    const cited = citations.map(citation => ({ type: 'citations_delta', citation }));
    return [start({ type, text: '' }), ...deltas(...written, ...cited), stop];
  }
  if (type === 'thinking') {
    const { thinking, signature = '' } = block as { thinking: string; signature?: string };
    const thought = words(thinking).map(thinking => ({ type: 'thinking_delta', thinking }));
    return [
      start({ type, thinking: '', signature: '' }),
      ...deltas(...thought, { type: 'signature_delta', signature }),
      stop,
    ];
  }
  if (type !== 'tool_use' && type !== 'server_tool_use') return [start(block), stop];
  const partial_json = JSON.stringify(block.input);
  return [start({ ...block, input: {} }), ...deltas({ type: 'input_json_delta', partial_json }), stop];
}

/** A server of MCP with two tools. */
function answerMcp({ id, method, params }: JsonObject): Response {
  const result = (value: JsonObject) => Response.json({ jsonrpc: '2.0', id: id ?? null, result: value });
  const { protocolVersion = '2025-11-25', name = '' } = (params ?? {}) as Record<string, string>;
  switch (method) {
    case 'initialize':
      return result({
        protocolVersion,
        capabilities: { tools: {} },
        serverInfo: { name: 'desk', version: '1' },
      });
    case 'tools/list':
      return result({
        tools: ['echo', 'fail'].map(name => ({
          name,
          description: `Has the name ${name}.`,
          inputSchema: { type: 'object', properties: { text: { type: 'string' } } },
        })),
      });
    case 'tools/call':
      return result({ content: [{ type: 'text', text: `${name} ran` }], isError: name === 'fail' });
    default:
      if (id === undefined) return new Response(null, { status: 202 });
      return Response.json({ jsonrpc: '2.0', id, error: { code: -32601, message: 'unknown method' } });
  }
}
