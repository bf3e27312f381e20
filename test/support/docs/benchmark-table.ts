import { readFileSync } from 'node:fs';
import * as z from 'zod';
import { tabulate } from '../../../bench/format-table.ts';
import { findWorkload } from '../../../bench/workloads.ts';

const TABLES = /(<!-- benchmarks:begin .*-->\n)[\s\S]*(<!-- benchmarks:end -->)/;

const resultSchema = z.object({
  date: z.iso.date(),
  machine: z.object({
    node: z.string(),
    cpus: z.string(),
    system: z.string(),
    memoryGb: z.number(),
    load: z.array(z.number()),
  }),
  versions: z.record(z.string(), z.string()),
  workloads: z.array(
    z.object({
      name: z.string(),
      title: z.string(),
      contenders: z.array(
        z.object({ contender: z.string(), repetitions: z.array(z.record(z.string(), z.number())) }),
      ),
    }),
  ),
});

/** Replaces what is between the two marks of docs/benchmarks.md with the tables of bench/peers/result.json. */
export function insertBenchmarks(page: string): string {
  if (!TABLES.test(page))
    throw new Error('Expected the marks <!-- benchmarks:begin … --> and <!-- benchmarks:end -->.');
  return page.replace(TABLES, (_, begin, end) => `${begin}\n${formatResult()}\n\n${end}`);
}

function formatResult(): string {
  const file = new URL('../../../bench/peers/result.json', import.meta.url);
  const { date, machine, versions, workloads } = resultSchema.parse(JSON.parse(readFileSync(file, 'utf8')));
  const packages = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  const { node, cpus, system, memoryGb, load } = machine;
  return [
    `Measured on ${date} with Node ${node} on ${cpus}, ${memoryGb} GB, ${system}, with a load of ${load[0]} at the start: ${packages.join(', ')}.`,
    ...workloads.map(({ name, title, contenders }) => {
      const columns = findWorkload(name).columns.map(({ aims, budgets, ...column }) => column);
      const [head = [], ...lines] = tabulate(columns, contenders);
      const rows = [head, head.map((_, index) => (index === 0 ? '---' : '---:')), ...lines];
      return `### ${title}\n\n${rows.map(row => `| ${row.join(' | ')} |`).join('\n')}`;
    }),
  ].join('\n\n');
}
