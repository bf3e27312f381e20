import { EngineError, messageOf, setupError } from '../protocol/error.ts';
import { EXIT, exitCodeOfError } from './exit-codes.ts';

/** Returns the message and exit code for a thrown value. With `AGENTCHART_DEBUG=1` the message is the stack trace. */
export function describeFailure(thrown: unknown): { message: string; exitCode: number } {
  const error = setupError(thrown) ?? thrown;
  const exitCode = error instanceof EngineError ? exitCodeOfError(error.code) : EXIT.failed;
  const isExpected = error instanceof EngineError;
  if (process.env.AGENTCHART_DEBUG === '1') return { message: describeStack(error), exitCode };
  if (isExpected) return { message: error.message, exitCode };
  return { message: `${messageOf(error)}\nSet AGENTCHART_DEBUG=1 for a stack trace.`, exitCode };
}

function describeStack(error: unknown): string {
  if (!(error instanceof Error)) return messageOf(error);
  const cause = error.cause === undefined ? '' : `\nCaused by: ${describeStack(error.cause)}`;
  return `${error.stack ?? error.message}${cause}`;
}
