import { type ChildProcess, spawn } from 'node:child_process';
import * as z from 'zod';
import { messageOf } from '../../protocol/error.ts';
import { type JsonObject, omitUndefined } from '../../protocol/json.ts';
import type { Tool } from '../../protocol/tool.ts';
import { tool } from '../../tools/tool.ts';
import type { CodeInterpreterConfig } from './builtin-schemas.ts';

type Sandbox = NonNullable<CodeInterpreterConfig['sandbox']>;

const TIMEOUT_MS = 30_000;
/** In characters. */
const LONGEST_CODE = 100_000;
const LONGEST_LOGS = 50_000;

/**
 * Runs code with the operator's sandbox command: the code is its input, and what it prints the result:
 * `{ logs, exit_code }`, with the `signal` that ended it, if one did. Each call runs in a new process. `closing` kills
 * the commands that still run.
 */
export function codeInterpreter(sandbox: Sandbox, closing: AbortSignal): Tool {
  return tool({
    name: 'code_interpreter',
    description:
      'Runs code in a sandbox and returns what it prints. Each call starts from scratch: variables and files are not kept.',
    input: z.object({ code: z.string().min(1).max(LONGEST_CODE).describe('The code to run.') }),
    sideEffect: 'once',
    run: ({ code }, { signal }) => runCode(code, sandbox, AbortSignal.any([signal, closing])),
  });
}

async function runCode(code: string, sandbox: Sandbox, signal: AbortSignal): Promise<JsonObject> {
  const { command, env = {}, cwd, timeoutMs = TIMEOUT_MS } = sandbox;
  const [file = '', ...args] = command;
  const { PATH = '' } = process.env;
  const child = spawn(file, args, { cwd, env: { PATH, ...env }, detached: true, stdio: 'pipe' });
  const stop = () => killGroup(child);
  const late = AbortSignal.timeout(timeoutMs);
  const ending = AbortSignal.any([signal, late]);
  ending.addEventListener('abort', stop);
  try {
    const logs = collect(child);
    child.stdin.on('error', () => {});
    child.stdin.end(code);
    const exit = await ended(child);
    signal.throwIfAborted();
    if (late.aborted) throw new Error(`The code did not end within ${timeoutMs} ms.\n${logs()}`);
    return { logs: logs(), exit_code: exit.code, ...omitUndefined({ signal: exit.signal ?? undefined }) };
  } finally {
    ending.removeEventListener('abort', stop);
    stop();
  }
}

function ended(child: ChildProcess): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
  return new Promise((done, fail) => {
    child.once('error', error => fail(new Error(`The sandbox command did not start: ${messageOf(error)}`)));
    child.once('close', (code, signal) => done({ code, signal }));
  });
}

function collect({ stdout, stderr }: ChildProcess): () => string {
  let text = '';
  let isCut = false;
  for (const stream of [stdout, stderr]) {
    stream?.setEncoding('utf8').on('data', (piece: string) => {
      isCut ||= text.length + piece.length > LONGEST_LOGS;
      text = (text + piece).slice(0, LONGEST_LOGS);
    });
  }
  return () => (isCut ? `${text}\n[The rest of the output is left out.]` : text);
}

function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // The processes have ended.
  }
}
