import type { CallOptions, Capabilities, ModelAdapter } from '../../protocol/adapter.ts';
import { batchIn, streamOf } from '../../protocol/delta-batches.ts';
import type { ProviderError, ProviderErrorCode } from '../../protocol/error.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { ModelRequest, ModelTurn, TurnDelta } from '../../protocol/turn.ts';
import { capturing, type HttpReply, type ProviderConnection } from '../http/connection.ts';
import {
  errorFromBody,
  errorFromThrown,
  malformedStream,
  type ProviderContext,
} from '../http/provider-errors.ts';
import { type EventBatches, isDone, readSse, type SseEvent } from '../http/read-sse.ts';
import { jsonIn, nonEmpty, shorten } from './json-access.ts';
import { deltasUpTo, ShownDeltas } from './turn-deltas.ts';

/** One provider's implementation of a model call. Every function may throw a `ProviderError`, and nothing else. */
type TurnSource = Pick<ModelAdapter, 'provider' | 'model' | 'append' | 'promptedSchema'> & {
  capabilities?: Partial<Capabilities>;
  /** Makes one call: yields what can be shown early, one by one or what came together, and returns the turn, which may have more. */
  call(
    request: ModelRequest,
    options: CallOptions,
    mode: { stream: boolean },
  ): AsyncGenerator<TurnDelta | readonly TurnDelta[], ModelTurn, undefined>;
};

export function turnAdapter({
  provider,
  model,
  capabilities,
  append,
  promptedSchema,
  call,
}: TurnSource): ModelAdapter {
  return {
    provider,
    model,
    capabilities: { ...USUAL, ...capabilities },
    ...omitUndefined({ append, promptedSchema }),
    async generate(request, options) {
      const deltas = call(request, options, { stream: false });
      let next = await deltas.next();
      while (!next.done) next = await deltas.next();
      return next.value;
    },
    stream: (request, options) => streamOf(batches(request, options)),
  };

  async function* batches(
    request: ModelRequest,
    options: CallOptions,
  ): AsyncGenerator<readonly TurnDelta[], void> {
    const deltas = call(request, options, { stream: true });
    const shown = new ShownDeltas();
    let next: IteratorResult<TurnDelta | readonly TurnDelta[], ModelTurn> | undefined;
    try {
      next = await deltas.next();
      while (!next.done) {
        const batch = batchIn(next.value);
        for (const delta of batch) shown.record(delta);
        yield batch;
        next = await deltas.next();
      }
    } finally {
      if (!next?.done) await deltas.return(undefined as never);
    }
    yield [...deltasUpTo(next.value, shown)];
  }
}

const USUAL: Capabilities = {
  streaming: true,
  parallelToolCalls: true,
  reasoningReplay: true,
  serverTools: false,
  structuredOutput: 'native',
  continuation: false,
  usage: 'unknown',
};

/** Reads one answer, a body or a stream, which reports no error. Every method may throw a `ProviderError`. */
export type AnswerReader = {
  read(body: JsonObject): ModelTurn;
  /** Adds an event. `type` is its own, else its name in the stream. Returns the deltas to show to a reader. */
  push(event: JsonObject, type: string): Iterable<TurnDelta>;
  /** `ended`: the turn is complete, and later events only add to it. `over`: nothing follows. */
  readonly progress: 'open' | 'ended' | 'over';
  end(): ModelTurn;
};

/** What `ModelAdapter.compact` returns. */
type Compacted = Awaited<ReturnType<NonNullable<ModelAdapter['compact']>>>;

/** An HTTP provider's implementation of a model call. Every function may throw a `ProviderError`. */
type SingleTurn = Omit<TurnSource, 'call'> & {
  connect(): ProviderConnection;
  send(
    connection: ProviderConnection,
    request: ModelRequest,
    call: { stream: boolean; signal: AbortSignal },
  ): Promise<HttpReply>;
  reader(request: ModelRequest, context: ProviderContext): AnswerReader;
  /** Splits a stream into events. Default: server-sent events. */
  events?: (chunks: AsyncIterable<Uint8Array>) => EventBatches;
  /** What a stream that ended too early lacks, for the error. */
  ending: string;
  /** The code of an error in a stream that says nothing more precise. */
  streamFailure?: ProviderErrorCode;
  /** The request to send instead, once, if this error comes before anything was shown. Default: none. */
  again?: (error: ProviderError, request: ModelRequest) => ModelRequest | undefined;
  /** Adds to an error what only this provider's dialect knows. */
  refine?: (error: ProviderError) => ProviderError;
  /** The provider's endpoint that counts the input tokens of a request; `read` returns the count. */
  count?: {
    send(connection: ProviderConnection, request: ModelRequest, signal: AbortSignal): Promise<HttpReply>;
    read(body: JsonObject): JsonValue | undefined;
  };
  /** The provider's own summary of a transcript; `read` takes it from the answer. */
  compact?: {
    send(connection: ProviderConnection, request: ModelRequest, signal: AbortSignal): Promise<HttpReply>;
    read(body: JsonObject, request: ModelRequest, context: ProviderContext): Compacted;
  };
  /** The current time in ms since the epoch, for `retry-after` dates. Default: `Date.now`. */
  now?: (() => number) | undefined;
};

