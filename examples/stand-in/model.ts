import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { listEvents } from './events.ts';
import { invalid, type RequestProblem } from './request.ts';
import { createResponder } from './responder.ts';

export type StandInOptions = {
  /** 0, the default, takes a free one. */
  port?: number;
  /** How long to wait before each piece of a stream, in ms; 8 by default, so that a person sees it come. */
  paceMs?: number;
  now?: () => number;
  /** Gives an id that begins with `prefix` and was not given before. */
  newId?: (prefix: string) => string;
};

/** `url` is a base URL for an OpenAI client, it ends with /v1; `close` ends open streams too. */
export type StandInModel = { url: string; close(): Promise<void> };

type Reply = { status: number; body: unknown };

const MAX_BODY_BYTES = 32 * 1024 * 1024;

/**
 * Starts a documentation steward's model that is no model: rules behind `POST /v1/responses` on 127.0.0.1,
 * in OpenAI's wire format, streamed or not. It computes every call, report and answer from the tool results
 * in the request (see stand-in-rules.ts), needs no network and calls itself `stand-in`, whatever `model` asks for.
 *
 * Responses are remembered until it closes, the last 1000 of them, so `previous_response_id` works; `store: false`
 * forgets. Any bearer token will do. `usage` is counted from the lengths of texts, four characters a token:
 * plausible, not true. `max_output_tokens`, `temperature` and `top_p` are echoed and change nothing.
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
      const message = `Unknown request: ${request.method} ${pathname}. The stand-in has POST /v1/responses only.`;
      return sendProblem(response, 404, invalid(message, null, 'unknown_url'));
    }
    if (!/^Bearer \S+$/i.test(request.headers.authorization ?? '')) {
      const message =
        'Expected an Authorization header with a bearer token; any token will do for the stand-in.';
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
