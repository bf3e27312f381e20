import { createHash } from 'node:crypto';
import { jsonIn, objectOf, objectsOf } from '../../../adapters/turn/json-access.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../protocol/json.ts';
import { typedEvents } from './fixtures/sse-body.ts';

/**
 * Stand-ins of providers that bind reasoning to all that was sent before it: instructions, tools and every earlier block.
 * Both are ours, written by what the providers document; no recording of either behaviour exists.
 *
 * - Anthropic, "preserved thinking": a request with a thinking block whose beginning has changed is refused with 400.
 * - OpenAI: such a reasoning item is left out of what the model reads, and counted here as refused.
 */
export type BindingProvider = {
  fetch: typeof fetch;
  /** Of each request for a turn: how many thoughts it has, how many tools, and its tool choice. */
  posts: { thoughts: number; tools: number; choice: JsonValue; model: JsonValue }[];
  /** The requests for a summary. */
  summaries: JsonObject[];
  /** Thoughts that came back after another beginning. */
  refused: string[];
};

/** What the model does in its turns: the name of the tool that it calls, or `say`; at the end of the list, `say`. */
type BindingScript = {
  turns: readonly string[];
  /** Models that always answer that they are overloaded. */
  overloaded?: readonly string[];
};

const digest = (value: unknown) =>
  createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 16);

type Api = {
  /** All that the model reads of a body, in order, and the proofs of its thoughts with their places. */
  read(body: JsonObject): { blocks: readonly JsonValue[]; thoughts: { at: number; proof: JsonValue }[] };
  refusal?: JsonObject;
  /** Whether the request is for a summary, and whether its thoughts are checked. */
  summarizes(path: string, body: JsonObject): 'checked' | 'unchecked' | undefined;
  summary(body: JsonObject, number: number): JsonObject;
  reply(body: JsonObject, turn: Turn): JsonObject;
  events(reply: JsonObject): JsonObject[];
};

/** `tokens`: ten for each block of the request. */
type Turn = { number: number; proof: string; calls: string | undefined; tokens: number };

function bindingProvider(
  { read, refusal, summarizes, summary, reply, events }: Api,
  script: BindingScript,
): BindingProvider {
  let turns = 0;
  const provider: BindingProvider = { fetch: answer, posts: [], summaries: [], refused: [] };

  async function answer(...[input, init]: Parameters<typeof fetch>): Promise<Response> {
    const request = new Request(input, init);
    const body = objectOf(jsonIn(await request.text()));
    const asked = summarizes(new URL(request.url).pathname, body);
    if (script.overloaded?.includes(String(body.model)))
      return json({ error: { message: 'Overloaded' } }, 529);
    const { blocks, thoughts } = read(body);
    const choice = isJsonObject(body.tool_choice)
      ? (body.tool_choice.type ?? null)
      : (body.tool_choice ?? null);
    const { model = null } = body;
    if (asked === undefined)
      provider.posts.push({ thoughts: thoughts.length, tools: objectsOf(body.tools).length, choice, model });
    else provider.summaries.push(body);
    const proofOf = (count: number) => digest([model, blocks.slice(0, count)]);
    const wrong = thoughts.filter(({ at, proof }) => asked !== 'unchecked' && proof !== proofOf(at));
    provider.refused.push(...wrong.map(({ at }) => `thought at ${at} of request ${provider.posts.length}`));
    if (wrong.length > 0 && refusal) return json(refusal, 400);
    if (asked !== undefined) return json(summary(body, provider.summaries.length), 200);
    turns += 1;
    const wanted = script.turns[turns - 1] ?? 'say';
    const calls = wanted === 'say' || choice === 'none' ? undefined : wanted;
    const tokens = 10 * blocks.length;
    const replied = reply(body, { number: turns, proof: proofOf(blocks.length), calls, tokens });
    if (body.stream !== true) return json(replied, 200);
    const headers = { 'content-type': 'text/event-stream' };
    return new Response(typedEvents(events(replied)), { headers });
  }

  return provider;
}

function json(body: JsonObject, status: number): Response {
  return new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json' } });
}

