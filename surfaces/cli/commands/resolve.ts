import { assertOneOf, changeRun } from '../change-run.ts';
import type { DriveOptions } from '../options.ts';
import { parseJson } from '../parse-json.ts';

export type ResolveOptions = DriveOptions & { retry?: boolean; happened?: string; failed?: string };

export async function resolve(id: string, callId: string, options: ResolveOptions): Promise<number> {
  const { retry, happened, failed } = options;
  assertOneOf({ '--retry': retry, '--happened': happened, '--failed': failed });
  const resolution = readResolution({ happened, failed });
  return await changeRun(id, options, (run, by) => run.resolve(callId, { ...resolution, by }));
}

function readResolution({ happened, failed }: { happened: string | undefined; failed: string | undefined }) {
  if (happened !== undefined) return { happened: true, output: parseJson(happened, '--happened') } as const;
  return failed === undefined ? ({ retry: true } as const) : { failed };
}
