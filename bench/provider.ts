import { createHash, type Hash } from 'node:crypto';
import { canonicalJson } from '../protocol/json.ts';

/** Returns the provider's response to a request body. */
export type Answer = (body: string) => Response;

type StandInOptions = {
  answer: Answer;
  /** The duration of a model call in ms. Default 0. */
  delayMs?: number;
};

/** An in-process provider: a `fetch` that answers the Responses API from memory. */
export class StandIn {
  answer: Answer;
  readonly #delayMs: number;
  #recorded: Hash | null = null;

  constructor({ answer, delayMs = 0 }: StandInOptions) {
    this.answer = answer;
    this.#delayMs = delayMs;
  }

  /** Pass this as the client's `fetch`. */
  readonly fetch = async (_url: unknown, init?: RequestInit): Promise<Response> => {
    const body = init?.body;
    if (typeof body !== 'string') throw new TypeError('the stand-in expects a JSON body');
    this.#recorded?.update(canonicalJson(JSON.parse(body)));
    if (this.#delayMs > 0) await new Promise(resolve => setTimeout(resolve, this.#delayMs));
    return this.answer(body);
  };

  /** Returns a digest of all requests that `work` makes, in their order. */
  async record(work: () => Promise<unknown>): Promise<string> {
    const hash = createHash('sha256');
    this.#recorded = hash;
    await work();
    this.#recorded = null;
    return hash.digest('hex').slice(0, 16);
  }
}

/** Answers with `rounds` rounds of `parallel` calls, then a text. The round is read from the request. */
export function answerRounds(rounds: number, parallel: number): Answer {
  const replyTo = playRounds(rounds, parallel);
  return body => json(replyTo(body));
}

function playRounds(rounds: number, parallel: number): (body: string) => string {
  const answers = Array.from({ length: rounds }, (_, round) =>
    respond(`r${round}`, callItems(round, parallel)),
  );
  const last = respond('last', [messageItem(finalText(rounds))]);
  return body => answers[lastCall(body) + 1] ?? last;
}

/** As `answerRounds` with one call a round; counts four characters of a request as a token, and summarizes if asked. */
export function answerCompacted(rounds: number): Answer {
  const replyTo = playRounds(rounds, 1);
  const summary = respond('summary', [messageItem('The points so far were measured.', '_summary')]);
  return body => {
    const isAsked = body.lastIndexOf('Summarize this conversation.') > body.lastIndexOf(CALL_PREFIX);
    const usage = `"input_tokens":${Math.ceil(body.length / 4)},`;
    return json((isAsked ? summary : replyTo(body)).replace('"input_tokens":2087,', usage));
  };
}

/** Returns the final text after the number of rounds. */
export function finalText(rounds: number): string {
  return `Measured in ${rounds} round(s).`;
}

/** Answers each user message with one call, then a text. All ids are unique: LangGraph merges messages with equal ids. */
export function answerConversation(): Answer {
  return body => {
    const call = lastCall(body);
    const asked = body.lastIndexOf('"role":"user"');
    const answered = body.lastIndexOf('"type":"function_call_output"');
    return json(
      asked > answered
        ? respond(`call${call + 1}`, callItems(call + 1, 1))
        : respond(`text${call}`, [messageItem(finalText(call + 1), `_${call}`)]),
    );
  };
}

/** Returns the number in the id of the request's last call; -1 without one. */
function lastCall(body: string): number {
  const at = body.lastIndexOf(CALL_PREFIX);
  if (at === -1) return -1;
  return Number.parseInt(body.slice(at + CALL_PREFIX.length, at + CALL_PREFIX.length + 8), 10);
}

const CALL_PREFIX = '"call_id":"call_';

/** Answers with a streamed text of `chunks` deltas, in packets of 16 KiB. */
export function answerStream(chunks: number): Answer {
  const bytes = new TextEncoder().encode(streamEvents(chunks).map(formatEvent).join(''));
  return () => {
    let at = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.enqueue(bytes.subarray(at, at + PACKET_BYTES));
        at += PACKET_BYTES;
        if (at >= bytes.length) controller.close();
      },
    });
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  };
}

const PACKET_BYTES = 16_384;

/** Returns the text that `answerStream` streams. */
export function streamedText(chunks: number): string {
  return Array.from({ length: chunks }, (_, index) => word(index)).join('');
}

function word(index: number): string {
  return `word${index % 1000} `;
}

function streamEvents(chunks: number): WireEvent[] {
  const place = { item_id: MESSAGE_ID, output_index: 0, content_index: 0 };
  const text = streamedText(chunks);
  const item = messageItem(text);
  const part = { type: 'output_text', annotations: [], logprobs: [] };
  return [
    { type: 'response.created', response: { ...envelope('s', []), status: 'in_progress' } },
    { type: 'response.output_item.added', output_index: 0, item: { ...item, content: [] } },
    { type: 'response.content_part.added', ...place, part: { ...part, text: '' } },
    ...Array.from({ length: chunks }, (_, index) => ({
      type: 'response.output_text.delta',
      sequence_number: index + 3,
      ...place,
      delta: word(index),
      logprobs: [],
      obfuscation: 'x1y2z3',
    })),
    { type: 'response.output_text.done', ...place, text },
    { type: 'response.content_part.done', ...place, part: { ...part, text } },
    { type: 'response.output_item.done', output_index: 0, item },
    { type: 'response.completed', response: envelope('s', [item]) },
  ];
}

type WireEvent = { type: string; [member: string]: unknown };

function formatEvent(event: WireEvent): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}

function json(text: string): Response {
  return new Response(text, { headers: { 'content-type': 'application/json' } });
}

function respond(id: string, output: unknown[]): string {
  return JSON.stringify(envelope(id, output));
}

const MESSAGE_ID = 'msg_68c42d408eec8196ae1c5883e07c093e';

function messageItem(text: string, ending = '') {
  const content = [{ type: 'output_text', text, annotations: [], logprobs: [] }];
  return { type: 'message', id: `${MESSAGE_ID}${ending}`, status: 'completed', role: 'assistant', content };
}

function callItems(round: number, parallel: number) {
  return Array.from({ length: parallel }, (_, index) => ({
    type: 'function_call',
    id: `fc_${round}_${index}`,
    status: 'completed',
    call_id: `call_${round}_${index}`,
    name: 'measure',
    arguments: JSON.stringify({ point: round * parallel + index, unit: 'mm' }),
  }));
}

/** Returns a response in the API's format, with a shortened echo of the request. */
function envelope(id: string, output: unknown[]) {
  return {
    id: `resp_68c42d3fd6a08196bce23d6be960ff8a_${id}`,
    object: 'response',
    created_at: 1_757_687_103,
    status: 'completed',
    error: null,
    incomplete_details: null,
    instructions: null,
    model: 'gpt-4.1-2025-04-14',
    output,
    parallel_tool_calls: true,
    previous_response_id: null,
    reasoning: { effort: null, summary: null },
    service_tier: 'default',
    store: false,
    temperature: 1,
    text: { format: { type: 'text' }, verbosity: 'medium' },
    tool_choice: 'auto',
    tools: [],
    top_p: 1,
    truncation: 'disabled',
    usage: {
      input_tokens: 2087,
      input_tokens_details: { cached_tokens: 2048 },
      output_tokens: 124,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 2211,
    },
    metadata: {},
  };
}
