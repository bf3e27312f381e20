import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { inParallel, post, readAll } from '../gateway/client.ts';
import type { Spent } from '../gateway/server.ts';
import { answerStream, streamedText } from '../provider.ts';
import type { Workload } from '../workload.ts';

const REQUESTS = 1_000;
const LANES = 16;
const STREAMS = 500;
const CHUNKS = 100;
const SHORT = 10;
/** The model whose streams wait in the middle. */
const HELD = 'held';
const MEMORY = 'gateway, memory';
const SQLITE = 'gateway, SQLite';

/** The Responses gateway compared with a proxy that passes requests on unread, in front of the same stand-in. */
export const gateway: Workload = {
  name: 'gateway',
  title: `The gateway: ${REQUESTS.toLocaleString('en-US')} requests, ${LANES} at a time; ${STREAMS} concurrent streams of ${CHUNKS} chunks`,
  contenders: ['proxy', MEMORY, SQLITE],
  repetitions: 3,
  columns: [
    { label: 'requests/s', metric: 'requestsPerSecond' },
    { label: 'CPU ms/request', metric: 'cpuMsPerRequest', digits: 2 },
    { label: '× proxy', metric: 'cpuMsPerRequest', as: 'ratio', digits: 2, aims: { [MEMORY]: '1.5×' } },
    { label: 'CPU ms/stream', metric: 'cpuMsPerStream', digits: 2 },
    { label: '× proxy', metric: 'cpuMsPerStream', as: 'ratio', digits: 2, aims: { [MEMORY]: '1.5×' } },
    { label: 'KB/open stream', metric: 'kbPerStream' },
  ],
  async measure(contender) {
    const upstream = await startUpstream();
    const server = await startServer(contender, upstream.url);
    const body = { model: 'stand-in', input: 'Tell me.' };
    const ask = async () => {
      const text = await readAll(await post(server.port, body));
      if (!text.includes(streamedText(SHORT))) throw new Error(`the answer is wrong: ${text}`);
    };
    await inParallel(REQUESTS / 2, LANES, ask);
    const before = await server.measure();
    const startedAt = performance.now();
    await inParallel(REQUESTS, LANES, ask);
    const wallMs = performance.now() - startedAt;
    const after = await server.measure();
    await streamAtOnce(server, upstream);
    const idle = await server.measure();
    const { open, end } = await streamAtOnce(server, upstream);
    await server.stop();
    await upstream.close();
    return {
      requests: '',
      metrics: {
        requestsPerSecond: (REQUESTS / wallMs) * 1000,
        cpuMsPerRequest: (after.cpuMs - before.cpuMs) / REQUESTS,
        cpuMsPerStream: (end.cpuMs - idle.cpuMs) / STREAMS,
        kbPerStream: (open.bytes - idle.bytes) / STREAMS / 1024,
      },
    };
  },
};

type Upstream = {
  url: string;
  /** Resolves when every stream waits in its middle. */
  allWait(): Promise<void>;
  release(): void;
  close(): Promise<void>;
};
type Contender = { port: number; measure(): Promise<Spent>; stop(): Promise<void> };

/** Opens all streams, measures while each waits in the middle, and reads them to the end. */
async function streamAtOnce(server: Contender, upstream: Upstream): Promise<{ open: Spent; end: Spent }> {
  const streams = await Promise.all(
    Array.from({ length: STREAMS }, () =>
      post(server.port, { model: HELD, input: 'Tell me.', stream: true }),
    ),
  );
  await Promise.all([upstream.allWait(), ...streams.map(stream => once(stream, 'readable'))]);
  const open = await server.measure();
  upstream.release();
  await Promise.all(streams.map(expectStream));
  return { open, end: await server.measure() };
}

async function expectStream(stream: IncomingMessage): Promise<void> {
  const text = await readAll(stream);
  if (!text.includes(streamedText(CHUNKS))) throw new Error('a stream is wrong');
}

/** A Responses server whose streams wait in the middle until they are released. */
async function startUpstream(): Promise<Upstream> {
  const short = await answerStream(SHORT)('').text();
  const long = await answerStream(CHUNKS)('').text();
  const middle = long.indexOf('\n\n', long.length / 2) + 2;
  const whole = /"response":(.*)\}\n\n$/.exec(short)?.[1];
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

async function readAllOf(request: IncomingMessage): Promise<unknown> {
  let text = '';
  for await (const chunk of request) text += chunk;
  return JSON.parse(text);
}

async function startServer(contender: string, upstream: string): Promise<Contender> {
  const script = fileURLToPath(new URL('../gateway/server.ts', import.meta.url));
  const child: ChildProcess = fork(script, [contender, upstream], { execArgv: ['--expose-gc'] });
  const [{ port }] = (await once(child, 'message')) as [{ port: number }];
  return {
    port,
    measure: async () => {
      const answered = once(child, 'message');
      child.send('measure');
      return (await answered)[0] as Spent;
    },
    stop: async () => {
      const ended = once(child, 'exit');
      child.disconnect();
      await ended;
    },
  };
}
