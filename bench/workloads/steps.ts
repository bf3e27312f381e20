import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { openStepContender, STEP_CONTENDERS } from '../contenders/step-contender.ts';
import { median } from '../statistics.ts';
import { makeTemporaryFolder } from '../temporary-folder.ts';
import type { Metrics, Workload } from '../workload.ts';

const STEPS = 2_000;
const MARKS = [200, 500, 1_000, 2_000] as const;
/** The number of steps before a mark whose median is reported. */
const SPAN = 100;
const RESUMES = 5;
const MB = 1_000_000;

/** One long run on disk: the bytes and the time per step as the run grows, and the time to resume it. */
export const steps: Workload = {
  name: 'steps',
  title: `One run of ${STEPS.toLocaleString('en-US')} steps on disk (wall ms per step; MB in total)`,
  contenders: STEP_CONTENDERS,
  repetitions: 1,
  columns: [
    ...MARKS.map(mark => ({ label: `step ${mark}`, metric: `${mark} ms`, digits: 2 })),
    { label: 'MB sent to the store', metric: 'handed', digits: 1 },
    { label: 'kB/step, early', metric: 'earlyKb', digits: 1 },
    { label: 'kB/step, late', metric: 'lateKb', digits: 1 },
    { label: 'MB written', metric: 'written', digits: 1 },
    { label: 'file MB', metric: 'file', digits: 1 },
    { label: 'resume ms', metric: 'resumeMs', aims: { [STEP_CONTENDERS[1]]: '200' } },
  ],
  async measure(name) {
    const file = join(makeTemporaryFolder(), 'runs.db');
    const contender = await openStepContender(name, file);
    const begun: number[] = [];
    const handed: number[] = [];
    const before = readWritten();
    await contender.run(STEPS, step => {
      begun[step] = performance.now();
      handed[step] = contender.handedBytes();
    });
    const written = readWritten();
    const times = begun.slice(1).map((end, step) => end - (begun[step] ?? end));
    const metrics: Metrics = {};
    for (const mark of MARKS) metrics[`${mark} ms`] = median(times.slice(mark - SPAN, mark));
    const bytes = handed.slice(1).map((end, step) => end - (handed[step] ?? end));
    const perStep = (from: number) => median(bytes.slice(from, from + SPAN)) / 1000;
    metrics.handed = contender.handedBytes() / MB;
    metrics.earlyKb = perStep(SPAN);
    metrics.lateKb = perStep(STEPS - SPAN);
    if (before !== null && written !== null) metrics.written = (written - before) / MB;
    metrics.file = (sizeOf(file) + sizeOf(`${file}-wal`)) / MB;
    const resumes: number[] = [];
    for (let resumed = 0; resumed < RESUMES; resumed += 1) {
      const start = performance.now();
      const messages = await contender.resume();
      resumes.push(performance.now() - start);
      if (messages < 2 * STEPS) throw new Error(`Expected ${2 * STEPS} messages, got ${messages}.`);
    }
    metrics.resumeMs = median(resumes);
    await contender.close();
    return { requests: '', metrics };
  },
};

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

/** Returns the bytes that this process has written so far; `null` if the platform does not report it. */
function readWritten(): number | null {
  try {
    return Number(/^wchar: (\d+)$/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1] ?? Number.NaN);
  } catch {
    return null;
  }
}
