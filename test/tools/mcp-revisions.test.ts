import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import * as z from 'zod';
import { InDoubt } from '../../protocol/error.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { type McpToolSource, mcp } from '../../tools/mcp.ts';
import { until } from '../support/server/runs-app.ts';
import { createContext, rejectionOf, runTool } from '../support/tools/call-context.ts';
import { closeDesks, desk, start } from '../support/tools/http-desk.ts';

const SUPPORT = join(import.meta.dirname, '../support/tools');
const opened: McpToolSource[] = [];
const children: ChildProcess[] = [];

function processOf(file: string, args: string[]): McpToolSource {
  const source = mcp({
    name: 'process',
    command: process.execPath,
    args: ['--no-warnings', join(SUPPORT, file), ...args],
  });
  opened.push(source);
  return source;
}

afterEach(async () => {
  await closeDesks();
  await Promise.all(opened.splice(0).map(source => source.close()));
  for (const child of children.splice(0)) {
    child.kill();
    await once(child, 'exit');
  }
});

const REFUSES_EARLIER = ['current-server.ts', ['reject']] as const;

describe('a process', () => {
  it.each(['serve', 'reject'])(
    'that speaks revision 2026-07-28 is spoken to so, in one process (%s)',
    async mode => {
      const tools = await processOf('current-server.ts', [mode]).connect();
      const [first, second] = [await runTool(tools, 'era'), await runTool(tools, 'era')];
      expect(first).toMatch(/^modern \d+$/);
      expect(second).toBe(first);
    },
  );

  it('that refuses earlier clients and is slow to start is started again', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'agentchart-mcp-'));
    const marker = join(folder, 'started');
    const tools = await processOf('current-server.ts', ['reject', marker]).connect();
    expect(await runTool(tools, 'era')).toMatch(/^modern/);
    await access(marker);
    await rm(folder, { recursive: true });
  });

  it.each(['strict', 'deaf'])(
    'of an earlier revision that does not know the question is used as such (%s)',
    async mode => {
      const tools = await processOf('fixture-server.ts', [mode]).connect();
      expect(await runTool(tools, 'echo', { text: 'a' })).toBe('{"text":"a"}');
    },
  );

  it('of revision 2026-07-28 reports progress, and a call that it leaves is in doubt; the next starts it again', async () => {
    const tools = await processOf(...args(REFUSES_EARLIER)).connect();
    const seen: JsonValue[] = [];
    const context = { ...createContext(), progress: (data: JsonValue) => void seen.push(data) };
    expect(await runTool(tools, 'count', { to: 2 }, context)).toBe('2');
    expect(seen).toEqual([{ progress: 1 }, { progress: 2 }]);
    const before = await runTool(tools, 'era');
    expect(await rejectionOf(runTool(tools, 'die'))).toBeInstanceOf(InDoubt);
    const after = await runTool(tools, 'era');
    expect(after).toMatch(/^modern/);
    expect(after).not.toBe(before);
  });
});

const args = ([file, list]: typeof REFUSES_EARLIER): [string, string[]] => [file, [...list]];

/** How the tools of a server were listed: with a session, or without. */
function revisionIn(methods: readonly string[]): string {
  return methods.includes('initialize') ? 'earlier' : 'current';
}

describe('a server over HTTP', () => {
  it.each([
    ['earlier', 'earlier'],
    ['both', 'current'],
    ['current', 'current'],
  ] as const)('that serves %s clients is spoken to as one of the %s revision', async (serves, revision) => {
    const server = await start({ serves });
    const tools = await desk(server.url).connect();
    expect(await runTool(tools, 'echo', { text: 'a' })).toBe('a');
    expect(revisionIn(server.listMethods())).toBe(revision);
  });

  it('of revision 2026-07-28 has no session, and each request names its method and tool', async () => {
    const server = await start({ serves: 'current' });
    const source = desk(server.url);
    await runTool(await source.connect(), 'echo', { text: 'a' });
    await source.close();
    const seen = server.seen.filter(({ says }) => says !== 'subscriptions/listen');
    const headers = seen.map(({ headers: sent, session }) => [
      session,
      sent.get('mcp-protocol-version'),
      sent.get('mcp-method'),
      sent.get('mcp-name'),
    ]);
    expect(headers).toEqual([
      [null, '2026-07-28', 'server/discover', null],
      [null, '2026-07-28', 'tools/list', null],
      [null, '2026-07-28', 'tools/call', 'echo'],
    ]);
  });

  it.each([
    ['an error of its own', () => new Response('what?', { status: 500 })],
    ['a page', () => new Response('<p>', { headers: { 'content-type': 'text/html' } })],
    ['nothing', () => new Promise<Response>(() => {})],
    ['404', () => new Response('no such thing', { status: 404 })],
  ])(
    'that answers the question for its revisions with %s is used as an earlier one',
    async (_what, instead) => {
      const server = await start({
        instead: (_request, says) => (says === 'server/discover' ? instead() : undefined),
      });
      const tools = await desk(server.url, { timeoutMs: 2_000 }).connect();
      expect(await runTool(tools, 'echo', { text: 'a' })).toBe('a');
    },
  );

  it('that was replaced by one of the other revision gets the call once, as the other', async () => {
    for (const [before, after] of [
      ['current', 'earlier'],
      ['earlier', 'current'],
    ] as const) {
      const server = await start({ serves: before });
      const tools = await desk(server.url).connect();
      const { port } = server;
      await server.close();
      await rejectionOf(runTool(tools, 'echo'));
      const next = await start({ serves: after, port });
      expect(await runTool(tools, 'echo', { text: after })).toBe(after);
      expect(next.ran).toEqual(['echo']);
    }
  });
});

