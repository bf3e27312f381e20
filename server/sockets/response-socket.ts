import { upgradeWebSocket, type WebSocketLike } from '@hono/node-server';
import type { Context, MiddlewareHandler } from 'hono';
import type { Caller } from '../../access/caller.ts';
import type { Host } from '../../engine/host/host.ts';
import { isJsonObject, type JsonObject } from '../../protocol/json.ts';
import { ApiError } from '../error-envelope.ts';
import { failureOf } from '../gateway/live/respond.ts';
import type { ResponseEnd } from '../gateway/live/response-feed.ts';
import { readSession } from '../gateway/request/client-session.ts';
import { UnstoredChain } from '../gateway/runs/response-library.ts';
import { describeResponsesError, invalid, ResponsesError } from '../openai-error.ts';
import { BODY_LIMITS, parseBounded } from '../read-body.ts';
import { readCreateBody } from '../responses/request-body.ts';
import type { Responses, WireResponse } from '../responses/responses.ts';
import type { InRequest, RunsEnv } from '../runs-env.ts';

/** The part of a socket of the package `ws` that is used here. */
export type Socket = Pick<WebSocketLike, 'close'> & {
  on(event: 'pong' | 'close', listener: () => void): unknown;
  send(text: string, sent: (error?: Error) => void): void;
  ping(): void;
  terminate(): void;
};

type SocketOptions = {
  responses: Responses;
  caller: Caller;
  headers: Headers;
  host: Host;
  /** Runs the handling of a message as a request of its own. */
  inRequest: InRequest;
  closing: AbortSignal;
  log(line: string): void;
};

/** In ms. A client that did not answer the last ping is disconnected. */
const PING_MS = 20_000;

const CLOSING_MS = 1_000;

const MOST_WAITING = 16;
const TOO_MANY_WAITING = 'Too many requests wait on this connection. Wait for a response.';

const GOING_AWAY = 1001;

/**
 * One WebSocket connection: `response.create` events, answered with the events of their responses.
 *
 * S1 Requests are handled one at a time, in order. The total size of waiting requests is limited to one body.
 *    `serveRuns` bounds each message.
 * S2 An event is sent only after the previous one was written, so a slow client does not fill memory.
 * S3 A failed request never ends the connection. Its error is an `error` event.
 * S4 Responses with `store: false` can be continued on their connection: see `UnstoredChain`. A request that follows the
 *    last one and fails forgets it.
 */
export class ResponseSocket {
  readonly #socket: Socket;
  readonly #options: SocketOptions;
  readonly #chain: UnstoredChain;
  readonly #waiting: string[] = [];
  #waitingChars = 0;
  #isBusy = false;
  readonly #left = new AbortController();
  #isAlive = true;
  #live: WireResponse | null = null;
  #cancelTimer = () => {};

