import { changeRun } from '../change-run.ts';
import type { DriveOptions } from '../options.ts';
import { parseJson } from '../parse-json.ts';

export type ApproveOptions = DriveOptions & { input?: string; digest?: string; sticky?: boolean };

export async function approve(id: string, callId: string, options: ApproveOptions): Promise<number> {
  const { digest, sticky } = options;
  const edit = options.input === undefined ? {} : { input: parseJson(options.input, '--input') };
  return await changeRun(id, options, (run, by) =>
    run.approve(callId, {
      ...edit,
      by,
      ...(digest === undefined ? {} : { digest }),
      ...(sticky === true ? { sticky } : {}),
    }),
  );
}
