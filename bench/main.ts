/**
 * `npm run bench`: what a turn costs, against a loop written by hand over the same client, in one run.
 * `--help` says what else there is.
 * Nothing is asserted on time; a run that ends wrong ends the benchmark with exit code 1.
 */
import { availableParallelism, cpus, loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { formatTable, type Samples } from './format-table.ts';
import { installPeers } from './install-peers.ts';
import { runWorkload } from './run-workload.ts';
import type { Workload } from './workload.ts';
import { findWorkload, workloads } from './workloads.ts';

const { only, json, peers } = readArguments();
if (peers) installPeers();
const machine = {
  node: process.versions.node,
  cpus: `${availableParallelism()} × ${cpus()[0]?.model.trim() ?? 'unknown'}`,
  load: loadavg().map(load => Number(load.toFixed(2))),
};
const begun = performance.now();
const results: { workload: Workload; samples: Samples }[] = [];

if (!json) console.log(`Node ${machine.node}, ${machine.cpus}, load ${machine.load.join(' ')}. Medians.\n`);
for (const workload of only) {
  const samples = await runWorkload(workload, { peers, onProgress: showProgress });
  showProgress('');
  results.push({ workload, samples });
  if (!json) console.log(`${formatTable(workload.title, workload.columns, samples)}\n`);
}
if (json) console.log(JSON.stringify({ machine, workloads: results.map(describe) }));
else console.log(`${Math.round((performance.now() - begun) / 1000)} s`);

function describe({ workload: { name, title }, samples }: (typeof results)[number]) {
  return { name, title, contenders: samples };
}

/** On a terminal one line that changes; else a line each. */
function showProgress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`);
  else if (text !== '') process.stderr.write(`${text}\n`);
}

function readArguments(): { only: readonly Workload[]; json: boolean; peers: boolean } {
  try {
    const { values } = parseArgs({
      options: {
        only: { type: 'string', multiple: true },
        json: { type: 'boolean', default: false },
        peers: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
    if (values.help) {
      console.log(describeUse());
      process.exit(0);
    }
    return { only: values.only?.map(findWorkload) ?? workloads, json: values.json, peers: values.peers };
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exit(2);
  }
}

function describeUse(): string {
  const width = Math.max(...workloads.map(({ name }) => name.length));
  return `Usage: npm run bench -- [options]

Measures what a turn costs, each repetition in a process of its own, and prints medians.

  --only NAME  one workload; again for more
  --peers      other projects' loops too, installed into bench/peers first
  --json       every repetition, as one JSON object
  -h, --help   this

Workloads (+ with --peers):
${workloads.map(({ name, title, peers }) => `  ${name.padEnd(width)} ${peers ? '+' : ' '} ${title}`).join('\n')}`;
}
