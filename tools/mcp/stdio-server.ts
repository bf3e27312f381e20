import type { Stream } from 'node:stream';
import { EngineError, messageOf } from '../../protocol/error.ts';
import { LARGEST_MESSAGE_BYTES } from './bound-answers.ts';
import { redactText, showCommand, showText } from './redact-secrets.ts';
import { CLIENT_INFO, type Start, startSession } from './session.ts';

/** An MCP server that is started as a process and spoken to over its stdin and stdout. */
export type StdioServer = {
  command: string;
  args?: readonly string[];
  /** Added to the few variables the MCP client inherits (PATH, HOME, …); nothing else is passed on. */
  env?: Readonly<Record<string, string>>;
  cwd?: string;
};

/** Of what the server says went wrong, in characters. */
const SHOWN = 4_000;
const STDERR_SHOWN = 4096;
/** More than is shown, so that a secret at the edge is still whole when it is masked. */
const STDERR_BYTES_KEPT = 2 * STDERR_SHOWN;
const STDERR_LINES_SHOWN = 8;

/** Starts the process. Its stderr is kept for errors, not shown. */
export async function startProcess(name: string, server: StdioServer, timeoutMs: number): Promise<Start> {
  const [{ Client, ProtocolError, SdkError, SdkErrorCode }, { StdioClientTransport }] = await Promise.all([
    import('@modelcontextprotocol/client'),
    import('@modelcontextprotocol/client/stdio'),
  ]);
  const { command, args = [], env = {}, cwd } = server;
  const transport = new StdioClientTransport({
    command,
    args: [...args],
    env: { ...env },
    ...(cwd === undefined ? {} : { cwd }),
    stderr: 'pipe',
    maxBufferSize: LARGEST_MESSAGE_BYTES,
  });
  const readStderr = keepTail(transport.stderr);
  const redact = (text: string) => redactText(text, env);

  function reasonOf(cause: unknown): string {
    const wasClosed = SdkError.isInstance(cause) && cause.code === SdkErrorCode.ConnectionClosed;
    return wasClosed ? 'it ended before it answered' : showText(messageOf(cause), SHOWN, redact);
  }

  function explain(cause: unknown): EngineError {
    const stderr = redact(readStderr()).slice(-STDERR_SHOWN).trim();
    const shown = redact(showCommand(command, args));
    return new EngineError(
      'tool-source-failed',
      `the MCP server "${name}" failed: ${reasonOf(cause)}. It is started with: ${shown}\n${describeStderr(stderr)}`,
      { command: shown, stderr },
      { cause },
    );
  }

  const fateOf = (error: unknown) => (ProtocolError.isInstance(error) ? 'answered' : 'unknown');
  const line = { transport, reasonOf, explain, redact, fateOf } as const;
  return startSession(new Client(CLIENT_INFO), line, timeoutMs);
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
