/**
 * A small handwritten MCP server over stdio that can misbehave on purpose.
 * `serve`: lists two tools per page; `silent`: reads and never answers; `crash`: exits with a message on stderr;
 * `toolless`: has no tools; `twins`: has two tools whose names become equal; `strict` ends and `deaf` says nothing when
 * another request comes before `initialize`.
 */
import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

type Request = {
  id?: number;
  method: string;
  params?: {
    name?: string;
    cursor?: string;
    arguments?: { [key: string]: unknown };
    _meta?: { progressToken?: number; traceparent?: string };
    clientInfo?: unknown;
  };
};

const [mode = 'serve', log] = process.argv.slice(2);
const PAGE = 2;
/** Calls of `count`, which are answered when `release` is called. */
const counting: number[] = [];
let client: unknown;

if (mode === 'crash') {
  process.stderr.write(`${'earlier noise\n'.repeat(1000)}no database at ${process.env.DATABASE_URL}\n`);
  process.exit(3);
}

const object = { type: 'object' };
const echoSchema = {
  $schema: 'http://json-schema.org/draft-07/schema#',
  type: 'object',
  properties: {
    text: { type: 'string' },
    items: { type: 'array', items: { type: 'object', properties: { n: { type: 'integer' } } } },
  },
  required: ['text'],
};
const tools =
  mode === 'twins'
    ? ['a.b', 'a/b'].map(name => ({ name, inputSchema: object }))
    : [
        { name: 'echo', description: 'Says it back.', inputSchema: echoSchema },
        { name: 'constructor', inputSchema: object },
        { name: 'dotted.name', inputSchema: object },
        { name: 'exotic', inputSchema: { ...object, $schema: 'https://example.com/own-dialect' } },
        { name: 'pid', inputSchema: object },
        { name: 'die', inputSchema: object, annotations: { idempotentHint: true } },
        { name: 'hang', inputSchema: object },
        { name: 'count', inputSchema: object },
        { name: 'release', inputSchema: object },
        { name: 'picture', inputSchema: object },
        { name: 'structured', inputSchema: object, outputSchema: { type: 'object', required: ['other'] } },
        { name: 'refuse', inputSchema: object },
        { name: 'fail', inputSchema: object },
        { name: 'garble', inputSchema: object },
        { name: 'about', inputSchema: object },
      ];

function send(message: object): void {
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
}

function text(value: string) {
  return { content: [{ type: 'text', text: value }] };
}

function list({ cursor }: { cursor?: string }): object {
  const from = Number(cursor ?? 0);
  const next = from + PAGE < tools.length ? { nextCursor: String(from + PAGE) } : {};
  return { tools: tools.slice(from, from + PAGE), ...next };
}

/** The response to a call: a result, an error, or nothing (yet). */
function call(id: number, { name, arguments: input, _meta }: NonNullable<Request['params']>): object | null {
  if (log !== undefined) appendFileSync(log, `${name}\n`);
  switch (name) {
    case 'pid':
      return { result: text(String(process.pid)) };
    case 'die':
      process.stderr.write('out of memory\n');
      process.exit(9);
      break;
    case 'hang':
      return null;
    case 'count':
      for (const progress of [1, 2]) {
        send({
          method: 'notifications/progress',
          params: { progressToken: _meta?.progressToken, progress, total: 2, message: `step ${progress}` },
        });
      }
      counting.push(id);
      return null;
    case 'release':
      for (const held of counting.splice(0)) send({ id: held, result: text('counted') });
      return { result: text('released') };
    case 'picture':
      return {
        result: {
          content: [
            { type: 'text', text: 'a dot' },
            { type: 'image', data: 'AAAA', mimeType: 'image/png' },
          ],
        },
      };
    case 'structured':
      return { result: { content: [], structuredContent: { total: 3 } } };
    case 'refuse':
      return { error: { code: -32000, message: 'not on Sundays' } };
    case 'fail':
      return { result: { ...text('disk full'), isError: true } };
    case 'garble':
      return { result: { content: 'not a list' } };
    case 'about':
      return {
        result: text(
          JSON.stringify({
            client,
            env: process.env,
            cwd: process.cwd(),
            traceparent: _meta?.traceparent,
          }),
        ),
      };
    default:
      return { result: text(JSON.stringify(input)) };
  }
  return null;
}

createInterface({ input: process.stdin }).on('line', line => {
  if (mode === 'silent') return;
  const { id, method, params = {} }: Request = JSON.parse(line);
  if (client === undefined && method !== 'initialize') {
    if (mode === 'strict') process.exit(4);
    if (mode === 'deaf') return;
  }
  if (id === undefined) {
    if (log !== undefined) appendFileSync(log, `${method}\n`);
    return;
  }
  if (method === 'initialize') {
    client = params.clientInfo;
    const capabilities = mode === 'toolless' ? {} : { tools: {} };
    const serverInfo = { name: 'fixture', version: '1.0.0' };
    send({ id, result: { protocolVersion: '2025-06-18', capabilities, serverInfo } });
  } else if (method === 'tools/list') {
    send({ id, result: list(params) });
  } else if (method === 'tools/call') {
    const answer = call(id, params);
    if (answer) send({ id, ...answer });
  } else {
    send({ id, error: { code: -32601, message: `no method ${method}` } });
  }
});
