import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { EngineError, messageOf } from '../../../../protocol/error.ts';
import { makeRandom } from '../../../crash/plan.ts';
import { openStore } from '../../chaos/open-store.ts';
import { carelessStore } from './careless-store.ts';
import {
  ASK,
  ENDED,
  findFault,
  makeAgent,
  note,
  pathOf,
  RUNS,
  secretOf,
  VALUES,
  valuesIn,
  WAITING,
} from './redacted-runs.ts';

/**
 * A process of the attack: `node redaction-process.ts FOLDER DB ROLE SEED [careless]`. It works until the file `over` is
 * in the folder; redactors end when their values are redacted.
 */
const [folder = '', db = '', role = '', seed = '1', care] = process.argv.slice(2);
const opened = openStore(db);
const store = care === 'careless' ? carelessStore(opened) : opened;
const random = makeRandom(Number(seed));
const isOver = () => existsSync(join(folder, 'over'));

/** When the command began that this process carries out, in ms since the epoch. */
let since = 0;
const agent = makeAgent(store, ({ transcript }) =>
  note(folder, 'asked', { since, values: valuesIn(JSON.stringify(transcript)) }),
);

function pick<Value>(values: readonly Value[]): Value | undefined {
  return values[Math.floor(random() * values.length)];
}

/** The runs are driven, forked and redacted at the same time: some commands are refused. */
async function attempt(work: () => Promise<unknown>): Promise<boolean> {
  since = Date.now();
  try {
    await work();
    return true;
  } catch (error) {
    if (error instanceof EngineError && ['refused', 'store-locked'].includes(error.code)) return false;
    throw error;
  }
}

/** How often what is careless is refused before it leaves a value: a run that it broke refuses every redaction. */
const CARELESS_TRIES = 5;

/** Redacts the values of all runs whose place has the remainder `share` of two. */
async function redact(share: number): Promise<void> {
  const places = Array.from({ length: VALUES }, (_, place) => place).filter(place => place % 2 === share);
  const left = places.flatMap(place => RUNS.map(runId => ({ runId, place, tries: 0 })));
  for (let next = left.shift(); next !== undefined; next = left.shift()) {
    const { runId, place, tries } = next;
    const isDone = await attempt(() => store.redact(runId, { paths: [pathOf(place)] }));
    if (isDone) note(folder, 'redacted', { runId, value: secretOf(runId, place), at: Date.now() });
    else if (care === undefined || tries < CARELESS_TRIES) left.push({ ...next, tries: tries + 1 });
    await delay(random() * 60);
  }
}

/** Handles on the waiting runs, opened before anything was redacted. */
const held = await Promise.all(WAITING.map(runId => agent.open(runId)));

async function append(): Promise<void> {
  const run = pick(held);
  await run?.send(`${ASK} again`);
  await run?.settled();
}

async function proceed(): Promise<void> {
  const later = await agent.start('And now?', { continues: pick(ENDED) ?? ENDED[0] });
  await later.settled();
}

async function fork(): Promise<void> {
  const begun = since;
  const run = await agent.open(pick(RUNS) ?? RUNS[0]);
  const forked = await run.fork({ at: 1 + Math.floor(random() * 3), paused: true });
  note(folder, 'forked', { since: begun, runId: forked.id });
}

async function load(): Promise<void> {
  const fault = await findFault(store, pick(RUNS) ?? RUNS[0]);
  if (fault !== undefined) note(folder, 'faults', { what: fault });
}

/** Does one of these again and again, and pauses as long each time: a run that is driven refuses redactions. */
async function repeat(works: readonly (() => Promise<void>)[]): Promise<void> {
  while (!isOver()) {
    await attempt(async () => await pick(works)?.());
    await delay(Date.now() - since + random() * 60);
  }
}

const ROLES: Readonly<Record<string, () => Promise<void>>> = {
  'redact-0': () => redact(0),
  'redact-1': () => redact(1),
  write: () => repeat([append, proceed]),
  copy: () => repeat([fork, load]),
};

try {
  await ROLES[role]?.();
} catch (error) {
  note(folder, 'faults', { what: `${role} failed: ${messageOf(error)}` });
}
await store.close();
process.exit();
