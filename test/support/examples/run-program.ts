import { execFile } from 'node:child_process';

/** How a program ended: its exit code (-1 if a signal ended it) and what it printed. */
export type Ended = { code: number; stdout: string; stderr: string };

/** Runs a program of the examples without input. */
export function runProgram(
  file: string,
  args: readonly string[],
  options: { cwd: string; env: NodeJS.ProcessEnv },
): Promise<Ended> {
  return new Promise(resolve => {
    const child = execFile(process.execPath, [file, ...args], options, (error, stdout, stderr) => {
      const code = typeof error?.code === 'number' ? error.code : -1;
      resolve({ code: error === null ? 0 : code, stdout, stderr });
    });
    child.stdin?.end();
  });
}
