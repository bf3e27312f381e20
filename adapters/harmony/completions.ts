import { isJsonObject, type JsonObject, omitUndefined } from '../../protocol/json.ts';
import type { ModelRequest, ModelTurn, TurnDelta } from '../../protocol/turn.ts';
import { errorFromBody, malformedStream, type ProviderContext } from '../http/provider-errors.ts';
import { isBlank, isDone, type SseEvent } from '../http/read-sse.ts';
import { type TagPiece, TagScanner } from '../raw/tag-scanner.ts';
import { integerIn, jsonIn, nonEmpty, objectOf, objectsOf, shorten, textIn } from '../turn/json-access.ts';
import { mergeOptions } from '../turn/merge-options.ts';
import { isErrorBody } from '../turn/single-turn.ts';
import { normalizeUsage } from '../turn/usage.ts';
import { HarmonyReply } from './reply.ts';
import { type Piece, STOP_TOKENS, TOKEN_IDS, TOKENS_BY_TEXT, tokenText } from './tokens.ts';

/**
 * Builds the body of a request to `/v1/completions`. vLLM removes special tokens unless
 * `skip_special_tokens` is `false`. Without `max_tokens` it stops after 16 tokens; `null` means as many as fit:
 * https://docs.vllm.ai/en/stable/serving/openai_compatible_server.html.
 */
export function completionsBody(
  { settings, providerOptions }: ModelRequest,
  options: { model: string; prompt: string; stream: boolean; providerOptions: JsonObject | undefined },
): JsonObject {
  const { model, prompt, stream } = options;
  return mergeOptions(
    {
      model,
      prompt,
      max_tokens: settings.maxOutputTokens ?? null,
      ...omitUndefined({ temperature: settings.temperature, top_p: settings.topP }),
      stop: STOP_TOKENS.map(tokenText),
      stop_token_ids: STOP_TOKENS.map(name => TOKEN_IDS[name]),
      skip_special_tokens: false,
      spaces_between_special_tokens: false,
      stream,
      ...(stream ? { stream_options: { include_usage: true } } : {}),
    },
    mergeOptions(options.providerOptions ?? {}, providerOptions),
  );
}

/**
 * Reads a turn of `/v1/completions`. A body that is not streamed is like a stream with one event.
 *
 * T1 The turn has ended when the server has sent a finish reason. Usage may come behind it.
 * T2 Only the first of several choices is read.
 */
class CompletionsTurn {
  readonly #reply = new HarmonyReply();
  readonly #scanner = new TagScanner([...TOKENS_BY_TEXT.keys()]);
  #finish = '';
  #usage: ModelTurn['usage'] = null;
  #model: string;

  constructor(model: string) {
    this.#model = model;
  }

  /** Adds an event or a body. Returns the deltas to show to a reader of the stream. */
  push(event: JsonObject): TurnDelta[] {
    const choice = objectsOf(event.choices).find(({ index }) => (integerIn(index) ?? 0) === 0) ?? {};
    this.#finish = nonEmpty(choice.finish_reason) ?? this.#finish;
    this.#model = nonEmpty(event.model) ?? this.#model;
    const usage = objectOf(event.usage);
    this.#usage =
      normalizeUsage({
        input: usage.prompt_tokens,
        output: usage.completion_tokens,
        cachedInput: objectOf(usage.prompt_tokens_details).cached_tokens,
        reasoning: objectOf(usage.completion_tokens_details).reasoning_tokens,
      }) ?? this.#usage;
    return this.#scanner.push(textIn(choice.text)).flatMap(piece => this.#reply.push(pieceOf(piece)));
  }

  /** Whether the server has sent a finish reason. */
  get isDone(): boolean {
    return this.#finish !== '';
  }

  /** Returns the completed turn. Throws a `ProviderError` if the server removed the special tokens. */
  end(request: ModelRequest, context: ProviderContext): ModelTurn {
    for (const piece of this.#scanner.end()) this.#reply.push(pieceOf(piece));
    this.#reply.end();
    if (this.#reply.lacksTokens) {
      throw malformedStream(
        'the reply has no special tokens, so its reasoning cannot be separated from its answer. The server must keep them when skip_special_tokens is false',
        context,
      );
    }
    return this.#reply.turn(request, { finish: this.#finish, usage: this.#usage, model: this.#model });
  }
}

/** Converts a part of the reply's text. */
export function pieceOf(piece: TagPiece): Piece {
  if ('text' in piece) return piece;
  const token = TOKENS_BY_TEXT.get(piece.tag);
  return token === undefined ? { text: piece.tag } : { token };
}

/** Reads the body of a response that is not streamed. */
export function readCompletion(
  body: JsonObject,
  request: ModelRequest,
  model: string,
  context: ProviderContext,
): ModelTurn {
  const turn = new CompletionsTurn(model);
  turn.push(body);
  if (!turn.isDone) throw malformedStream('the response has no choice with a finish reason', context, body);
  return turn.end(request, context);
}

/** Yields the deltas of a stream and returns its turn. Throws a `ProviderError` for a truncated stream. */
export async function* readCompletionStream(
  events: AsyncIterable<SseEvent>,
  request: ModelRequest,
  model: string,
  context: ProviderContext,
): AsyncGenerator<TurnDelta, ModelTurn, undefined> {
  const turn = new CompletionsTurn(model);
  let count = 0;
  for await (const { data } of events) {
    if (isDone(data)) break;
    if (isBlank(data)) continue;
    const event = jsonIn(data);
    if (!isJsonObject(event)) throw malformedStream(`an event is not JSON: ${shorten(data, 80)}`, context);
    if (isErrorBody(event)) throw errorFromBody(event, context);
    count += 1;
    yield* turn.push(event);
  }
  if (turn.isDone) return turn.end(request, context);
  throw malformedStream(`truncated stream: it ended after ${count} events without a finish_reason.`, context);
}
