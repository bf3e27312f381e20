import { changeRun } from '../change-run.ts';
import type { DriveOptions } from '../options.ts';

export async function send(id: string, words: readonly string[], options: DriveOptions): Promise<number> {
  return await changeRun(id, options, (run, by) => run.send(words.join(' '), { by }));
}
