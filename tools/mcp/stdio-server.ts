import type { Stream } from 'node:stream';
import type { Transport, VersionNegotiationMode } from '@modelcontextprotocol/client';
import { EngineError, messageOf } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { LARGEST_MESSAGE_BYTES } from './bound-answers.ts';
import { maskSecrets, quoteServerText, showCommand } from './redact-secrets.ts';
import {
  type ListFollowing,
  modeFor,
  nameRevisions,
  type RequestOutcome,
  type Start,
  startSession,
} from './session.ts';

/** An MCP server that is started as a process and reached over its stdin and stdout. */
export type StdioServer = {
  command: string;
  args?: readonly string[];
  /** Added to the few variables that the MCP client passes on (PATH, HOME, …); no others are inherited. */
  env?: Readonly<Record<string, string>>;
  cwd?: string;
};

const MAX_SHOWN = 4_000;
const STDERR_SHOWN = 4096;
/** More than is shown, so that a secret at the cut is complete when it is masked. */
const STDERR_BYTES_KEPT = 2 * STDERR_SHOWN;
const STDERR_LINES_SHOWN = 8;

/**
 * Starts the process and connects to it. Its stderr is not printed; the end of it is part of error messages. A server that
 * ends when it is asked for its revisions is started again as an earlier one.
 * @internal
 */
export async function startProcess(
  name: string,
  server: StdioServer,
  timeoutMs: number,
  following: ListFollowing,
): Promise<Start> {
  const [
    { ProtocolError, SdkError, SdkErrorCode, UnsupportedProtocolVersionError },
    { StdioClientTransport },
  ] = await Promise.all([
    import('@modelcontextprotocol/client'),
    import('@modelcontextprotocol/client/stdio'),
  ]);
  const { command, args = [], env = {}, cwd } = server;
  /** The client starts a second process to ask for the revisions, unless the class is another one. */
  class OneProcess extends StdioClientTransport {}
  let readStderr = () => '';

  function open(): Transport {
    const transport = new OneProcess({
      command,
      args: [...args],
      env: { ...env },
      ...omitUndefined({ cwd }),
      stderr: 'pipe',
      maxBufferSize: LARGEST_MESSAGE_BYTES,
    });
    readStderr = keepTail(transport.stderr);
    return transport;
  }

  const redact = (text: string) => maskSecrets(text, env);

  function reasonOf(cause: unknown): string {
    if (UnsupportedProtocolVersionError.isInstance(cause)) return redact(nameRevisions(cause));
    const wasClosed = SdkError.isInstance(cause) && cause.code === SdkErrorCode.ConnectionClosed;
    return wasClosed ? 'it ended before it answered' : quoteServerText(messageOf(cause), MAX_SHOWN, redact);
  }

  function explain(cause: unknown): EngineError {
    const stderr = redact(readStderr()).slice(-STDERR_SHOWN).trim();
    const shownCommand = redact(showCommand(command, args));
    return new EngineError(
      'tool-source-failed',
      `the MCP server "${name}" failed: ${reasonOf(cause)}. Its command: ${shownCommand}\n${describeStderr(stderr)}`,
      { command: shownCommand, stderr },
      { cause },
    );
  }

  function nextMode(error: unknown): VersionNegotiationMode | undefined {
    if (UnsupportedProtocolVersionError.isInstance(error)) return modeFor(error);
    const hasEnded = SdkError.isInstance(error) && error.code === SdkErrorCode.EraNegotiationFailed;
    return hasEnded ? 'legacy' : undefined;
  }

  const outcomeOf = (error: unknown): RequestOutcome =>
    ProtocolError.isInstance(error) ? 'answered' : 'unknown';
  // Earlier servers refuse an unknown request at once: what is silent for longer is a process that is still starting.
  const discoverMs = timeoutMs / 2;
  return startSession(
    { open, discoverMs, nextMode, reasonOf, explain, redact, outcomeOf, following },
    timeoutMs,
  );
}

function keepTail(stream: Stream | null): () => string {
  let tail = Buffer.alloc(0);
  stream?.on('data', (chunk: Buffer) => {
    tail = Buffer.concat([tail, chunk]).subarray(-STDERR_BYTES_KEPT);
  });
  return () => tail.toString('utf8').replace(/^\uFFFD+/, '');
}

function describeStderr(stderr: string): string {
  if (stderr === '') return 'It wrote nothing to stderr.';
  return `Its stderr ends with:\n${stderr.split('\n').slice(-STDERR_LINES_SHOWN).join('\n')}`;
}
