/**
 * `npm run bench`: the cost of a turn, compared with a hand-written loop that sends the same requests.
 *
 * `workloads/` has the measurements, `contenders/` the loops to compare, `peers/` those of other projects
 * (`--peers`), `provider.ts` the in-process model. Each repetition runs in its own process (`measure.ts`).
 * Times are never asserted; a run with a wrong result ends the benchmark with exit code 1.
 */
import { readFileSync } from 'node:fs';
import { arch, availableParallelism, cpus, loadavg, platform, totalmem } from 'node:os';
import { parseArgs } from 'node:util';
import { formatTable, type Samples } from './format-table.ts';
import { installPeers } from './install-peers.ts';
import { runWorkload } from './run-workload.ts';
import type { Workload } from './workload.ts';
import { findWorkload, workloads } from './workloads.ts';

const { only, json, peers } = readArguments();
const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
const versions = { agentchart: version, ...(peers && installPeers()) };
const machine = {
  node: process.versions.node,
  cpus: `${availableParallelism()} × ${cpus()[0]?.model.trim() ?? 'unknown'}`,
  system: `${platform()} ${arch()}`,
  memoryGb: Math.round(totalmem() / 2 ** 30),
  load: loadavg().map(load => Number(load.toFixed(2))),
};
const startedAt = performance.now();
const results: { workload: Workload; samples: Samples }[] = [];

if (!json) console.log(`Node ${machine.node}, ${machine.cpus}, load ${machine.load.join(' ')}. Medians.`);
const named = Object.entries(versions).map(entry => entry.join(' '));
if (!json) console.log(`${named.join(', ')}.\n`);
for (const workload of only) {
  const samples = await runWorkload(workload, { peers, onProgress: showProgress });
  showProgress('');
  results.push({ workload, samples });
  if (!json) console.log(`${formatTable(workload.title, workload.columns, samples)}\n`);
}
const date = new Date().toISOString().slice(0, 10);
if (json) console.log(JSON.stringify({ date, machine, versions, workloads: results.map(describe) }));
else console.log(`${Math.round((performance.now() - startedAt) / 1000)} s`);

function describe({ workload: { name, title }, samples }: (typeof results)[number]) {
  return { name, title, contenders: samples };
}

/** Shows progress on stderr: one updated line on a terminal, otherwise one line each. */
function showProgress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`);
  else if (text !== '') process.stderr.write(`${text}\n`);
}

function readArguments(): { only: readonly Workload[]; json: boolean; peers: boolean } {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        only: { type: 'string', multiple: true },
        json: { type: 'boolean', default: false },
        peers: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
    if (values.help) {
      console.log(describeUsage());
      process.exit(0);
    }
    const named = [...(values.only ?? []), ...positionals].map(findWorkload);
    return { only: named.length > 0 ? named : workloads, json: values.json, peers: values.peers };
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exit(2);
  }
}

function describeUsage(): string {
  const width = Math.max(...workloads.map(({ name }) => name.length));
  return `Usage: npm run bench -- [options] [WORKLOAD…]

Measures the cost of a turn and prints medians. Each repetition runs in its own process.

  --only NAME  the same as naming a workload
  --peers      also measure AI SDK, OpenAI Agents, Mastra, LangGraph.js and Portkey; installs them into bench/peers
  --json       print all repetitions as one JSON object, with the machine and all versions
  -h, --help   show this help

Workloads (+ includes --peers):
${workloads.map(({ name, title, peers }) => `  ${name.padEnd(width)} ${peers ? '+' : ' '} ${title}`).join('\n')}`;
}
