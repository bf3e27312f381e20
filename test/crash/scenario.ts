import type { FaultPoint } from '../../engine/host/host.ts';

/**
 * The points where a process of the matrix can be killed: the engine's own points, inside a tool right before and
 * right after it acts, when a person got an acknowledgement and has not yet recorded it, and in the store between
 * the writes of a transaction and its COMMIT.
 */
export type CrashPoint = FaultPoint | 'act.before' | 'act.after' | 'acknowledged.before' | 'commit.before';

const EVERY_POINT: Readonly<Record<CrashPoint, true>> = {
  'create.before': true,
  'create.after': true,
  'claim.before': true,
  'claim.after': true,
  'append.before': true,
  'append.after': true,
  'renew.before': true,
  'renew.after': true,
  'effect.before': true,
  'effect.after': true,
  'report.before': true,
  'report.after': true,
  'model.before': true,
  'model.after': true,
  'compaction.before': true,
  'compaction.after': true,
  'prepare.before': true,
  'prepare.after': true,
  'tool.before': true,
  'tool.after': true,
  'reconcile.before': true,
  'reconcile.after': true,
  'input.before': true,
  'input.after': true,
  'snapshot.before': true,
  'snapshot.after': true,
  'release.before': true,
  'release.after': true,
  'blob.before': true,
  'blob.after': true,
  'act.before': true,
  'act.after': true,
  'acknowledged.before': true,
  'commit.before': true,
};

export const POINTS = Object.keys(EVERY_POINT) as readonly CrashPoint[];

/** The process is killed when it reaches `point` for the `nth` time, counted from 1. */
export type Kill = { point: CrashPoint; nth: number };

export type Engine = 'chart' | 'naive';

/** One run of an agent: its n-th process is killed at the n-th kill, and the last one continues to the end. */
export type Scenario = { engine: Engine; agent: string; kills: readonly Kill[] };

/** For example `batch:tool.after#2+reconcile.before#1`, or `naive/batch:…` for the naive engine. */
export function nameScenario({ engine, agent, kills }: Scenario): string {
  const places = kills.map(({ point, nth }) => `${point}#${nth}`).join('+');
  return `${engine === 'naive' ? 'naive/' : ''}${agent}:${places}`;
}

/** Parses the name of a scenario. Throws for an invalid name. */
export function readScenario(name: string): Scenario {
  const [, naive, agent, places] = /^(naive\/)?(\w+):(.*)$/.exec(name) ?? [];
  if (agent === undefined || places === undefined) throw new Error(describeName(name));
  const kills = places
    .split('+')
    .filter(Boolean)
    .map(place => readKill(place, name));
  return { engine: naive === undefined ? 'chart' : 'naive', agent, kills };
}

function readKill(place: string, name: string): Kill {
  const [word, count] = place.split('#');
  const point = POINTS.find(known => known === word);
  const nth = Number(count);
  if (point === undefined || !Number.isInteger(nth) || nth < 1) throw new Error(describeName(name));
  return { point, nth };
}

function describeName(name: string): string {
  return `"${name}" is no scenario: expected AGENT:POINT#N or AGENT:POINT#N+POINT#N, such as batch:tool.after#1.`;
}

/** A job of a worker process: one run of a scenario, in its folder. */
export type Job = { engine: Engine; agent: string; folder: string; kill: Kill | null };

/** Reports a completed job: the points it passed, in order. */
export type Outcome = { folder: string; status: string; passed: CrashPoint[] };
