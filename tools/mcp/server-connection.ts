import type { Stream } from 'node:stream';
import type { Client } from '@modelcontextprotocol/client';
import { EngineError, messageOf } from '../../protocol/error.ts';
import { redactText, showCommand } from './redact-secrets.ts';

/** An MCP server that is started as a process and spoken to over its stdin and stdout. */
export type StdioServer = {
  command: string;
  args?: readonly string[];
  /** Added to the few variables the MCP client inherits (PATH, HOME, …); nothing else is passed on. */
  env?: Readonly<Record<string, string>>;
  cwd?: string;
};

export type Session = {
  readonly client: Client;
  /** Why the server failed: with its command, and the end of what it wrote to stderr. */
  explain(cause: unknown): EngineError;
};

/** What the server is told of its client. `version` is this package's. */
export const CLIENT_INFO = { name: 'agentchart', version: '0.1.0' };

const STDERR_SHOWN = 4096;
/** More than is shown, so that a secret at the edge is still whole when it is masked. */
const STDERR_BYTES_KEPT = 2 * STDERR_SHOWN;
const STDERR_LINES_SHOWN = 8;

/**
 * The connection to one MCP server.
 * 1. One process at most is starting or serving; all callers share it.
 * 2. A process that ended is replaced when somebody asks for a session again, once for each asking.
 * 3. After `close` nothing is started by `session`, only by `open`.
 * 4. `close` ends the process and what waits for it, also while it is starting.
 */
export type ServerConnection = {
  open(): Promise<Session>;
  /** The session there is, or a new one when the server has ended. Rejects once closed. */
  session(): Promise<Session>;
  close(): Promise<void>;
};

type Start = { client: Client; ready: Promise<Session>; ended: Promise<void> };

export function createServerConnection(
  name: string,
  server: StdioServer,
  timeoutMs: number,
): ServerConnection {
  let current: Promise<Start> | null = null;
  let closed = true;

  function open(): Promise<Session> {
    closed = false;
    current ??= start();
    return current.then(({ ready }) => ready);
  }

  function start(): Promise<Start> {
    const starting = startServer(name, server, timeoutMs);
    const forget = () => {
      if (current === starting) current = null;
    };
    starting.then(({ ended }) => ended.then(forget), forget);
    return starting;
  }

  return {
    open,
    async session() {
      if (closed) throw new Error(`the MCP server "${name}" is closed; nothing was sent. Connect it again.`);
      return open();
    },
    async close() {
      closed = true;
      const starting = current;
      current = null;
      const started = await starting?.catch(() => null);
      await started?.client.close();
      await started?.ready.catch(() => {});
    },
  };
}

async function startServer(name: string, server: StdioServer, timeoutMs: number): Promise<Start> {
  const [{ Client, SdkError, SdkErrorCode }, { StdioClientTransport }] = await Promise.all([
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
  });
  const readStderr = keepTail(transport.stderr);
  const client = new Client(CLIENT_INFO);
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  client.onclose = end;

  const explain = (cause: unknown) => {
    const stderr = redactText(readStderr(), env).slice(-STDERR_SHOWN).trim();
    const shown = redactText(showCommand(command, args), env);
    const wasClosed = SdkError.isInstance(cause) && cause.code === SdkErrorCode.ConnectionClosed;
    const reason = wasClosed ? 'it ended before it answered' : redactText(messageOf(cause), env);
    return new EngineError(
      'tool-source-failed',
      `the MCP server "${name}" failed: ${reason}. It is started with: ${shown}\n${describeStderr(stderr)}`,
      { command: shown, stderr },
      { cause },
    );
  };

  const connecting = client.connect(transport, { timeout: timeoutMs });
  const ready = connecting.then(
    () => ({ client, explain }),
    error => {
      end();
      throw explain(error);
    },
  );
  return { client, ready, ended };
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