/** The Messages API: https://platform.claude.com/docs/en/build-with-claude/thinking. */
export function bindingMessages(script: BindingScript): BindingProvider {
  return bindingProvider(
    {
      read({ system = '', tools = [], messages }) {
        const blocks: JsonValue[] = [system, tools];
        const thoughts: { at: number; proof: JsonValue }[] = [];
        for (const { role = '', content = '' } of objectsOf(messages)) {
          const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : objectsOf(content);
          for (const { cache_control: _, ...part } of parts) {
            if (part.type === 'thinking') thoughts.push({ at: blocks.length, proof: part.signature ?? '' });
            blocks.push([role, part]);
          }
        }
        return { blocks, thoughts };
      },
      refusal: {
        type: 'error',
        error: {
          type: 'invalid_request_error',
          message:
            'messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation.',
        },
      },
      // https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand
      summarizes: (_, { compaction }) => (isJsonObject(compaction) ? 'checked' : undefined),
      summary: ({ model = '' }, number) => ({
        id: `msg_summary_${number}`,
        type: 'message',
        role: 'assistant',
        model,
        content: [{ type: 'compaction', content: `Summary ${number}.`, signature: `signed ${number}` }],
        stop_reason: 'compaction',
        stop_sequence: null,
        usage: { input_tokens: 10, output_tokens: 5 },
      }),
      reply: ({ model = '' }, { number, proof, calls, tokens }) => ({
        id: `msg_${number}`,
        type: 'message',
        role: 'assistant',
        model,
        content: [
          { type: 'thinking', thinking: '', signature: proof },
          calls === undefined
            ? { type: 'text', text: 'Done.' }
            : { type: 'tool_use', id: `toolu_${number}`, name: calls, input: { n: number } },
        ],
        stop_reason: calls === undefined ? 'end_turn' : 'tool_use',
        stop_sequence: null,
        usage: { input_tokens: tokens, output_tokens: 5 },
      }),
      events: ({ content, stop_reason = null, usage = null, ...message }) => [
        { type: 'message_start', message: { ...message, content: [], stop_reason: null, usage } },
        ...objectsOf(content).flatMap((block, index) => [
          { type: 'content_block_start', index, content_block: { ...block, ...emptied(block) } },
          { type: 'content_block_delta', index, delta: deltaOf(block) },
          { type: 'content_block_stop', index },
        ]),
        { type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage },
        { type: 'message_stop' },
      ],
    },
    script,
  );
}

function emptied({ type }: JsonObject): JsonObject {
  if (type === 'thinking') return { signature: '' };
  return type === 'text' ? { text: '' } : { input: {} };
}

function deltaOf({ type, signature = '', text = '', input = {} }: JsonObject): JsonObject {
  if (type === 'thinking') return { type: 'signature_delta', signature };
  if (type === 'text') return { type: 'text_delta', text };
  return { type: 'input_json_delta', partial_json: JSON.stringify(input) };
}

/** The Responses API: https://developers.openai.com/api/docs/guides/keep-prefix-unchanged. */
export function bindingResponses(script: BindingScript): BindingProvider {
  const stored = new Map<string, JsonValue[]>();
  const inputOf = ({ previous_response_id: previous, input }: JsonObject): JsonValue[] => [
    ...(stored.get(String(previous)) ?? []),
    ...objectsOf(input),
  ];
  return bindingProvider(
    {
      read(body) {
        const blocks: JsonValue[] = [body.instructions ?? '', body.tools ?? []];
        const thoughts: { at: number; proof: JsonValue }[] = [];
        for (const item of inputOf(body).map(objectOf)) {
          const { encrypted_content = null } = item;
          if (item.type === 'reasoning') thoughts.push({ at: blocks.length, proof: encrypted_content });
          blocks.push(meaningOf(item));
        }
        return { blocks, thoughts };
      },
      // Its request has no tools, so its reasoning has another beginning than it was made after.
      summarizes: path => (path.endsWith('/responses/compact') ? 'unchecked' : undefined),
      summary: (body, number) => ({
        id: `resp_summary_${number}`,
        object: 'response.compaction',
        output: [
          ...inputOf(body).flatMap(item => wholeMessage(objectOf(item))),
          { type: 'compaction', id: `cmp_${number}`, encrypted_content: `Summary ${number}.` },
        ],
        usage: { input_tokens: 10, output_tokens: 5, total_tokens: 15 },
      }),
      reply(body, { number, proof, calls, tokens }) {
        const { model = '' } = body;
        const id = `resp_${number}`;
        const output: JsonObject[] = [
          { type: 'reasoning', id: `rs_${number}`, summary: [], encrypted_content: proof },
          calls === undefined
            ? {
                type: 'message',
                id: `msg_${number}`,
                status: 'completed',
                role: 'assistant',
                content: [{ type: 'output_text', text: 'Done.', annotations: [] }],
              }
            : {
                type: 'function_call',
                id: `fc_${number}`,
                status: 'completed',
                call_id: `call_${number}`,
                name: calls,
                arguments: JSON.stringify({ n: number }),
              },
        ];
        if (body.store !== false) stored.set(id, [...inputOf(body), ...output]);
        const usage = { input_tokens: tokens, output_tokens: 5, total_tokens: tokens + 5 };
        return { id, object: 'response', status: 'completed', model, error: null, output, usage };
      },
      events: ({ output, ...response }) => [
        { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
        ...objectsOf(output).flatMap((item, output_index) => [
          { type: 'response.output_item.added', output_index, item },
          { type: 'response.output_item.done', output_index, item },
        ]),
        { type: 'response.completed', response: { ...response, output: objectsOf(output) } },
      ],
    },
    script,
  );
}

/** A message of the user as the API returns it. */
function wholeMessage({ role, content = '' }: JsonObject): JsonObject[] {
  if (role !== 'user') return [];
  const parts = typeof content === 'string' ? [{ type: 'input_text', text: content }] : objectsOf(content);
  return [{ type: 'message', role, status: 'completed', content: parts }];
}

/** An item without its id and status, which requests may leave out. */
function meaningOf({ id: _, status: __, content, ...item }: JsonObject): JsonObject {
  if (item.type === 'message' || item.role !== undefined) {
    const texts = typeof content === 'string' ? [content] : objectsOf(content).map(({ text = '' }) => text);
    return { role: item.role ?? '', texts };
  }
  return item;
}
