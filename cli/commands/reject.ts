import { changeRun } from '../change-run.ts';
import type { DriveOptions } from '../options.ts';

export type RejectOptions = DriveOptions & { reason?: string };

export async function reject(id: string, callId: string, options: RejectOptions): Promise<number> {
  const { reason } = options;
  return await changeRun(id, options, (run, by) =>
    run.reject(callId, { by, ...(reason === undefined ? {} : { reason }) }),
  );
}
