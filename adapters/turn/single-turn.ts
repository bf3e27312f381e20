// The parts that all providers' turns share: the adapter skeleton for HTTP providers, assembling and parsing tool
// calls, call ids, incremental conversion of transcripts, output schemas, usage, and safe access to external JSON.
import type { CallOptions, Capabilities, ModelAdapter } from '../../protocol/adapter.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import type { ModelRequest, ModelTurn, TurnDelta } from '../../protocol/turn.ts';
import type { HttpReply } from '../http/connection.ts';
import { type Connection, capturing } from '../http/connection.ts';
import {
  errorFromBody,
  errorFromThrown,
  malformedStream,
  type ProviderContext,
} from '../http/provider-errors.ts';
import { jsonIn, nonEmpty, shorten } from './json-access.ts';
import { deltasUpTo, ShownDeltas } from './turn-deltas.ts';

/** One provider's implementation of a model call. Every function may throw a `ProviderError`. */
type SingleTurn = {
  provider: string;
  model: string;
  capabilities: Capabilities;
  connect(): Connection;
  send(
    connection: Connection,
    request: ModelRequest,
    call: { stream: boolean; signal: AbortSignal },
  ): Promise<HttpReply>;
  /** Converts a complete response body to a turn. Error bodies are handled before this is called. */
  read(body: JsonObject, request: ModelRequest, context: ProviderContext): ModelTurn;
  /** Yields the deltas of a stream as they arrive and returns the turn. Throws for a truncated stream. */
  readStream(
    chunks: AsyncIterable<Uint8Array>,
    request: ModelRequest,
    context: ProviderContext,
  ): AsyncGenerator<TurnDelta, ModelTurn, undefined>;
  /** The provider's endpoint that counts the input tokens of a request; `read` returns the count. */
  count?: {
    send(connection: Connection, request: ModelRequest, signal: AbortSignal): Promise<HttpReply>;
    read(body: JsonObject): JsonValue | undefined;
  };
  /**
   * Returns the current time in ms since the epoch, used to interpret `retry-after` dates. Default:
   * `Date.now`.
   */
  now?: (() => number) | undefined;
};

/**
 * Creates the adapter of an HTTP provider. Each method makes one model call and fails only with a
 * `ProviderError`.
 */
export function singleTurnAdapter(options: SingleTurn): ModelAdapter {
  const { provider, model, capabilities, count } = options;
  const now = options.now ?? Date.now;

  /** One generator from the reply to the reader: each further one would cost as much for a delta as its parsing. */
  async function* stream(
    request: ModelRequest,
    { signal, capture }: CallOptions,
  ): AsyncGenerator<TurnDelta, void> {
    const connection = capturing(options.connect(), capture);
    const { context } = connection;
    const shown = new ShownDeltas();
    let deltas: ReturnType<SingleTurn['readStream']> | undefined;
    try {
      signal.throwIfAborted();
      const reply = await options.send(connection, request, { stream: true, signal });
      if (!isStream(reply, { requested: true })) {
        for (const delta of deltasUpTo(await completeTurn(reply, request, context))) yield delta;
        return;
      }
      deltas = options.readStream(reply.chunks(), request, context);
      let next = await deltas.next();
      while (!next.done) {
        shown.record(next.value);
        yield next.value;
        next = await deltas.next();
      }
      deltas = undefined;
      for (const delta of deltasUpTo(next.value, shown)) yield delta;
    } catch (thrown) {
      throw errorFromThrown(thrown, context, signal, now());
    } finally {
      await deltas?.return(undefined as never);
    }
  }

  async function generate(request: ModelRequest, { signal, capture }: CallOptions): Promise<ModelTurn> {
    const connection = capturing(options.connect(), capture);
    const { context } = connection;
    try {
      signal.throwIfAborted();
      const reply = await options.send(connection, request, { stream: false, signal });
      if (!isStream(reply, { requested: false })) return await completeTurn(reply, request, context);
      const deltas = options.readStream(reply.chunks(), request, context);
      let next = await deltas.next();
      while (!next.done) next = await deltas.next();
      return next.value;
    } catch (thrown) {
      throw errorFromThrown(thrown, context, signal, now());
    }
  }

  async function countTokens(
    { send, read }: NonNullable<SingleTurn['count']>,
    request: ModelRequest,
    signal: AbortSignal,
  ): Promise<number> {
    const connection = options.connect();
    try {
      signal.throwIfAborted();
      const reply = await send(connection, request, signal);
      const body = bodyIn(await reply.text(), connection.context);
      const tokens = read(body);
      if (typeof tokens === 'number' && Number.isSafeInteger(tokens) && tokens >= 0) return tokens;
      throw malformedStream('expected a number of tokens', connection.context, body);
    } catch (thrown) {
      throw errorFromThrown(thrown, connection.context, signal, now());
    }
  }

  async function completeTurn(
    reply: HttpReply,
    request: ModelRequest,
    context: ProviderContext,
  ): Promise<ModelTurn> {
    return options.read(bodyIn(await reply.text(), context), request, context);
  }

  return {
    provider,
    model,
    capabilities,
    generate,
    stream,
    ...(count === undefined
      ? {}
      : { countTokens: (request, { signal }) => countTokens(count, request, signal) }),
  };
}

/** The response's content type takes precedence over what was requested. */
function isStream({ headers }: HttpReply, { requested }: { requested: boolean }): boolean {
  const type = headers.get('content-type') ?? '';
  if (/event-stream|ndjson/.test(type)) return true;
  return requested && !/json|html/.test(type);
}

function bodyIn(text: string, context: ProviderContext): JsonObject {
  const body = jsonIn(text);
  if (body !== undefined && isErrorBody(body)) throw errorFromBody(body, context);
  if (isJsonObject(body)) return body;
  const found = text.trim() === '' ? 'nothing' : shorten(text.trim(), 80);
  throw malformedStream(`expected a JSON object, got ${found}`, context, shorten(text, 2_000));
}

/** Whether a body or stream event with status 200 reports an error, in any provider's format. */
export function isErrorBody(body: JsonValue): boolean {
  if (Array.isArray(body)) return body.length === 1 && body[0] !== undefined && isErrorBody(body[0]);
  if (!isJsonObject(body)) return false;
  return (
    isJsonObject(body.error) ||
    nonEmpty(body.error) !== undefined ||
    body.type === 'error' ||
    body.object === 'error'
  );
}
