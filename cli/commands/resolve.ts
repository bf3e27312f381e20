import { EngineError } from '../../protocol/error.ts';
import { assertOneOf, changeRun } from '../change-run.ts';
import type { DriveOptions } from '../options.ts';
import { parseJson } from '../parse-json.ts';

export type ResolveOptions = DriveOptions & {
  retry?: boolean;
  force?: boolean;
  happened?: string;
  failed?: string;
};

export async function resolve(id: string, callId: string, options: ResolveOptions): Promise<number> {
  const { retry, force, happened, failed } = options;
  assertOneOf({ '--retry': retry, '--happened': happened, '--failed': failed });
  if (force === true && retry !== true) throw new EngineError('input-invalid', '--force goes with --retry.');
  const resolution = readResolution({ force: force === true, happened, failed });
  return await changeRun(id, options, (run, by) => run.resolve(callId, { ...resolution, by }));
}

function readResolution({
  force,
  happened,
  failed,
}: {
  force: boolean;
  happened: string | undefined;
  failed: string | undefined;
}) {
  if (happened !== undefined) return { happened: true, output: parseJson(happened, '--happened') } as const;
  return failed === undefined ? ({ retry: true, force } as const) : { failed };
}
