import type { JsonValue } from '../../../protocol/json.ts';

type Request = { id?: number | string; method: string; params?: { _meta?: { progressToken?: number } } };

export type HostileOptions = {
  /** The raw answer to `tools/list`, which may be text that `JSON.stringify` cannot produce. */
  tools: string;
  /** The answer to `tools/call`: `result` or `error`. */
  call?: string;
  /** The answer to `server/discover`: `result` or `error`. Default: an error, as of a server of an earlier revision. */
  discover?: string;
  /** Answers `tools/call` in place of `call`. */
  onCall?: (request: Request) => Response;
};

/**
 * An MCP server over Streamable HTTP without a socket. Its answers are raw text, so that it can send anything,
 * such as values nested 100,000 levels deep.
 */
export function hostileServer({ tools, call, discover, onCall }: HostileOptions) {
  const fetch = async (_input: string | URL, init?: RequestInit): Promise<Response> => {
    if (init?.method !== 'POST') return new Response(null, { status: 405 });
    const request: Request = JSON.parse(String(init.body));
    if (request.id === undefined) return new Response(null, { status: 202 });
    switch (request.method) {
      case 'initialize':
        return answer(
          request,
          '"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"h","version":"1"}}',
        );
      case 'server/discover':
        return answer(request, discover ?? NO_METHOD);
      case 'tools/list':
        return answer(request, `"result":{"tools":${tools}}`);
      case 'tools/call':
        return onCall?.(request) ?? answer(request, call ?? textResult('"done"'));
      default:
        return answer(request, NO_METHOD);
    }
  };
  return { name: 'hostile', url: 'http://hostile.invalid/mcp', fetch };
}

const NO_METHOD = '"error":{"code":-32601,"message":"no such method"}';

/** The members of the answer to `server/discover` of a server of revision 2026-07-28. */
export function discovered(capabilities = '{"tools":{}}', versions = ['2026-07-28']): string {
  const supported = JSON.stringify(versions);
  return `"result":{"resultType":"complete","supportedVersions":${supported},"capabilities":${capabilities},"ttlMs":0,"cacheScope":"private"}`;
}

/** The members of a `tools/call` answer with one text; `text` is JSON. */
export function textResult(text: string, isError = false): string {
  return `"result":{"content":[{"type":"text","text":${text}}],"isError":${isError}}`;
}

/** One tool with this input schema, as JSON. */
export function toolWith(inputSchema: JsonValue | string, rest = ''): string {
  const schema = typeof inputSchema === 'string' ? inputSchema : JSON.stringify(inputSchema);
  return `[{"name":"act","inputSchema":${schema}${rest}}]`;
}

/** `{"a":{"a":…}}` with so many levels. */
export function nested(levels: number, inside = '1'): string {
  return `${'{"a":'.repeat(levels)}${inside}${'}'.repeat(levels)}`;
}

function answer({ id }: Request, members: string): Response {
  return new Response(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},${members}}`, {
    headers: { 'content-type': 'application/json' },
  });
}