  constructor(socket: Socket, options: SocketOptions) {
    this.#socket = socket;
    this.#options = options;
    this.#chain = new UnstoredChain(options.responses.service.library);
    socket.on('pong', () => {
      this.#isAlive = true;
    });
    socket.on('close', () => this.#end());
    options.closing.addEventListener('abort', this.#shutDown);
    this.#keepAlive();
  }

  get #isClosed(): boolean {
    return this.#left.signal.aborted;
  }

  receive(data: unknown): void {
    if (this.#isClosed) return;
    if (typeof data !== 'string')
      return void this.#refuse(invalid(null, 'input_invalid', 'Send text messages.'));
    const { bodyBytes } = this.#options.responses.service.admission.limits;
    if (this.#waiting.length >= MOST_WAITING || this.#waitingChars + data.length > bodyBytes)
      return void this.#refuse(new ApiError('rate-limit-exceeded', TOO_MANY_WAITING));
    this.#waiting.push(data);
    this.#waitingChars += data.length;
    if (!this.#isBusy) void this.#work();
  }

  async #work(): Promise<void> {
    this.#isBusy = true;
    for (let text = this.#waiting.shift(); text !== undefined; text = this.#waiting.shift()) {
      this.#waitingChars -= text.length;
      await this.#options.inRequest(() => this.#answer(text));
    }
    this.#isBusy = false;
  }

  /** Returns the status that HTTP would have. */
  async #answer(text: string): Promise<number> {
    let previous: string | undefined;
    try {
      const body = readRequest(text);
      if (typeof body.previous_response_id === 'string') previous = body.previous_response_id;
      const { responses, caller, headers } = this.#options;
      responses.service.fields.check('responses', body);
      const request = { ...readCreateBody({ ...body, stream: true }), ...readSession(headers, body) };
      const { signal } = this.#left;
      this.#live = await responses.create(request, caller, { chain: this.#chain, signal });
      if (this.#isClosed) this.#live.leave();
      const failed = await this.#live.begun();
      if (failed !== null) {
        this.#live.leave();
        this.#chain.forget(previous);
        return this.#fail(failed);
      }
      for await (const batch of this.#live.batches()) for (const event of batch) await this.#send(event);
      if (this.#live.end()?.status === 'failed') this.#chain.forget(previous);
      return 200;
    } catch (error) {
      if (previous !== undefined) this.#chain.forget(previous);
      return this.#refuse(error);
    } finally {
      this.#live = null;
    }
  }

  /** As HTTP would with its status. */
  #fail({ end, retryAfter }: ResponseEnd): number {
    const headers = retryAfter === null || retryAfter === 0 ? {} : { 'retry-after': String(retryAfter) };
    return this.#refuse(failureOf(end, { isRetryable: retryAfter !== null }), headers);
  }

  #refuse(thrown: unknown, headers: Readonly<Record<string, string>> = {}): number {
    const { status, body, reported } = describeResponsesError(thrown);
    if (!reported)
      this.#options.log(
        `A request on a WebSocket failed: ${(thrown instanceof Error && thrown.stack) || thrown}`,
      );
    const error = { ...body.error, code: body.error.code ?? body.error.type };
    const more = Object.keys(headers).length > 0 ? { headers } : {};
    void this.#send({ type: 'error', status, error, ...more });
    return status;
  }

  /** Settles once the event was written, or the connection is gone. */
  #send(event: object): Promise<void> {
    if (this.#isClosed) return Promise.resolve();
    return new Promise(sent => this.#socket.send(JSON.stringify(event), () => sent()));
  }

  #keepAlive(): void {
    this.#cancelTimer = this.#options.host.setTimer(
      PING_MS,
      () => {
        if (!this.#isAlive) return this.#socket.terminate();
        this.#isAlive = false;
        this.#socket.ping();
        this.#keepAlive();
      },
      { keepAlive: false },
    );
  }

  /** The response in progress has ended with an error event by then: see `LiveResponse`. */
  readonly #shutDown = (): void => {
    const { host } = this.#options;
    setImmediate(() => {
      this.#socket.close(GOING_AWAY, 'The server is shutting down, or the session has ended.');
      host.setTimer(CLOSING_MS, () => this.#socket.terminate(), { keepAlive: false });
    });
  };

  #end(): void {
    this.#left.abort();
    this.#cancelTimer();
    this.#options.closing.removeEventListener('abort', this.#shutDown);
    this.#waiting.length = 0;
    this.#live?.leave();
    this.#chain.forget();
  }
}

function readRequest(text: string): JsonObject {
  const event = parseBounded(text, BODY_LIMITS);
  if (!isJsonObject(event)) throw invalid(null, 'input_invalid', 'The message is not a JSON object.');
  const { type, stream: _, stream_options: __, ...body } = event;
  if (type === 'response.steer')
    throw invalid('type', 'unsupported_event', 'Events of type "response.steer" are not supported.');
  if (type !== 'response.create')
    throw invalid('type', 'unknown_event', 'Expected an event of type "response.create".');
  if (body.background === true)
    throw invalid('background', 'unsupported_parameter', 'Background responses need HTTP.');
  return body;
}

/** Upgrades a request after all checks; 429 when as many connections are open as may stream. */
export function socketRoute(options: {
  responses: Responses;
  host: Host;
  log(line: string): void;
}): MiddlewareHandler<RunsEnv> {
  let open = 0;
  return upgradeWebSocket((c: Context<RunsEnv>) => {
    const { service } = options.responses;
    const { closing } = service.live;
    closing.throwIfAborted();
    if (open >= service.admission.limits.openStreams)
      throw new ResponsesError('Too many connections are open. Close one, or wait.', {
        status: 429,
        type: 'rate_limit_error',
        code: 'websocket_connection_limit_reached',
      });
    let socket: ResponseSocket;
    return {
      onOpen(_event, { raw }) {
        if (!isSocket(raw)) throw new TypeError('expected a socket of the package ws');
        open += 1;
        const ended = c.get('sessionEnded');
        socket = new ResponseSocket(raw, {
          ...options,
          closing: ended === undefined ? closing : AbortSignal.any([closing, ended]),
          caller: c.get('caller'),
          headers: c.req.raw.headers,
          inRequest: c.get('inRequest'),
        });
      },
      onMessage: ({ data }) => socket.receive(data),
      onClose: () => {
        open -= 1;
      },
    };
  });
}

/** Those of `serveRuns` can ping. */
function isSocket(raw: WebSocketLike | undefined): raw is WebSocketLike & Socket {
  return raw !== undefined && 'ping' in raw && 'terminate' in raw;
}
