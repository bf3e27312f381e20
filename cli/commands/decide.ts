import { EngineError } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { type Answer, commandFor, type OpenReference } from '../../protocol/open/answer.ts';
import { changeRun } from '../change-run.ts';
import { assertOneOf, type DriveOptions, parseJson } from '../options.ts';

type ApproveOptions = DriveOptions & { input?: string; digest?: string; sticky?: boolean };

/** Implements `agentchart approve`: approves a call, then drives the run. Returns the exit code. */
export async function approve(id: string, callId: string, options: ApproveOptions): Promise<number> {
  const { digest, sticky } = options;
  const input = options.input === undefined ? undefined : parseJson(options.input, '--input');
  const open = { kind: 'approval', callId, ...omitUndefined({ digest }) } as const;
  return await give(id, options, open, { type: 'approve', ...omitUndefined({ input, sticky }) });
}

type RejectOptions = DriveOptions & { reason?: string };

/** Implements `agentchart reject`: rejects a call, then drives the run. Returns the exit code. */
export async function reject(id: string, callId: string, options: RejectOptions): Promise<number> {
  const { reason } = options;
  return await give(
    id,
    options,
    { kind: 'approval', callId },
    { type: 'reject', ...omitUndefined({ reason }) },
  );
}

type AnswerOptions = DriveOptions & { output: string };

/** Implements `agentchart answer`: gives the result of a call instead of running it, then drives the run. */
export async function answer(id: string, callId: string, options: AnswerOptions): Promise<number> {
  const output = parseJson(options.output, '--output');
  return await give(id, options, { kind: 'result', callId }, { type: 'result', output });
}

type ResolveOptions = DriveOptions & {
  retry?: boolean;
  force?: boolean;
  happened?: string;
  failed?: string;
};

/** Implements `agentchart resolve`: settles a call in doubt. Throws `input-invalid` unless one way is given. */
export async function resolve(id: string, callId: string, options: ResolveOptions): Promise<number> {
  const { retry, force, happened, failed } = options;
  assertOneOf({ '--retry': retry, '--happened': happened, '--failed': failed });
  if (force === true && retry !== true) {
    throw new EngineError('input-invalid', '--force can only be used with --retry.');
  }
  return await give(id, options, { kind: 'doubt', callId }, readResolution(options));
}

function readResolution({ force, happened, failed }: ResolveOptions): Answer {
  if (happened !== undefined) return { type: 'happened', output: parseJson(happened, '--happened') };
  if (failed !== undefined) return { type: 'failed', reason: failed };
  return { type: 'retry', force: force === true };
}

async function give(id: string, options: DriveOptions, open: OpenReference, answer: Answer): Promise<number> {
  return await changeRun(id, options, (run, by) => run.submit([commandFor(open, answer, { by })]));
}
