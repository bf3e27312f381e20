import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { listEvents } from './events.ts';
import { invalid, type RequestProblem } from './request.ts';
import { createResponder } from './responder.ts';

export type StandInOptions = {
  /** The port; 0, the default, uses a free one. */
  port?: number;
  /** The delay before each piece of a stream in ms, so that streaming is visible. Default 8. */
  paceMs?: number;
  now?: () => number;
  /** Returns a new id that starts with `prefix`. */
  newId?: (prefix: string) => string;
};

/** `url` is the base URL for an OpenAI client and ends with /v1. `close` also ends open streams. */
export type StandInModel = { url: string; close(): Promise<void> };

type Reply = { status: number; body: unknown };

const MAX_BODY_BYTES = 32 * 1024 * 1024;

/**
 * Starts the stand-in with OpenAI's Responses API only: `POST /v1/responses` on 127.0.0.1, streamed or not. Fixed
 * rules (rules.ts) compute every call, report and answer from the tool results in the request. The model's name is
 * always `stand-in`.
 *
 * Keeps the last 1000 responses for `previous_response_id`, except with `store: false`. Accepts any bearer token.
 * `usage` is an estimate: four characters per token. `max_output_tokens`, `temperature` and `top_p` are echoed and
 * have no effect.
 */
export async function startStandInModel(options: StandInOptions = {}): Promise<StandInModel> {
  const { port = 0, paceMs = 8, now = Date.now } = options;
  const newId = options.newId ?? (prefix => `${prefix}_${randomUUID().replaceAll('-', '')}`);
  const answer = createResponder({ now, newId });

  const server = createServer((request, response) => {
    respond(request, response).catch((error: unknown) => {
      if (response.headersSent) response.destroy();
      else sendProblem(response, 500, invalid(`The stand-in failed: ${String(error)}`, null), 'server_error');
    });
  });

  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname } = new URL(request.url ?? '/', 'http://stand-in');
    if (request.method !== 'POST' || pathname !== '/v1/responses') {
      const message = `Unknown request: ${request.method} ${pathname}. The stand-in supports only POST /v1/responses.`;
      return sendProblem(response, 404, invalid(message, null, 'unknown_url'));
    }
    if (!/^Bearer \S+$/i.test(request.headers.authorization ?? '')) {
      const message = 'Expected an Authorization header with a bearer token. The stand-in accepts any token.';
      return sendProblem(response, 401, invalid(message, null, 'invalid_api_key'));
    }
    const text = await readBody(request);
    if (text === null)
      return sendProblem(response, 413, invalid(`The body is over ${MAX_BODY_BYTES} bytes.`, null));
    const body = parseBody(text);
    if (body === undefined)
      return sendProblem(response, 400, invalid('The body is not valid JSON.', null, 'invalid_json'));
    const answered = answer(body);
    if ('problem' in answered) return sendProblem(response, 400, answered.problem);
    const { streamed, response: made, remember } = answered;
    if (!streamed) {
      remember();
      return sendJson(response, { status: 200, body: made });
    }
    response.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
    });
    for (const event of listEvents(made)) {
      if (paceMs > 0 && event.type.endsWith('.delta')) await wait(paceMs);
      if (response.destroyed) return;
      if (event.type === 'response.completed') remember();
      response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    }
    response.end();
  }

  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
  const { port: taken } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${taken}/v1`,
    close: () =>
      new Promise(resolve => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function readBody(request: IncomingMessage): Promise<string | null> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += chunk.length;
    if (bytes <= MAX_BODY_BYTES) chunks.push(chunk);
  }
  return bytes > MAX_BODY_BYTES ? null : Buffer.concat(chunks).toString('utf8');
}

function parseBody(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function sendProblem(
  response: ServerResponse,
  status: number,
  { message, param, code }: RequestProblem,
  type = 'invalid_request_error',
): void {
  sendJson(response, { status, body: { error: { message, type, param, code } } });
}

function sendJson(response: ServerResponse, { status, body }: Reply): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}
