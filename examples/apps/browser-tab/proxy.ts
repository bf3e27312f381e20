/**
 * Serves the built page, and passes its model calls on with the key, which must not be in a page. It lets through
 * one path, sets the model, and bounds the request. A server of yours also knows its users, and limits what each spends.
 *
 *   npx vite build && OPENAI_API_KEY=… node proxy.ts
 */
import { readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { extname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import * as z from 'zod';

const { PORT = '4300', OPENAI_API_KEY = '', OPENAI_MODEL = 'gpt-5-mini' } = process.env;
const UPSTREAM = process.env.OPENAI_BASE_URL ?? 'https://api.openai.com/v1';
const LARGEST_REQUEST = 1_000_000;
const TYPES = new Map([
  ['.html', 'text/html'],
  ['.js', 'text/javascript'],
]);

async function passOn(request: IncomingMessage, response: ServerResponse): Promise<void> {
  // Other sites cannot spend the key: browsers say where a request comes from.
  if (request.headers['sec-fetch-site'] !== 'same-origin') return void response.writeHead(403).end();
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > LARGEST_REQUEST) return void response.writeHead(413).end();
    chunks.push(chunk);
  }
  const body = z.record(z.string(), z.unknown()).parse(JSON.parse(Buffer.concat(chunks).toString()));
  const left = new AbortController();
  response.on('close', () => left.abort());
  const answer = await fetch(`${UPSTREAM}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${OPENAI_API_KEY}` },
    body: JSON.stringify({ ...body, model: OPENAI_MODEL }),
    signal: left.signal,
  });
  response.writeHead(answer.status, {
    'content-type': answer.headers.get('content-type') ?? 'application/json',
  });
  if (answer.body === null) response.end();
  else await pipeline(Readable.from(answer.body), response);
}

/** Serves the files that `vite build` wrote to `dist`. */
async function serveFile(path: string, response: ServerResponse): Promise<void> {
  const file = join('dist', path === '/' ? 'index.html' : path);
  const content = await readFile(file);
  response.writeHead(200, { 'content-type': TYPES.get(extname(file)) ?? 'application/octet-stream' });
  response.end(content);
}

const server = createServer((request, response) => {
  const { pathname } = new URL(request.url ?? '/', 'http://localhost');
  const isCall = request.method === 'POST' && pathname === '/v1/chat/completions';
  const work = isCall ? passOn(request, response) : serveFile(pathname, response);
  work.catch(() => {
    if (response.headersSent) response.destroy();
    else response.writeHead(isCall ? 502 : 404).end();
  });
});
server.listen(Number(PORT), '127.0.0.1', () => console.log(JSON.stringify(server.address())));
process.on('SIGTERM', () => server.close());
