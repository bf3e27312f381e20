import type { Run } from '../../engine/run/run.ts';
import { EngineError } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { changeRun, submitCommands } from '../change-run.ts';
import type { DriveOptions, ShowOptions } from '../options.ts';
import { formatClock } from '../render/format.ts';

/** Implements `agentchart pause`. Does not wait until the run is paused. */
export async function pause(id: string, options: ShowOptions): Promise<number> {
  return await submitCommands(
    id,
    options,
    (run, by) => run.pause({ by }),
    () => 'will pause before its next step.',
  );
}

/** Implements `agentchart cancel`. A run that another process drives may end later, and the output says by when. */
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

/** Implements `agentchart unpause`: ends a pause, then drives the run until it settles. Returns the exit code. */
export async function unpause(id: string, options: DriveOptions): Promise<number> {
  return await changeRun(id, options, (run, by) => run.unpause({ by }));
}

/** Implements `agentchart step`: allows one model call or batch of tools, then pauses. Returns the exit code. */
export async function step(id: string, options: DriveOptions): Promise<number> {
  return await changeRun(id, options, (run, by) => run.step({ by }));
}

/** Implements `agentchart resume`. Submits no command, only drives. */
export async function resume(id: string, options: DriveOptions): Promise<number> {
  return await changeRun(id, options, async () => ({ accepted: true }));
}

/** Implements `agentchart send`. Joins `words` with spaces. Throws `input-invalid` for a message without text. */
export async function send(id: string, words: readonly string[], options: DriveOptions): Promise<number> {
  const message = words.join(' ');
  if (message.trim() === '') throw new EngineError('input-invalid', 'The message must not be empty.');
  return await changeRun(id, options, (run, by) => run.send(message, { by }));
}
