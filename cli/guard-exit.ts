import { EXIT } from './exit-codes.ts';
import { nameUncaught } from './name-uncaught.ts';

/**
 * Does `work`. If something ends the process with 0 meanwhile, it ends as failed and says so: a tool or
 * an agent module that calls `process.exit()` must not look like a run that finished. What a tool throws
 * outside its promise is told with its name.
 */
export async function guardExit<Result>(work: () => Promise<Result>): Promise<Result> {
  process.once('exit', failExit);
  nameUncaught({ goesOn: false });
  try {
    return await work();
  } finally {
    process.off('exit', failExit);
  }
}

function failExit(code: number): void {
  if (code !== 0) return;
  process.stderr.write(
    'The process was ended from within: an agent module or a tool called process.exit. What was recorded is kept: `agentchart runs` lists the runs, `agentchart resume RUN` goes on with one.\n',
  );
  process.exitCode = EXIT.failed;
}