/** Creates the adapter of an HTTP provider. Its methods fail only with a `ProviderError`. */
export function singleTurnAdapter(options: SingleTurn): ModelAdapter {
  const { count, compact, events = readSse, ending, streamFailure, now = Date.now } = options;

  function failure(thrown: unknown, context: ProviderContext, signal: AbortSignal): ProviderError {
    const error = errorFromThrown(thrown, context, signal, now());
    return options.refine?.(error) ?? error;
  }

  async function* call(
    request: ModelRequest,
    { signal, capture, onBegin }: CallOptions,
    { stream }: { stream: boolean },
  ): AsyncGenerator<readonly TurnDelta[], ModelTurn, undefined> {
    const connection = capturing(options.connect(), capture);
    const { context } = connection;
    let shown = false;
    for (let sent = request; ; ) {
      try {
        signal.throwIfAborted();
        const reply = await options.send(connection, sent, { stream, signal });
        const reader = options.reader(request, context);
        if (!isStream(reply, { requested: stream })) return reader.read(bodyIn(await reply.text(), context));
        let count = 0;
        let last = '';
        let isOver = false;
        const take = ({ event: name, data }: SseEvent, deltas: TurnDelta[]): void => {
          isOver = isDone(data);
          if (isOver || data.trim() === '') return;
          const event = jsonIn(data);
          if (name === 'error' || (event !== undefined && isErrorBody(event))) {
            throw errorFromBody(event ?? data, context, streamFailure);
          }
          if (!isJsonObject(event))
            throw malformedStream(`an event is not JSON: ${shorten(data, 80)}`, context);
          count += 1;
          last = nonEmpty(event.type) ?? name;
          for (const delta of reader.push(event, last)) deltas.push(delta);
          if (count === 1) onBegin?.();
          isOver = reader.progress === 'over';
        };
        for await (const batch of events(reply.chunks())) {
          const deltas: TurnDelta[] = [];
          let failed: { thrown: unknown } | undefined;
          try {
            for (const event of batch) if (!isOver) take(event, deltas);
          } catch (thrown) {
            failed = { thrown };
          }
          // Also what came before a failure.
          if (deltas.length > 0) {
            shown = true;
            yield deltas;
          }
          if (failed !== undefined) throw failed.thrown;
          if (isOver) break;
        }
        if (reader.progress !== 'open') return reader.end();
        const where = last === '' ? '' : ` (the last: ${last})`;
        throw malformedStream(
          `truncated stream: it ended after ${count} events${where} without ${ending}.`,
          context,
        );
      } catch (thrown) {
        const error = failure(thrown, context, signal);
        const instead = shown || sent !== request ? undefined : options.again?.(error, request);
        if (instead === undefined) throw error;
        sent = instead;
      }
    }
  }

  /** One request and its answer, which is not a turn. */
  async function ask<Answer>(
    signal: AbortSignal,
    send: (connection: ProviderConnection) => Promise<HttpReply>,
    read: (body: JsonObject, context: ProviderContext) => Answer,
  ): Promise<Answer> {
    const connection = options.connect();
    try {
      signal.throwIfAborted();
      const reply = await send(connection);
      return read(bodyIn(await reply.text(), connection.context), connection.context);
    } catch (thrown) {
      throw failure(thrown, connection.context, signal);
    }
  }

  function readCount(body: JsonObject, context: ProviderContext): number {
    const tokens = count?.read(body);
    if (typeof tokens === 'number' && Number.isSafeInteger(tokens) && tokens >= 0) return tokens;
    throw malformedStream('expected a number of tokens', context, body);
  }

  function readCompacted(body: JsonObject, request: ModelRequest, context: ProviderContext): Compacted {
    const compacted = compact?.read(body, request, context);
    if (compacted?.items.some(item => item.type === 'provider_item')) return compacted;
    throw malformedStream('the answer has no summary', context, body);
  }

  return {
    ...turnAdapter({ ...options, call }),
    ...(count && {
      countTokens: (request, { signal }) =>
        ask(signal, connection => count.send(connection, request, signal), readCount),
    }),
    ...(compact && {
      compact: (request, { signal }) =>
        ask(
          signal,
          connection => compact.send(connection, request, signal),
          (body, context) => readCompacted(body, request, context),
        ),
    }),
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

/** Whether a body or an event with status 200 reports an error, in any provider's format. */
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
