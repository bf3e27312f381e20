import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { inParallel, post, readAll } from '../gateway/client.ts';
import { PORTKEY, PROXY, SQLITE, STORED, UNSTORED } from '../gateway/contenders.ts';
import { type ServerProcess, startServer } from '../gateway/start-server.ts';
import { streamedText } from '../provider.ts';
import type { Workload } from '../workload.ts';

const REQUESTS = 1_000;
const LANES = 16;
const STREAMS = 100;
const ROUNDS = 3;
const CHUNKS = 100;
const SHORT = 10;
/** The model whose streams wait in the middle. */
const HELD = 'held';

/** The gateway on the wire of Chat Completions, compared with a proxy that passes requests on unread, in front of the same stand-in. */
export const gateway: Workload = {
  name: 'gateway',
  title: `The gateway: ${REQUESTS.toLocaleString('en-US')} requests, ${LANES} at a time; ${STREAMS} concurrent streams of ${CHUNKS} chunks`,
  contenders: [PROXY, UNSTORED, STORED, SQLITE],
  peers: [PORTKEY],
  repetitions: 3,
  columns: [
    { label: 'requests/s', metric: 'requestsPerSecond' },
    { label: 'CPU ms/request', metric: 'cpuMsPerRequest', digits: 2 },
    { label: '× proxy', metric: 'cpuMsPerRequest', as: 'ratio', digits: 2, aims: { [UNSTORED]: '2×' } },
    { label: 'CPU ms/stream', metric: 'cpuMsPerStream', digits: 2 },
    { label: '× proxy', metric: 'cpuMsPerStream', as: 'ratio', digits: 2, aims: { [UNSTORED]: '2.5×' } },
    { label: 'KB/open stream', metric: 'kbPerStream', aims: { [UNSTORED]: '100' } },
  ],
  async measure(contender) {
    const upstream = await startUpstream();
    const server = await startServer(contender, upstream.url);
    const body = askFor('stand-in', contender);
    const ask = async () => {
      const text = await readAll(await post(server, body));
      if (!text.includes(streamedText(SHORT))) throw new Error(`the answer is wrong: ${text}`);
    };
    await inParallel(REQUESTS / 2, LANES, ask);
    const before = await server.measure();
    const startedAt = performance.now();
    await inParallel(REQUESTS, LANES, ask);
    const wallMs = performance.now() - startedAt;
    const after = await server.measure();
    const streams = { ...askFor(HELD, contender), stream: true };
    for (let round = 0; round < ROUNDS; round += 1) await streamAtOnce(server, upstream, streams);
    const idle = await server.measure();
    for (let round = 0; round < ROUNDS; round += 1) await streamAtOnce(server, upstream, streams);
    const end = await server.measure();
    const empty = await server.usedBytes();
    const open = await streamAtOnce(server, upstream, streams, () => server.usedBytes());
    await server.stop();
    await upstream.close();
    return {
      requests: '',
      metrics: {
        requestsPerSecond: (REQUESTS / wallMs) * 1000,
        cpuMsPerRequest: (after.cpuMs - before.cpuMs) / REQUESTS,
        cpuMsPerStream: (end.cpuMs - idle.cpuMs) / STREAMS / ROUNDS,
        kbPerStream: ((open ?? empty) - empty) / STREAMS / 1024,
      },
    };
  },
};

function askFor(model: string, contender: string) {
  const isStored = contender === STORED || contender === SQLITE;
  return { model, messages: [{ role: 'user', content: 'Tell me.' }], store: isStored };
}

type Upstream = {
  url: string;
  /** Resolves when every stream waits in its middle. */
  allWait(): Promise<void>;
  release(): void;
  close(): Promise<void>;
};

/** Opens all streams, and reads them to the end. Returns what `whileOpen` does while each waits in the middle. */
async function streamAtOnce<Value>(
  server: ServerProcess,
  upstream: Upstream,
  body: object,
  whileOpen?: () => Promise<Value>,
): Promise<Value | undefined> {
  const streams = await Promise.all(Array.from({ length: STREAMS }, () => post(server, body)));
  await Promise.all([upstream.allWait(), ...streams.map(stream => once(stream, 'readable'))]);
  const value = await whileOpen?.();
  upstream.release();
  await Promise.all(streams.map(expectStream));
  return value;
}

async function expectStream(stream: IncomingMessage): Promise<void> {
  const text = await readAll(stream);
  const pieces = text.matchAll(/"content":"([^"]*)"/g);
  if ([...pieces].map(([, piece]) => piece).join('') !== streamedText(CHUNKS))
    throw new Error('a stream is wrong');
}

/** A Chat Completions server whose streams wait in the middle until they are released. */
async function startUpstream(): Promise<Upstream> {
  const short = chunksOf(SHORT);
  const long = chunksOf(CHUNKS);
  const middle = long.indexOf('\n\n', long.length / 2) + 2;
  const message = { role: 'assistant', content: streamedText(SHORT), refusal: null, annotations: [] };
  const choice = { index: 0, message, logprobs: null, finish_reason: 'stop' };
  const whole = JSON.stringify({ ...HEAD, object: 'chat.completion', choices: [choice], usage: USAGE });
  let waiting: (() => void)[] = [];
  let full = Promise.withResolvers<void>();
  const server: Server = createServer(async (request, response) => {
    const { stream, model } = (await readAllOf(request)) as { stream?: boolean; model?: string };
    const type = stream === true ? 'text/event-stream' : 'application/json';
    response.writeHead(200, { 'content-type': type });
    if (model !== HELD) return response.end(stream === true ? short : whole);
    response.write(long.slice(0, middle));
    waiting.push(() => response.end(long.slice(middle)));
    return waiting.length === STREAMS ? full.resolve() : undefined;
  });
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    allWait: () => full.promise,
    release: () => {
      full = Promise.withResolvers();
      for (const each of waiting) each();
      waiting = [];
    },
    close: async () => {
      server.closeAllConnections();
      await new Promise(done => server.close(done));
    },
  };
}

const HEAD = { id: 'chatcmpl-1', created: 1_700_000_000, model: 'stand-in', system_fingerprint: 'fp_1' };
const USAGE = { prompt_tokens: 10, completion_tokens: 20, total_tokens: 30 };

/** The events of a stream of `count` pieces of text, as OpenAI's API sends them. */
function chunksOf(count: number): string {
  const chunk = (delta: object, finish_reason: string | null) =>
    `data: ${JSON.stringify({ ...HEAD, object: 'chat.completion.chunk', choices: [{ index: 0, delta, logprobs: null, finish_reason }], usage: null })}\n\n`;
  const words = streamedText(count).match(/\S+ /g) ?? [];
  const usage = { ...HEAD, object: 'chat.completion.chunk', choices: [], usage: USAGE };
  return [
    chunk({ role: 'assistant', content: '', refusal: null }, null),
    ...words.map(content => chunk({ content }, null)),
    chunk({}, 'stop'),
    `data: ${JSON.stringify(usage)}\n\n`,
    'data: [DONE]\n\n',
  ].join('');
}

async function readAllOf(request: IncomingMessage): Promise<unknown> {
  let text = '';
  for await (const chunk of request) text += chunk;
  return JSON.parse(text);
}
