import type { Run } from '../../engine/run/run.ts';
import { EngineError } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { changeRun, submitCommands } from '../change-run.ts';
import type { DriveOptions, ShowOptions } from '../options.ts';
import { formatClock } from '../render/format.ts';

export async function pause(id: string, options: ShowOptions): Promise<number> {
  return await submitCommands(
    id,
    options,
    (run, by) => run.pause({ by }),
    () => 'will pause before its next step.',
  );
}

export async function cancel(
  id: string,
  options: ShowOptions & { by?: string; reason?: string },
): Promise<number> {
  const { reason } = options;
  return await submitCommands(
    id,
    options,
    (run, by) => run.cancel({ by, ...omitUndefined({ reason }) }),
    describeCancel,
  );
}

function describeCancel({ context }: Run): string {
  const { cancelling } = context;
  if (cancelling === null) return 'was cancelled.';
  return `is being cancelled by the process that drives it; it ends by ${formatClock(cancelling.deadline)} UTC.`;
}

export async function unpause(id: string, options: DriveOptions): Promise<number> {
  return await changeRun(id, options, (run, by) => run.unpause({ by }));
}

export async function step(id: string, options: DriveOptions): Promise<number> {
  return await changeRun(id, options, (run, by) => run.step({ by }));
}

/** Implements `agentchart resume`. Submits no command, only drives. */
export async function resume(id: string, options: DriveOptions): Promise<number> {
  return await changeRun(id, options, async () => ({ accepted: true }));
}

export async function send(id: string, words: readonly string[], options: DriveOptions): Promise<number> {
  const message = words.join(' ');
  if (message.trim() === '') throw new EngineError('input-invalid', 'The message must not be empty.');
  return await changeRun(id, options, (run, by) => run.send(message, { by }));
}
