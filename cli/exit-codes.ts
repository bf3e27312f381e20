import type { Settled } from '../engine/log/settled.ts';
import {
  docsOf,
  EngineError,
  type EngineErrorCode,
  isErrorCode,
  messageOf,
  setupError,
} from '../protocol/error.ts';

/** Exit codes of all commands. `incomplete`: an exploration that found no breach and proves nothing. `left`: a second Ctrl-C, or a Ctrl-C that stopped following a run. */
export const EXIT = {
  done: 0,
  failed: 1,
  usage: 2,
  waiting: 3,
  refused: 4,
  incomplete: 5,
  left: 130,
} as const;

const BY_ERROR: Readonly<Record<EngineErrorCode, number>> = {
  'agent-invalid': EXIT.usage,
  'agent-module-invalid': EXIT.usage,
  'input-invalid': EXIT.usage,
  'run-unknown': EXIT.usage,
  'run-exists': EXIT.refused,
  'run-foreign': EXIT.usage,
  'run-ended': EXIT.refused,
  'call-unknown': EXIT.usage,
  'call-not-open': EXIT.refused,
  'already-decided': EXIT.refused,
  'not-allowed': EXIT.refused,
  'wrong-digest': EXIT.refused,
  expired: EXIT.refused,
  'attempt-alive': EXIT.refused,
  'already-happened': EXIT.refused,
  'inbox-full': EXIT.refused,
  'request-reused': EXIT.refused,
  refused: EXIT.refused,
  'result-missing': EXIT.failed,
  'chart-mismatch': EXIT.failed,
  'state-unknown': EXIT.failed,
  'journal-damaged': EXIT.failed,
  'snapshot-outdated': EXIT.failed,
  'lease-held': EXIT.failed,
  'lease-lost': EXIT.failed,
  'store-unavailable': EXIT.failed,
  'store-locked': EXIT.failed,
  'store-full': EXIT.failed,
  'store-damaged': EXIT.failed,
  'store-replaced': EXIT.failed,
  'store-reply-lost': EXIT.failed,
  'model-missing': EXIT.usage,
  'model-unknown': EXIT.usage,
  'key-missing': EXIT.usage,
  'base-url-invalid': EXIT.usage,
  'script-invalid': EXIT.usage,
  'tool-source-failed': EXIT.failed,
  'sign-in-needed': EXIT.failed,
  'sign-in-failed': EXIT.failed,
};

export function exitCodeOfError(code: EngineErrorCode): number {
  return BY_ERROR[code];
}

export function exitCodeOfRun({ status }: Settled): number {
  if (status === 'waiting') return EXIT.waiting;
  return status === 'finished' ? EXIT.done : EXIT.failed;
}

export function describeFailure(thrown: unknown): { message: string; exitCode: number } {
  const error = setupError(thrown) ?? thrown;
  const exitCode = error instanceof EngineError ? exitCodeOfError(error.code) : EXIT.failed;
  if (process.env.AGENTCHART_DEBUG === '1') return { message: describeStack(error), exitCode };
  if (error instanceof EngineError) return { message: describeCoded(error), exitCode };
  return { message: `${messageOf(error)}\nSet AGENTCHART_DEBUG=1 for a stack trace.`, exitCode };
}

/** The message of an error or a refusal, with where its code is explained. */
export function describeCoded({ code, message }: { code: string; message: string }): string {
  const more = pointTo(code);
  return more === '' ? message : `${message}\n${more}`;
}

/** Where a code is explained; empty for bad usage, whose message says all itself, and for a foreign code. */
export function pointTo(code: string, site?: string): string {
  if (code === 'input-invalid' || !isErrorCode(code)) return '';
  const [command, found] = [`agentchart docs ${code}`, docsOf(code, site)];
  const program = process.env.npm_command === 'exec' ? 'npx ' : '';
  return `More: ${program}${command}${found === command ? '' : ` or ${found}`}`;
}

function describeStack(error: unknown): string {
  if (!(error instanceof Error)) return messageOf(error);
  const cause = error.cause === undefined ? '' : `\nCaused by: ${describeStack(error.cause)}`;
  return `${error.stack ?? error.message}${cause}`;
}
