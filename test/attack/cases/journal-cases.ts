import { join } from 'node:path';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { tool } from '../../../agent/index.ts';
import { systemHost } from '../../../engine/host/host.ts';
import type { Store } from '../../../protocol/store.ts';
import { createRunsApp } from '../../../server/app.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import type { AttackCase } from './attack-case.ts';
import { type Finding, found } from './finding.ts';

const ORIGIN = 'http://127.0.0.1:4100';
const BATCH = 1_000;

/** The limit on entries that the store reads per entry received: pages overlap, and the run is folded once. */
const MOST_READS_PER_ENTRY = 3;

/** The interval at which the lease is checked while clients read, in ms. */
const LOOK_MS = 200;

type Reading = { entries: number; readers: number };

/** The store; counts the entries that its `read` returns. */
function countReads(store: Store, onRead: (entries: number) => void): Store {
  return new Proxy(store, {
    get(target, property) {
      const member: unknown = Reflect.get(target, property);
      if (typeof member !== 'function') return member;
      if (property !== 'read') return member.bind(target);
      return async (...args: unknown[]) => {
        const result: unknown = await Reflect.apply(member, target, args);
        if (Array.isArray(result)) onRead(result.length);
        return result;
      };
    },
  });
}

async function writeLongRun(store: Store, runId: string, entries: number): Promise<void> {
  const agent = createAgent({ name: 'long', model: scripted([{ text: 'done' }]), store });
  const run = await agent.start('go', { runId, paused: true });
  await run.settled();
  let { seq } = (await store.get(runId)) ?? { seq: 0 };
  while (seq < entries) {
    const events = Array.from({ length: Math.min(BATCH, entries - seq) }, (_, place) => ({
      type: 'params.changed' as const,
      at: Date.now(),
      params: { instructions: `These are instructions number ${seq + place}.` },
    }));
    const appended = await store.append(runId, { after: seq, input: true }, events, { status: 'waiting' });
    if (appended.type !== 'appended') throw new Error(`the long run was not written: ${appended.type}`);
    seq = appended.seq;
  }
}

/** A run whose only tool works until `release`, so that its lease must be renewed meanwhile. */
async function startHeldRun(store: Store) {
  const released = Promise.withResolvers<void>();
  const hold = tool({
    name: 'hold',
    description: 'Holds.',
    input: z.object({}),
    sideEffect: 'once',
    run: () => released.promise.then(() => 'held'),
  });
  const model = scripted([{ toolCalls: [{ name: 'hold' }] }, { text: 'done' }]);
  const agent = createAgent({ name: 'held', model, tools: [hold], store });
  const run = await agent.start('go');
  return { run, release: released.resolve };
}

async function readLongRun(folder: string, { entries, readers }: Reading): Promise<Finding[]> {
  let reads = 0;
  const plain = sqlite(join(folder, 'runs.db'));
  const runId = 'run_long';
  await writeLongRun(plain, runId, entries);
  const held = await startHeldRun(plain);
  const store = countReads(plain, count => {
    reads += count;
  });
  const app = createRunsApp({ store, agents: new Map(), log: () => {} });
  let lapses = 0;
  let looked = 0;
  const watchLease = async () => {
    const { leaseUntil = 0 } = (await plain.get(held.run.id)) ?? {};
    if (leaseUntil < systemHost.now()) lapses += 1;
  };
  const read = async () => {
    const url = `${ORIGIN}/runs/${runId}/events`;
    const response = await app.request(url, { headers: { host: '127.0.0.1:4100' } });
    let text = '';
    let seen = 0;
    for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += chunk;
      const frames = text.split('\n\n');
      text = frames.pop() ?? '';
      seen += frames.filter(frame => frame.includes('event: journal')).length;
      if (systemHost.now() - looked > LOOK_MS) {
        looked = systemHost.now();
        await watchLease();
      }
      if (seen >= entries) return seen;
    }
    return seen;
  };
  const seen = await Promise.all(Array.from({ length: readers }, read));
  held.release();
  const settled = await held.run.settled();
  app.close();
  await plain.close();
  const most = MOST_READS_PER_ENTRY * readers * entries;
  return [
    ...seen.flatMap(count =>
      count === entries ? [] : [found('lost', `a reader got ${count} of ${entries}`)],
    ),
    ...(reads > most ? [found('frozen', `${reads} entries were read for ${readers} × ${entries}`)] : []),
    ...(lapses > 0 ? [found('frozen', `a lease had run out ${lapses} times while the run was read`)] : []),
    ...(settled.status === 'finished' ? [] : [found('stranded', `the held run is ${settled.status}`)]),
  ];
}

/** Reads everything after the current position for every page. */
async function readCarelessly({ folder }: { folder: string }): Promise<Finding[]> {
  const [entries, page] = [1_000, 50];
  let reads = 0;
  const plain = sqlite(join(folder, 'runs.db'));
  const store = countReads(plain, count => {
    reads += count;
  });
  await writeLongRun(plain, 'run_long', entries);
  for (let after = 0; after < entries; after += page) await store.read('run_long', after);
  await plain.close();
  return reads > MOST_READS_PER_ENTRY * entries ? [found('frozen', `${reads} for ${entries}`)] : [];
}

export const journalCases: readonly AttackCase[] = [
  {
    name: '5,000 entries and two readers',
    short: true,
    run: ({ folder }) => readLongRun(folder, { entries: 5_000, readers: 2 }),
  },
  {
    name: '50,000 entries and five readers',
    run: ({ folder }) => readLongRun(folder, { entries: 50_000, readers: 5 }),
  },
  { name: 'a careless page', control: true, short: true, run: readCarelessly },
];
