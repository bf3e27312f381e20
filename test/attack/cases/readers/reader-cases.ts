import { once } from 'node:events';
import { Agent, get, type IncomingMessage } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { crc32 } from 'node:zlib';
import type { AttackCase } from '../attack-case.ts';
import { type Finding, found } from '../finding.ts';
import type { Listening, ReaderServerData, Stopped } from './reader-server.ts';
import type { ReaderWatchData, Watched } from './reader-watch.ts';

/** The longest that a server may work while readers catch up before its timers and other requests have their turn, in ms of processor time. */
const LONGEST_TURN_MS = 200;

/** How long `/healthz` may take meanwhile, in ms: the readers' process shares the processors with the server. */
const LONGEST_HEALTH_MS = 5_000;

/** How long slow readers pause, and how much later late readers come, in ms. */
const PAUSE_MS = 300;

/** How many readers of each kind come at once. */
type Readers = {
  /** Of `/runs/ID/events`, from the beginning. */
  whole?: number;
  /** The same, each after another entry. */
  resuming?: number;
  /** The same, pausing before they read. */
  slow?: number;
  /** The same, that never read. */
  stalled?: number;
  /** The same, that come while the others read. */
  late?: number;
  /** Of `/events`. */
  merged?: number;
  /** Of `/v1/responses/ID?stream=true`. */
  replays?: number;
  /** The same, read from its journal. */
  recalls?: number;
};

type Read = { kind: string; bytes: number; sum: number; isWhole: boolean };

const KEEP_ALIVE = Buffer.from(': here\n\n');
const RUN = '/runs/run_big/events';

async function attackWithReaders(folder: string, readers: Readers, isCareless = false): Promise<Finding[]> {
  const workerData: ReaderServerData = { folder, isCareless };
  const server = new Worker(new URL('reader-server.ts', import.meta.url), { workerData });
  const [{ port, heldRunId, responseId }]: [Listening] = (await once(server, 'message')) as [Listening];
  const watching: ReaderWatchData = { folder, port, runId: heldRunId };
  const watch = new Worker(new URL('reader-watch.ts', import.meta.url), { workerData: watching });
  await once(watch, 'message');
  const agent = new Agent({ maxSockets: Number.POSITIVE_INFINITY });
  const open = async (path: string) => {
    const asked = get({ host: '127.0.0.1', port, path, agent });
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    if (response.statusCode !== 200) throw new Error(`${path}: ${response.statusCode}`);
    return response;
  };
  const response = `/v1/responses/${responseId}?stream=true`;
  const stalled: IncomingMessage[] = [];
  const readOf: Record<keyof Readers, (place: number) => Promise<Read | null>> = {
    whole: async () => await readAll('whole', await open(RUN)),
    resuming: async place => await readAll(`after ${place}`, await open(`${RUN}?after=${place}`)),
    slow: async () => {
      const response = await open(RUN);
      await wait(PAUSE_MS);
      return await readAll('whole', response);
    },
    stalled: async () => {
      stalled.push(await open(RUN));
      return null;
    },
    late: async () => {
      await wait(PAUSE_MS);
      return await readAll('whole', await open(RUN));
    },
    merged: async () => await readAll('merged', await open('/events?run=run_big')),
    replays: async () => await readAll('replay', await open(response)),
    recalls: async () => await readAll('recall', await open(`${response}&starting_after=1000000`)),
  };
  const reads = await Promise.all(
    Object.entries(readers).flatMap(([kind, count]) =>
      Array.from({ length: count }, (_, place) => readOf[kind as keyof Readers](place)),
    ),
  );
  watch.postMessage('stop');
  const [{ lapses, longestHealthMs }] = (await once(watch, 'message')) as [Watched];
  for (const response of stalled) response.destroy();
  agent.destroy();
  server.postMessage('stop');
  const [{ busyMs, heldStatus }]: [Stopped] = (await once(server, 'message')) as [Stopped];
  await server.terminate();
  return [
    ...checkReads(reads.filter(read => read !== null)),
    ...(busyMs > LONGEST_TURN_MS
      ? [found('frozen', `the server worked for ${busyMs} ms without a pause`)]
      : []),
    ...(longestHealthMs > LONGEST_HEALTH_MS
      ? [found('frozen', `/healthz took ${Math.round(longestHealthMs)} ms`)]
      : []),
    ...(lapses > 0 ? [found('frozen', `the lease of the driven run had run out ${lapses} times`)] : []),
    ...(heldStatus === 'finished' ? [] : [found('stranded', `the driven run is ${heldStatus}`)]),
  ];
}

async function readAll(kind: string, response: IncomingMessage): Promise<Read> {
  let [bytes, sum, last] = [0, 0, ''];
  for await (const chunk of response as AsyncIterable<Buffer>) {
    if (KEEP_ALIVE.equals(chunk)) continue;
    bytes += chunk.length;
    sum = crc32(chunk, sum);
    last = (last + chunk.subarray(-60).toString()).slice(-60);
  }
  return { kind, bytes, sum, isWhole: /event: end|\[DONE\]/.test(last) };
}

/** All readers of a kind read the same bytes, up to the end. */
function checkReads(reads: readonly Read[]): Finding[] {
  const first = new Map<string, Read>();
  return reads.flatMap(read => {
    const { kind, bytes, sum, isWhole } = read;
    const same = first.get(kind) ?? read;
    first.set(kind, same);
    if (!isWhole) return [found('lost', `a reader (${kind}) got ${bytes} bytes, without the end`)];
    return same.sum === sum
      ? []
      : [found('lost', `two readers (${kind}) got ${bytes} and ${same.bytes} bytes`)];
  });
}

export const readerCases: readonly AttackCase[] = [
  {
    name: '300 readers of a run',
    short: true,
    run: ({ folder }) => attackWithReaders(folder, { whole: 300 }),
  },
  { name: '1,100 readers of a run', run: ({ folder }) => attackWithReaders(folder, { whole: 1_100 }) },
  {
    name: 'slow, stalled, late and resuming readers',
    run: ({ folder }) =>
      attackWithReaders(folder, { whole: 200, resuming: 100, slow: 100, stalled: 100, late: 100 }),
  },
  { name: '200 readers of all events', run: ({ folder }) => attackWithReaders(folder, { merged: 200 }) },
  {
    name: '400 replays of a response',
    run: ({ folder }) => attackWithReaders(folder, { replays: 200, recalls: 200 }),
  },
  {
    name: 'a careless server',
    control: true,
    short: true,
    run: ({ folder }) => attackWithReaders(folder, { whole: 300 }, true),
  },
];
