/**
 * The servers that the `gateway` workload compares, each in its own process: `node --expose-gc bench/gateway/server.ts
 * CONTENDER UPSTREAM`. The proxy passes requests on to the upstream without reading them. The process sends its port and
 * the headers for it when it listens, and its CPU time or its memory when asked.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { ReadableStream } from 'node:stream/web';
import type { Store } from '../../protocol/store.ts';
import { createRunsApp } from '../../server/app.ts';
import { createGateway } from '../../server/gateway.ts';
import { providerFetch } from '../../server/provider-fetch.ts';
import { serveRuns } from '../../server/serve.ts';
import { memory } from '../../stores/memory.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { makeTemporaryFolder } from '../temporary-folder.ts';
import type { Target } from './client.ts';
import { PORTKEY, PROXY, SQLITE } from './contenders.ts';

/** CPU time of the process in ms, without that of measuring; the bytes of its database. */
export type Spent = { cpuMs: number; stored: number };

export type Asked = 'spent' | 'memory';

const [contender = '', upstream = ''] = process.argv.slice(2);
let database: string | undefined;
let measuringMs = 0;
const target = await serve();
process.on('message', (asked: Asked) => process.send?.(asked === 'memory' ? usedBytes() : measure()));
process.on('disconnect', () => process.exit());
process.send?.(target);

async function serve(): Promise<Target> {
  switch (contender) {
    case PROXY:
      return { port: await serveProxy() };
    case PORTKEY:
      return await servePortkey();
    default:
      return { port: await serveGateway() };
  }
}

function measure(): Spent {
  const cpuMs = cpuTime() - measuringMs;
  const stored = storedBytes();
  measuringMs = cpuTime() - cpuMs;
  return { cpuMs, stored };
}

/** The heap and buffers after a garbage collection, which makes the code that follows slower: it is compiled again. */
function usedBytes(): number {
  globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

function cpuTime(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** Without free pages, and with what is still in the log. */
function storedBytes(): number {
  if (database === undefined) return 0;
  using reader = new DatabaseSync(database, { readOnly: true });
  const [pages, free, size] = ['page_count', 'freelist_count', 'page_size'].map(name =>
    Number(reader.prepare(`PRAGMA ${name}`).get()?.[name]),
  );
  return ((pages ?? 0) - (free ?? 0)) * (size ?? 0);
}

async function serveProxy(): Promise<number> {
  const server = createServer(async (request, response) => {
    const answer = await fetch(`${upstream}${request.url?.replace(/^\/v1/, '')}`, {
      method: request.method ?? 'GET',
      headers: { 'content-type': 'application/json' },
      body: Readable.toWeb(request) as globalThis.ReadableStream,
      duplex: 'half',
    });
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' });
    await pipeline(Readable.fromWeb(answer.body as ReadableStream), response);
  });
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done));
  return (server.address() as AddressInfo).port;
}

async function servePortkey(): Promise<Target> {
  const port = await freePort();
  process.argv = [...process.argv.slice(0, 2), `--port=${port}`, '--headless'];
  const started = '../peers/node_modules/@portkey-ai/gateway/build/start-server.js';
  await import(started);
  return {
    port,
    headers: {
      authorization: 'Bearer unused',
      'x-portkey-provider': 'openai',
      'x-portkey-custom-host': upstream,
    },
  };
}

/** Portkey takes no port 0. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  await new Promise(done => server.close(done));
  return port;
}

async function serveGateway(): Promise<number> {
  process.env.OPENAI_BASE_URL = upstream;
  process.env.OPENAI_API_KEY = 'unused';
  const store = openStore();
  const log = (line: string) => console.error(line);
  const { responses, chat, messages } = createGateway({
    store,
    model: 'openai-chat:stand-in',
    fetch: providerFetch,
    log,
  });
  const app = createRunsApp({ store, agents: new Map(), mounted: [responses, chat, messages], log });
  return (await serveRuns(app, { host: '127.0.0.1', port: 0 })).port;
}

function openStore(): Store {
  if (contender !== SQLITE) return memory();
  database = join(makeTemporaryFolder(), 'runs.db');
  return sqlite(database);
}
