import { StatementSync } from 'node:sqlite';
import { findAgent } from './agents.ts';
import { CrashHost } from './crash-host.ts';
import { driveChart } from './drive-chart.ts';
import { driveNaively } from './naive-loop.ts';
import { Outside } from './outside.ts';
import type { CrashPoint, Job, Outcome } from './scenario.ts';

let onCommit = () => {};

/** Calls `onCommit` before the COMMIT of each transaction that writes. */
function watchCommits(): void {
  const { run } = StatementSync.prototype;
  let writes = false;
  const watched: typeof run = function (this: StatementSync, ...values: unknown[]) {
    const { sourceSQL } = this;
    if (sourceSQL.startsWith('BEGIN')) writes = sourceSQL === 'BEGIN IMMEDIATE';
    else if (sourceSQL === 'COMMIT' && writes) onCommit();
    return Reflect.apply(run, this, values);
  };
  StatementSync.prototype.run = watched;
}

/**
 * A process of the matrix: `node worker.mjs JOBS`, where JOBS is a JSON list of jobs. It works on
 * them one after another, prints a line of JSON for each completed job, and kills itself where a job
 * requires it.
 */
async function work({ engine, agent, folder, kill }: Job): Promise<Outcome> {
  const outside = new Outside(folder);
  const passed: CrashPoint[] = [];
  let left = kill?.nth ?? 0;
  const reach = (point: CrashPoint) => {
    passed.push(point);
    if (point !== kill?.point) return;
    left -= 1;
    if (left > 0) return;
    outside.acknowledge({ type: 'killed', point });
    process.kill(process.pid, 'SIGKILL');
  };
  onCommit = engine === 'chart' ? () => reach('commit.before') : () => {};
  const scripted = findAgent(agent);
  const status =
    engine === 'naive'
      ? await driveNaively(scripted, { folder, outside, reach })
      : await driveChart(scripted, { folder, outside, reach, host: new CrashHost(reach) });
  return { folder, status, passed };
}

watchCommits();
const jobs: Job[] = JSON.parse(process.argv[2] ?? '[]');
for (const job of jobs) process.stdout.write(`${JSON.stringify(await work(job))}\n`);
process.exit();
