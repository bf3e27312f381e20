import type { Run } from '../../engine/run/run.ts';
import { changeRun, submitCommands } from '../change-run.ts';
import type { DriveOptions, ShowOptions } from '../options.ts';
import { formatClock } from '../render/format-time.ts';

export async function pause(id: string, options: ShowOptions): Promise<number> {
  return await submitCommands(
    id,
    options,
    (run, by) => run.pause({ by }),
    () => 'will pause before it spends anything more.',
  );
}

export async function cancel(
  id: string,
  options: ShowOptions & { by?: string; reason?: string },
): Promise<number> {
  const { reason } = options;
  const why = reason === undefined ? {} : { reason };
  return await submitCommands(id, options, (run, by) => run.cancel({ by, ...why }), describeCancel);
}

/** Where another process drives the run, that one ends it. */
function describeCancel({ context }: Run): string {
  const { cancelling } = context;
  if (cancelling === null) return 'is cancelled.';
  return `is being cancelled by the process that drives it, by ${formatClock(cancelling.deadline)} at the latest.`;
}

export async function unpause(id: string, options: DriveOptions): Promise<number> {
  return await changeRun(id, options, (run, by) => run.unpause({ by }));
}

export async function step(id: string, options: DriveOptions): Promise<number> {
  return await changeRun(id, options, (run, by) => run.step({ by }));
}

/** Says nothing to the run: whoever's process ended, this one goes on. */
export async function resume(id: string, options: DriveOptions): Promise<number> {
  return await changeRun(id, options, async () => ({ accepted: true }));
}

export async function send(id: string, words: readonly string[], options: DriveOptions): Promise<number> {
  return await changeRun(id, options, (run, by) => run.send(words.join(' '), { by }));
}