describe('the official reference server, of an earlier revision', () => {
  const file = join(
    import.meta.dirname,
    '../../node_modules/@modelcontextprotocol/server-everything/dist/index.js',
  );

  /** Calls a tool that reports progress and one with structured content. */
  async function tryOut(source: McpToolSource): Promise<void> {
    const tools = await source.connect();
    const seen: JsonValue[] = [];
    const progress = (data: JsonValue) => void seen.push(data);
    const working = { duration: 0.02, steps: 2 };
    await runTool(tools, 'trigger-long-running-operation', working, { ...createContext(), progress });
    expect(seen).toEqual([
      { progress: 1, total: 2 },
      { progress: 2, total: 2 },
    ]);
    const weather = await runTool(tools, 'get-structured-content', { location: 'Chicago' });
    expect(JSON.parse(String(weather))).toMatchObject({ temperature: 36 });
  }

  it('is used over stdio', async () => {
    const source = mcp({ name: 'everything', command: process.execPath, args: [file, 'stdio'] });
    opened.push(source);
    await tryOut(source);
  });

  it('is used over HTTP, in a session that ends with it', async () => {
    const port = await freePort();
    const server = spawn(process.execPath, [file, 'streamableHttp'], { env: { PORT: String(port) } });
    children.push(server);
    let said = '';
    for (const stream of [server.stdout, server.stderr])
      stream.on('data', chunk => {
        said += chunk;
      });
    await until(() => said.includes('listening') || undefined);
    const source = desk(`http://127.0.0.1:${port}/mcp`);
    await tryOut(source);
    await source.close();
    await until(() => said.includes('session termination') || undefined);
  });
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address !== null ? address.port : 0;
}

describe('a tool of revision 2026-07-28', () => {
  const region = (header: string) => z.string().meta({ 'x-mcp-header': header });

  it('has those of its arguments in headers that its schema names, encoded', async () => {
    const inputSchema = z.object({
      region: region('Region'),
      at: z.object({ city: z.string().optional().meta({ 'x-mcp-header': 'City' }) }).optional(),
      query: z.string(),
    });
    const server = await start({
      serves: 'current',
      add: made =>
        made.registerTool('query', { inputSchema }, () => ({ content: [{ type: 'text', text: 'ok' }] })),
    });
    const tools = await desk(server.url).connect();
    await runTool(tools, 'query', { region: 'north', at: { city: 'Zürich' }, query: 'all' });
    await runTool(tools, 'query', { region: 'south', query: 'all' });
    const calls = server.seen.filter(({ says }) => says === 'tools/call');
    expect(
      calls.map(({ headers }) => [headers.get('mcp-param-region'), headers.get('mcp-param-city')]),
    ).toEqual([
      ['north', `=?base64?${Buffer.from('Zürich').toString('base64')}?=`],
      ['south', null],
    ]);
  });

  it('is left out if it asks for an impossible header, and the others are listed', async () => {
    const warned = vi.spyOn(console, 'warn').mockImplementation(() => {});
    const server = await start({
      serves: 'current',
      add: made =>
        made.registerTool('query', { inputSchema: z.object({ a: region('no such:') }) }, () => ({
          content: [],
        })),
    });
    const tools = await desk(server.url).connect();
    expect(tools.map(({ name }) => name)).toEqual(['echo', 'fail', 'hold', 'hold_again']);
    expect(warned.mock.calls.flat().join()).toContain("'query'");
    warned.mockRestore();
  });

  it('is listed again after the server has refused a call for headers that it did not ask for before', async () => {
    let header = 'Region';
    const server = await start({
      serves: 'current',
      add: made =>
        made.registerTool('query', { inputSchema: z.object({ region: region(header) }) }, () => {
          server.ran.push('query');
          return { content: [{ type: 'text', text: 'ok' }] };
        }),
    });
    const source = desk(server.url);
    const before = await source.connect();
    header = 'Area';
    const error = await rejectionOf(runTool(before, 'query', { region: 'north' }));
    expect(error).not.toBeInstanceOf(InDoubt);
    expect(server.ran).toEqual([]);
    expect(source.isStale).toBe(true);
    expect(await runTool(await source.connect(), 'query', { region: 'north' })).toBe('ok');
  });

  it.each([[[1, 2]], [7], ['text'], [true], [null], [{ a: null }]])(
    'returns structured content %j',
    async value => {
      const server = await start({
        serves: 'current',
        instead: (_request, says) => answerTo(says, 'tools/call', { content: [], structuredContent: value }),
      });
      expect(await runTool(await desk(server.url).connect(), 'echo')).toEqual(value);
    },
  );

  it.each([
    { type: 'array', items: { type: 'number' } },
    { type: 'string' },
    { $ref: '#/$defs/a', $defs: { a: true } },
  ])('may have the output schema %j', async outputSchema => {
    const listed = { name: 'sum', inputSchema: { type: 'object' }, outputSchema };
    const server = await start({
      serves: 'current',
      instead: (_request, says) =>
        answerTo(says, 'tools/list', { tools: [listed] }) ??
        answerTo(says, 'tools/call', { content: [], structuredContent: [3] }),
    });
    expect(await runTool(await desk(server.url).connect(), 'sum')).toEqual([3]);
  });
});

/** An answer to one kind of request; the client's ids count from 0. */
function answerTo(says: string, method: string, result: object): Response | undefined {
  const id = method === 'tools/list' ? 0 : 1;
  return says === method ? Response.json({ jsonrpc: '2.0', id, result }) : undefined;
}

describe('a call of revision 2026-07-28 over HTTP', () => {
  const connect = async (instead?: (says: string) => Response | undefined) => {
    const server = await start({ serves: 'current', instead: (_request, says) => instead?.(says) });
    return { server, tools: await desk(server.url).connect() };
  };

  it('reports progress, and its error results are plain errors', async () => {
    const { server, tools } = await connect();
    const seen: JsonValue[] = [];
    const progress = (data: JsonValue) => {
      seen.push(data);
      server.released.resolve();
    };
    expect(await runTool(tools, 'hold', {}, { ...createContext(), progress })).toBe('released');
    expect(seen).toEqual([{ progress: 1, total: 2, message: 'held' }]);
    expect(String(await rejectionOf(runTool(tools, 'fail', { text: 'no paper' })))).toBe(
      'Error: failed: no paper',
    );
  });

  it('is cancelled by closing its stream when it is aborted, and is in doubt', async () => {
    const { server, tools } = await connect();
    const aborting = new AbortController();
    const calling = rejectionOf(runTool(tools, 'hold', {}, createContext(aborting.signal)));
    await server.held.promise;
    aborting.abort();
    expect(await calling).toBeInstanceOf(InDoubt);
    await server.cancelled.promise;
    expect(server.listMethods()).not.toContain('notifications/cancelled');
  });

  it('is in doubt immediately when the connection breaks, is not sent again, and later calls succeed', async () => {
    const { server, tools } = await connect();
    const calling = rejectionOf(runTool(tools, 'hold'));
    await server.held.promise;
    server.breakConnections();
    const error = await calling;
    expect(error).toBeInstanceOf(InDoubt);
    expect(String(error)).toMatch(/the connection (ended before the response arrived|failed)/);
    expect(await runTool(tools, 'echo', { text: 'on' })).toBe('on');
    expect(server.ran).toEqual(['hold', 'echo']);
    server.released.resolve();
  });

  const answer = (result: object) => (says: string) => answerTo(says, 'tools/call', result);

  it('is complete without a resultType', async () => {
    const { tools } = await connect(answer({ content: [{ type: 'text', text: 'done' }] }));
    expect(await runTool(tools, 'echo')).toBe('done');
  });

  it.each([
    ['has an unknown type, which the error names', { resultType: 'later' }, "result type 'later'"],
    ['is a task, for which it did not ask', { resultType: 'task', taskId: '7' }, 'began a task'],
  ])('is in doubt when its result %s', async (_what, result, message) => {
    const { tools } = await connect(answer(result));
    const error = await rejectionOf(runTool(tools, 'echo'));
    expect(error).toBeInstanceOf(InDoubt);
    expect(String(error)).toContain(message);
  });

  it('fails with a plain error when the server asks for input', async () => {
    const params = {
      mode: 'form',
      message: 'Which account?',
      requestedSchema: { type: 'object', properties: {} },
    };
    const inputRequests = { account: { method: 'elicitation/create', params } };
    const { tools } = await connect(
      answer({ resultType: 'input_required', inputRequests, requestState: 's' }),
    );
    const error = await rejectionOf(runTool(tools, 'echo'));
    expect(error).not.toBeInstanceOf(InDoubt);
    expect(String(error)).toMatch(/"echo" asks for input.*: Which account\?$/);
  });
});
