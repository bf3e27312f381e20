import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import * as z from 'zod';
import type { Samples } from './format-table.ts';
import type { Measurement, Metrics, Workload } from './workload.ts';

const measurementSchema = z.object({ metrics: z.record(z.string(), z.number()), requests: z.string() });

/**
 * Measures every repetition of every contender, one at a time, each in a new process. Each round of repetitions
 * starts with another contender. Rejects if a process fails, or if the contenders (except peers) send different
 * requests to the provider.
 */
export async function runWorkload(
  workload: Workload,
  { peers, onProgress }: { peers: boolean; onProgress: (done: string) => void },
): Promise<Samples> {
  workload.prepare?.();
  const { contenders, repetitions } = workload;
  const added = peers ? (workload.peers ?? []) : [];
  const samples = [...contenders, ...added].map(contender => ({ contender, repetitions: [] as Metrics[] }));
  const requests = new Set<string>();
  for (let repetition = 0; repetition < repetitions; repetition += 1) {
    for (const sample of rotate(samples, repetition)) {
      onProgress(`${workload.name} ${repetition + 1}/${repetitions}: ${sample.contender}`);
      const measured = await measureInProcess(workload.name, sample.contender);
      sample.repetitions.push(measured.metrics);
      if (!added.includes(sample.contender) && measured.requests !== '') requests.add(measured.requests);
    }
  }
  if (requests.size > 1) {
    throw new Error(
      `${workload.name}: the contenders did not send the same requests, so they cannot be compared.`,
    );
  }
  return samples;
}

function rotate<T>(list: readonly T[], by: number): T[] {
  const from = by % list.length;
  return [...list.slice(from), ...list.slice(0, from)];
}

async function measureInProcess(workload: string, contender: string): Promise<Measurement> {
  const script = fileURLToPath(new URL('measure.ts', import.meta.url));
  const args = ['--expose-gc', script, workload, contender];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return measurementSchema.parse(JSON.parse(stdout));
}
