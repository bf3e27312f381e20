import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createAgent } from '../../../agent/index.ts';
import { systemHost } from '../../../engine/host/host.ts';
import { forkRun } from '../../../engine/run/forks/fork-run.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import type { RunCommand } from '../../../protocol/run-command.ts';
import type { RunView } from '../../../protocol/run-view.ts';
import type { Store } from '../../../protocol/store.ts';
import { makeRandom } from '../../crash/plan.ts';
import { POSTGRES_BIN, startPostgres } from '../../support/stores/postgres-server.ts';
import boss, { QUIET, readActs } from '../chaos/chaos-agent.ts';
import { type ChaosProcess, type Place, startServer, startWorker } from '../chaos/chaos-process.ts';
import { openStore } from '../chaos/open-store.ts';
import type { AttackCase } from './attack-case.ts';
import { type Finding, found } from './finding.ts';

/*
 * Forks at an entry after which `once` tools run, beside workers that take every run they find. A fork that is refused
 * must leave nothing, and one that is acknowledged must have its commands, which let no tool run.
 */

const FORKS = 30;
const AT_ONCE = 6;
/** How long an answer, and then the end of all work, is waited for, in ms: a case has less than a minute. */
const PATIENCE_MS = 12_000;

/** What a fork asks for, and the event that proves that it has it; `null` for a fork that must be refused. */
type Wish = { commands: readonly RunCommand[]; proof: RunEvent['type'] | null };

const HOLD: Wish = {
  commands: [{ type: 'breakpoints', breakpoints: [{ id: 'hold', next: 'executeTools' }] }],
  proof: 'breakpoints.set',
};
const DROP: Wish = {
  commands: [{ type: 'edit-turn', text: 'Nothing to do.', calls: [] }],
  proof: 'turn.edited',
};
const REFUSED: Wish = {
  commands: [
    { type: 'set-params', params: {} },
    { type: 'approve', callId: 'call_none' },
  ],
  proof: null,
};
const WISHES = [REFUSED, HOLD, REFUSED, DROP] as const;

/** An acknowledged fork. */
type Acknowledged = { runId: string; wish: Wish };

/** Makes forks of `original` at entry `at`, and returns those that were acknowledged. */
type MakeForks = (
  scene: { store: Store; place: Place; servers: readonly Server[]; seed: number },
  original: string,
  at: number,
) => Promise<{ acknowledged: Acknowledged[]; findings: Finding[] }>;

type Server = { process: ChaosProcess; url: string };

async function attackForks(
  { folder, seed }: { folder: string; seed: number },
  db: string,
  makeForks: MakeForks,
): Promise<Finding[]> {
  const compiled = process.env.NODE_COMPILE_CACHE ?? join(folder, 'compiled');
  const place = { folder, db, compiled };
  const store = openStore(db);
  writeFileSync(join(folder, QUIET), '');
  const processes: ChaosProcess[] = [];
  try {
    const servers: Server[] = [];
    for (const [server, listening] of [startServer(place, false), startServer(place, false)]) {
      processes.push(server);
      const url = await listening;
      if (url === null) throw new Error(`the server did not start: ${server.errors}`);
      servers.push({ process: server, url });
    }
    processes.push(startWorker(place, false), startWorker(place, false));
    const { runId, at } = await startOriginal(store, servers);
    const seen = new Set<string>();
    let isOver = false;
    const watching = (async () => {
      for (; !isOver; await delay(20)) for (const id of await listRuns(store)) seen.add(id);
    })();
    const made = await makeForks({ store, place, servers, seed }, runId, at);
    await waitUntil(async () => (await store.list({ status: 'running', limit: 1 })).runs.length === 0);
    isOver = true;
    await watching;
    return [...made.findings, ...(await check(store, place, { original: runId, seen, ...made }))];
  } finally {
    for (const one of processes) one.signal('SIGKILL');
    await Promise.all(processes.map(({ ended }) => ended));
    await store.close();
  }
}

async function startOriginal(store: Store, servers: readonly Server[]) {
  const { answer } = await post(servers, '/runs', { agent: 'boss', input: 'go 1' });
  const { runId } = answer as RunView;
  await waitUntil(async () => (await store.get(runId))?.status === 'waiting');
  const turn = (await store.read(runId)).find(({ event }) => event.type === 'turn.completed');
  return { runId, at: turn?.seq ?? 1 };
}

async function listRuns(store: Store): Promise<string[]> {
  return (await store.list({ limit: 1000 })).runs.map(({ runId }) => runId);
}

async function waitUntil(isSo: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  while (!(await isSo()) && performance.now() < deadline) await delay(50);
}

/** Posts to any server that lives until one answers: an answer is lost if its server is killed. */
async function post(
  servers: readonly Server[],
  path: string,
  body: object,
  random = Math.random,
): Promise<{ status: number; answer: unknown }> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const alive = servers.filter(({ process: { isOver } }) => !isOver);
    const server = alive[Math.floor(random() * alive.length)];
    if (server === undefined || performance.now() > deadline) throw new Error(`${path} was not answered`);
    try {
      const response = await fetch(server.url + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(PATIENCE_MS),
      });
      const answer: unknown = await response.json();
      if (response.status < 500) return { status: response.status, answer };
    } catch {
      // Its answer is lost.
    }
    await delay(20);
  }
}

