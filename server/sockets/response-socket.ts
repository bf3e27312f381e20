import { upgradeWebSocket, type WebSocketLike } from '@hono/node-server';
import type { Context, MiddlewareHandler } from 'hono';
import type { Caller } from '../../access/caller.ts';
import type { Host } from '../../engine/host/host.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { ApiError } from '../error-envelope.ts';
import { failureOf } from '../gateway/live/respond.ts';
import type { ResponseEnd } from '../gateway/live/response-feed.ts';
import { describeResponsesError, invalid, ResponsesError } from '../openai-error.ts';
import { BODY_LIMITS, parseBounded } from '../read-body.ts';
import type { Responses } from '../responses/responses.ts';
import type { InRequest, RunsEnv } from '../runs-env.ts';
import { Lane } from './lane.ts';

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

/** Each keeps its last response. */
const MOST_LANES = 64;
const TOO_MANY_LANES = `A connection has at most ${MOST_LANES} values of stream_id.`;

type OpenLane = {
  lane: Lane;
  waiting: { body: JsonObject; name: string | undefined; chars: number }[];
  /** Until its requests are answered. */
  work: Promise<void> | null;
};

const GOING_AWAY = 1001;

/**
 * One WebSocket connection: `response.create` events, answered with the events of their responses.
 *
 * S1 Requests of a lane, which share their `stream_id` or have none, are handled one at a time, in order. The total size of
 *    waiting requests is limited to one body. `serveRuns` bounds each message.
 * S2 An event is sent only after the previous one was written, so a slow client does not fill memory.
 * S3 A failed request never ends the connection. Its error is an `error` event.
 * S4 The last response of a lane with `store: false` can be continued on their connection: see `UnstoredChain`. A request
 *    of the lane that follows it and fails forgets it.
 */
export class ResponseSocket {
  readonly #socket: Socket;
  readonly #options: SocketOptions;
  readonly #lanes = new Map<string | undefined, OpenLane>();
  #waiting = 0;
  #waitingChars = 0;
  readonly #left = new AbortController();
  #isAlive = true;
  #cancelTimer = () => {};

  constructor(socket: Socket, options: SocketOptions) {
    this.#socket = socket;
    this.#options = options;
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
    const chars = data.length;
    if (this.#waiting >= MOST_WAITING || this.#waitingChars + chars > bodyBytes)
      return void this.#refuse(new ApiError('rate-limit-exceeded', TOO_MANY_WAITING));
    let name: string | undefined;
    try {
      const { stream_id, ...body } = readRequest(data);
      name = readName(stream_id);
      const open = this.#open(name);
      open.waiting.push({ body, name, chars });
      this.#waiting += 1;
      this.#waitingChars += chars;
      open.work ??= this.#work(open);
    } catch (error) {
      this.#refuse(error, name);
    }
  }

  #open(name: string | undefined): OpenLane {
    const known = this.#lanes.get(name);
    if (known !== undefined) return known;
    if (this.#lanes.size >= MOST_LANES) throw new ApiError('rate-limit-exceeded', TOO_MANY_LANES);
    const lane = new Lane({
      ...this.#options,
      signal: this.#left.signal,
      send: event => this.#send(name === undefined ? event : { ...event, stream_id: name }),
      lanes: () => [...this.#lanes.values()].map(({ lane }) => lane),
    });
    const opened = { lane, waiting: [], work: null };
    this.#lanes.set(name, opened);
    return opened;
  }

  async #work(open: OpenLane): Promise<void> {
    for (let next = open.waiting.shift(); next !== undefined; next = open.waiting.shift()) {
      const { body, name, chars } = next;
      this.#waiting -= 1;
      this.#waitingChars -= chars;
      await this.#options.inRequest(() => this.#answer(open.lane, body, name));
    }
    open.work = null;
  }

  /** Returns the status that HTTP would have. */
  async #answer(lane: Lane, body: JsonObject, name: string | undefined): Promise<number> {
    try {
      const failed = await lane.answer(body);
      if (failed !== null) return this.#fail(failed, name);
      return 200;
    } catch (error) {
      return this.#refuse(error, name);
    }
  }

  /** As HTTP would with its status. */
  #fail({ end, retryAfter }: ResponseEnd, name: string | undefined): number {
    const headers = retryAfter === null || retryAfter === 0 ? {} : { 'retry-after': String(retryAfter) };
    return this.#refuse(failureOf(end, { isRetryable: retryAfter !== null }), name, headers);
  }

  #refuse(thrown: unknown, name?: string, headers: Readonly<Record<string, string>> = {}): number {
    const { status, body, reported } = describeResponsesError(thrown);
    if (!reported)
      this.#options.log(
        `A request on a WebSocket failed: ${(thrown instanceof Error && thrown.stack) || thrown}`,
      );
    const error = { ...body.error, code: body.error.code ?? body.error.type };
    const more = Object.keys(headers).length > 0 ? { headers } : {};
    void this.#send({ type: 'error', status, error, ...more, ...omitUndefined({ stream_id: name }) });
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

  /** The responses in progress end with an error event first if the server shuts down: see `LiveResponse`. */
  readonly #shutDown = async (): Promise<void> => {
    const { host, responses } = this.#options;
    const cancelTimer = host.setTimer(CLOSING_MS, () => this.#socket.terminate(), { keepAlive: false });
    this.#socket.on('close', cancelTimer);
    if (responses.service.live.closing.aborted)
      await Promise.all([...this.#lanes.values()].map(({ work }) => work));
    this.#socket.close(GOING_AWAY, 'The server is shutting down, or the session has ended.');
  };

  #end(): void {
    this.#left.abort();
    this.#cancelTimer();
    this.#options.closing.removeEventListener('abort', this.#shutDown);
    for (const { lane, waiting } of this.#lanes.values()) {
      waiting.length = 0;
      lane.end();
    }
  }
}

function readName(name: JsonValue | undefined): string | undefined {
  if (name == null) return undefined;
  if (typeof name === 'string' && name.length > 0 && name.length <= LONGEST_NAME) return name;
  const message = `'stream_id' is not valid: expected 1 to ${LONGEST_NAME} characters.`;
  throw invalid('stream_id', 'invalid_value', message);
}

const LONGEST_NAME = 128;

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
