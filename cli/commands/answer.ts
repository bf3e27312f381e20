import { changeRun } from '../change-run.ts';
import type { DriveOptions } from '../options.ts';
import { parseJson } from '../parse-json.ts';

export type AnswerOptions = DriveOptions & { output: string };

export async function answer(id: string, callId: string, options: AnswerOptions): Promise<number> {
  const output = parseJson(options.output, '--output');
  return await changeRun(id, options, (run, by) => run.answer(callId, { output, by }));
}
