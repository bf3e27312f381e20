import type { JSONRPCMessage, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

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
