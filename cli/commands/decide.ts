import { EngineError } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { assertOneOf, changeRun } from '../change-run.ts';
import { type DriveOptions, parseJson } from '../options.ts';

export type ApproveOptions = DriveOptions & { input?: string; digest?: string; sticky?: boolean };

/** Implements `agentchart approve`. */
export async function approve(id: string, callId: string, options: ApproveOptions): Promise<number> {
  const { digest, sticky } = options;
  const input = options.input === undefined ? undefined : parseJson(options.input, '--input');
  return await changeRun(id, options, (run, by) =>
    run.approve(callId, { by, ...omitUndefined({ input, digest, sticky }) }),
  );
}

export type RejectOptions = DriveOptions & { reason?: string };

/** Implements `agentchart reject`. */
export async function reject(id: string, callId: string, options: RejectOptions): Promise<number> {
  const { reason } = options;
  return await changeRun(id, options, (run, by) => run.reject(callId, { by, ...omitUndefined({ reason }) }));
}

export type AnswerOptions = DriveOptions & { output: string };

/** Implements `agentchart answer`. */
export async function answer(id: string, callId: string, options: AnswerOptions): Promise<number> {
  const output = parseJson(options.output, '--output');
  return await changeRun(id, options, (run, by) => run.answer(callId, { output, by }));
}

export type ResolveOptions = DriveOptions & {
  retry?: boolean;
  force?: boolean;
  happened?: string;
  failed?: string;
};

/** Implements `agentchart resolve`. */
export async function resolve(id: string, callId: string, options: ResolveOptions): Promise<number> {
  const { retry, force, happened, failed } = options;
  assertOneOf({ '--retry': retry, '--happened': happened, '--failed': failed });
  if (force === true && retry !== true) {
    throw new EngineError('input-invalid', '--force can only be used with --retry.');
  }
  const resolution = readResolution(options);
  return await changeRun(id, options, (run, by) => run.resolve(callId, { ...resolution, by }));
}

function readResolution({ force, happened, failed }: ResolveOptions) {
  if (happened !== undefined) return { happened: true, output: parseJson(happened, '--happened') } as const;
  return failed === undefined ? ({ retry: true, force: force === true } as const) : { failed };
}
