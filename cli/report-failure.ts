import { EngineError, messageOf, setupError } from '../protocol/error.ts';
import { EXIT, exitCodeOfError } from './exit-codes.ts';

/** The one place where what was thrown becomes a message and an exit code. `AGENTCHART_DEBUG=1` adds the stack. */
export function describeFailure(thrown: unknown): { message: string; exitCode: number } {
  const error = setupError(thrown) ?? thrown;
  const exitCode = error instanceof EngineError ? exitCodeOfError(error.code) : EXIT.failed;
  const isExpected = error instanceof EngineError;
  if (process.env.AGENTCHART_DEBUG === '1') return { message: describeStack(error), exitCode };
  if (isExpected) return { message: error.message, exitCode };
  return { message: `${messageOf(error)}\nSet AGENTCHART_DEBUG=1 to see where this comes from.`, exitCode };
}

function describeStack(error: unknown): string {
  if (!(error instanceof Error)) return messageOf(error);
  const cause = error.cause === undefined ? '' : `\nCaused by: ${describeStack(error.cause)}`;
  return `${error.stack ?? error.message}${cause}`;
}
