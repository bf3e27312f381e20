import type { Stream } from 'node:stream';
import type { JSONRPCMessage, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { EngineError, messageOf } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { LARGEST_MESSAGE_BYTES } from './bound-answers.ts';
import { redactText, showCommand, showText } from './redact-secrets.ts';
import type { StdioServer } from './server-options.ts';
import { CLIENT_INFO, type Start, startSession } from './session.ts';

/** The maximum length of the server's error text, in characters. */
const MAX_SHOWN = 4_000;
const STDERR_SHOWN = 4096;
/** More than is shown, so that a secret at the cut is complete when it is masked. */
const STDERR_BYTES_KEPT = 2 * STDERR_SHOWN;
const STDERR_LINES_SHOWN = 8;

/** Starts the process and connects to it. Its stderr is not printed; the end of it is part of error messages. */
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
    ...omitUndefined({ cwd }),
    stderr: 'pipe',
    maxBufferSize: LARGEST_MESSAGE_BYTES,
  });
  const readStderr = keepTail(transport.stderr);
  const redact = (text: string) => redactText(text, env);

  function reasonOf(cause: unknown): string {
    const wasClosed = SdkError.isInstance(cause) && cause.code === SdkErrorCode.ConnectionClosed;
    return wasClosed ? 'it ended before it answered' : showText(messageOf(cause), MAX_SHOWN, redact);
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

  const outcomeOf = (error: unknown) => (ProtocolError.isInstance(error) ? 'answered' : 'unknown');
  const connector = { transport, reasonOf, explain, redact, outcomeOf } as const;
  return startSession(new Client(CLIENT_INFO), connector, timeoutMs);
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

/** The `data` of the error response to a request whose connection was lost. */
export const CONNECTION_LOST = 'agentchart: the connection ended before the response arrived';

/**
 * Patches the transport so that every request ends. Unpatched, the client waits for its timeout when a response
 * stream ends without a response, and keeps the stream of a cancelled request open.
 *
 * 1. When a request's stream ends and is not resumed, the client receives an error with `data: CONNECTION_LOST`.
 * 2. The stream of a cancelled request is closed once the cancellation has been sent.
 * 3. Nothing is kept for a request after its response.
 */
export function endRequests(transport: StreamableHTTPClientTransport): void {
  const send = transport.send.bind(transport);
  const streams = new Map<string | number, AbortController>();

  function lose(id: string | number): void {
    if (!streams.delete(id)) return;
    const error = { code: -32000, message: 'Connection lost', data: CONNECTION_LOST };
    transport.onmessage?.({ jsonrpc: '2.0', id, error });
  }

  function drop(id: unknown): void {
    if (typeof id !== 'string' && typeof id !== 'number') return;
    streams.get(id)?.abort();
    streams.delete(id);
  }

  transport.onmessage = message => {
    if (!('method' in message) && message.id !== undefined) streams.delete(message.id);
  };

  transport.send = async (message, options) => {
    if (!isRequest(message)) {
      const sending = send(message, options);
      return isCancellation(message) ? sending.finally(() => drop(message.params?.requestId)) : sending;
    }
    const { id } = message;
    const stream = new AbortController();
    streams.set(id, stream);
    try {
      await send(message, {
        ...options,
        requestSignal: stream.signal,
        onRequestStreamEnd: () => lose(id),
      });
    } catch (error) {
      streams.delete(id);
      throw error;
    }
  };
}

type Request = JSONRPCMessage & { id: string | number; method: string };
type Notification = JSONRPCMessage & { params?: { requestId?: unknown } };

function isRequest(message: JSONRPCMessage | JSONRPCMessage[]): message is Request {
  return 'method' in message && 'id' in message;
}

function isCancellation(message: JSONRPCMessage | JSONRPCMessage[]): message is Notification {
  return 'method' in message && message.method === 'notifications/cancelled';
}