/** Forks through two servers, of which one is killed, and repeats each request: as it was, and with other commands. */
const forkOverHttp: MakeForks = async ({ servers, seed }, original, at) => {
  const random = makeRandom(seed);
  const acknowledged: Acknowledged[] = [];
  const findings: Finding[] = [];
  const left = Array.from({ length: FORKS }, (_, number) => number);
  const fork = (body: object) => post(servers, `/runs/${original}/fork`, body, random);
  const lane = async () => {
    for (let number = left.shift(); number !== undefined; number = left.shift()) {
      if (left.length === Math.floor(FORKS / 2)) servers[0]?.process.signal('SIGKILL');
      const wish = WISHES[number % WISHES.length] ?? REFUSED;
      const body = { at, commands: wish.commands, requestId: `fork-${number}` };
      const answers = await Promise.all([fork(body), fork(body)]);
      answers.push(await fork(body));
      const expected = wish.proof === null ? 404 : 201;
      for (const { status, answer } of answers) {
        if (status !== expected)
          findings.push(found('broken', `fork ${number}: ${status} ${JSON.stringify(answer).slice(0, 200)}`));
        if (status === 201) acknowledged.push({ runId: (answer as RunView).runId, wish });
      }
      if (wish.proof === null) continue;
      const { status } = await fork({ ...body, commands: REFUSED.commands });
      if (status !== 409) findings.push(found('broken', `fork ${number} with other commands: ${status}`));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  const ids = new Set(acknowledged.map(({ runId }) => runId));
  const wanted = Array.from({ length: FORKS }, (_, number) => WISHES[number % WISHES.length]?.proof);
  const count = wanted.filter(proof => proof !== null).length;
  if (ids.size !== count)
    findings.push(found('broken', `${count} forks were asked for, and ${ids.size} made`));
  return { acknowledged, findings };
};

/**
 * Creates each fork before its commands, and deletes it if they are refused. Each time a worker is quicker, and each
 * time that a fork is to be held, the process dies in between: a repetition finds the fork.
 */
const forkCarelessly: MakeForks = async ({ store }, original, at) => {
  const agent = createAgent({ ...boss.options, store, host: systemHost });
  const acknowledged: Acknowledged[] = [];
  for (const wish of [REFUSED, HOLD]) {
    const { runId } = await forkRun({ store, host: systemHost }, original, at);
    await waitUntil(async () => (await store.read(runId)).some(({ event }) => event.type === 'tool.started'));
    await waitUntil(async () => (await store.get(runId))?.status !== 'running');
    if (wish.proof !== null) acknowledged.push({ runId, wish });
    else if (!(await (await agent.open(runId)).submit(wish.commands)).accepted) await store.delete(runId);
  }
  await agent.close();
  return { acknowledged, findings: [] };
};

type Evidence = { original: string; seen: ReadonlySet<string>; acknowledged: readonly Acknowledged[] };

async function check(
  store: Store,
  { folder }: Place,
  { original, seen, acknowledged }: Evidence,
): Promise<Finding[]> {
  const there = new Set(await listRuns(store));
  const wishes = new Map(acknowledged.map(({ runId, wish }) => [runId, wish]));
  const executed = readActs(folder).filter(({ runId }) => runId !== original);
  const gone = [...new Set([...seen, ...wishes.keys()])].filter(runId => !there.has(runId));
  const refused = [...there].filter(runId => runId !== original && !wishes.has(runId));
  const findings = [
    ...executed.map(({ tool, runId }) =>
      found('broken', `${wishes.has(runId) ? 'a held' : 'a refused'} fork, ${runId}, executed ${tool}`),
    ),
    ...gone.map(runId => found('lost', `the journal of ${runId} is gone`)),
    ...refused.map(runId => found('broken', `fork ${runId} was refused, and is there`)),
  ];
  for (const [runId, { proof }] of wishes) {
    if (!there.has(runId)) continue;
    const times = (await store.read(runId)).filter(({ event }) => event.type === proof).length;
    if (times !== 1) findings.push(found('lost', `fork ${runId} has ${proof} ${times} times`));
  }
  return findings;
}

/** Caught only if a refused fork executed a tool, a fork has no commands and a journal is gone. */
async function controlForks(world: { folder: string; seed: number }): Promise<Finding[]> {
  const findings = await attackForks(world, join(world.folder, 'runs.db'), forkCarelessly);
  const marks = ['a refused fork', 'breakpoints.set 0 times', 'is gone'];
  return marks.every(mark => findings.some(({ what }) => what.includes(mark))) ? findings : [];
}

async function attackOnPostgres(world: { folder: string; seed: number }): Promise<Finding[]> {
  if (POSTGRES_BIN === undefined) return [];
  const server = await startPostgres();
  try {
    return await attackForks(world, await server.createDatabase(), forkOverHttp);
  } finally {
    await server.stop();
  }
}

export const forkCases: readonly AttackCase[] = [
  {
    name: 'refused, held and repeated, on SQLite',
    short: true,
    run: world => attackForks(world, join(world.folder, 'runs.db'), forkOverHttp),
  },
  { name: 'refused, held and repeated, on PostgreSQL', run: attackOnPostgres },
  { name: 'a careless order', control: true, short: true, run: controlForks },
];
