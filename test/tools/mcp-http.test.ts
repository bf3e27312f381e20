import { inspect } from 'node:util';
import { afterEach, describe, expect, it } from 'vitest';
import * as z from 'zod';
import { EngineError, InDoubt } from '../../protocol/error.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { connectTools } from '../../tools/connect-tools.ts';
import { type HttpServer, type McpOptions, type McpToolSource, mcp } from '../../tools/mcp.ts';
import { tool } from '../../tools/tool.ts';
import { createContext, findTool, rejectionOf, runTool } from '../support/tools/call-context.ts';
import { type HttpMcpOptions, HttpMcpServer } from '../support/tools/http-mcp-server.ts';

const SECRET = 'tok-5f2a9c-secret';
const sources: McpToolSource[] = [];
const servers: HttpMcpServer[] = [];

async function start(options: HttpMcpOptions = {}): Promise<HttpMcpServer> {
  const server = await HttpMcpServer.start(options);
  servers.push(server);
  return server;
}

function desk(
  url: string,
  options: Partial<Omit<McpOptions, 'url'>> & Partial<HttpServer> = {},
): McpToolSource {
  const source = mcp({ name: 'desk', url, ...options });
  sources.push(source);
  return source;
}

afterEach(async () => {
  await Promise.all(sources.splice(0).map(source => source.close()));
  await Promise.all(servers.splice(0).map(server => server.close()));
});

function free(server: HttpMcpServer): void {
  server.released.resolve();
}

/** All that an error could show, its causes too. */
const show = (error: unknown) =>
  inspect(error, { depth: 9 }) + JSON.stringify(error instanceof EngineError ? error.details : null);

describe('a server over Streamable HTTP', () => {
  it('gives its tools, with what it says of them unchanged', async () => {
    const server = await start();
    const tools = await desk(server.url, { prefix: 'd_', tools: { fail: { hidden: true } } }).connect();
    expect(tools.map(tool => tool.name)).toEqual(['d_echo', 'd_hold', 'd_hold_again']);
    expect(findTool(tools, 'd_echo').origin).toMatchObject({
      label: 'desk',
      tool: {
        name: 'echo',
        description: 'Does echo.',
        inputSchema: { type: 'object', properties: { text: { type: 'string' } } },
        annotations: { readOnlyHint: true },
      },
    });
  });

  it('is called, with one session for all calls, and is told when it is left', async () => {
    const server = await start();
    const source = desk(server.url);
    const tools = await source.connect();
    const said = await Promise.all(['a', 'b'].map(text => runTool(tools, 'echo', { text })));
    expect(said).toEqual(['a', 'b']);
    expect(new Set(server.seen.slice(1).map(({ session }) => session)).size).toBe(1);
    expect(server.sessions).toBe(1);
    await source.close();
    expect(server.says().at(-1)).toBe('DELETE');
    expect(server.sessions).toBe(0);
    await expect(runTool(tools, 'echo')).rejects.toThrow(/"desk" is closed; nothing was sent/);
  });

  it('may keep no sessions', async () => {
    const server = await start({ stateless: true });
    expect(await runTool(await desk(server.url).connect(), 'echo', { text: 'a' })).toBe('a');
    expect(server.seen.every(({ session }) => session === null)).toBe(true);
  });

  it('gets the headers with every request, the one that ends the session too', async () => {
    const server = await start();
    const source = desk(server.url, { headers: { Authorization: `Bearer ${SECRET}`, 'X-Team': 'north' } });
    await runTool(await source.connect(), 'echo');
    await source.close();
    const sent = server.seen.map(({ headers }) => [headers.get('authorization'), headers.get('x-team')]);
    expect(new Set(sent.map(String))).toEqual(new Set([`Bearer ${SECRET},north`]));
    expect(server.says()).toContain('DELETE');
  });

  it('is reached by the given fetch', async () => {
    const server = await start();
    const reached: string[] = [];
    const source = desk('http://inside.example/mcp', {
      fetch: (_input, init) => {
        reached.push(init?.method ?? 'GET');
        return fetch(server.url, init);
      },
    });
    expect(await runTool(await source.connect(), 'echo', { text: 'a' })).toBe('a');
    expect(reached).toContain('POST');
  });

  it('shows progress, and its error results are plain errors', async () => {
    const server = await start();
    const tools = await desk(server.url).connect();
    const seen: JsonValue[] = [];
    const context = {
      ...createContext(),
      progress: (data: JsonValue) => {
        seen.push(data);
        free(server);
      },
    };
    expect(await runTool(tools, 'hold', {}, context)).toBe('released');
    expect(seen).toEqual([{ progress: 1, total: 2, message: 'held' }]);
    const failed = await rejectionOf(runTool(tools, 'fail', { text: 'no paper' }));
    expect(failed).not.toBeInstanceOf(InDoubt);
    expect(String(failed)).toBe('Error: failed: no paper');
  });
});

describe('a call over HTTP that gets no answer', () => {
  it('is cancelled on the server when it is aborted, and is in doubt', async () => {
    const server = await start();
    const tools = await desk(server.url).connect();
    const aborting = new AbortController();
    const calling = rejectionOf(runTool(tools, 'hold', {}, createContext(aborting.signal)));
    await server.held.promise;
    aborting.abort();
    expect(await calling).toBeInstanceOf(InDoubt);
    await server.cancelled.promise;
    expect(await runTool(tools, 'echo', { text: 'on' })).toBe('on');
    free(server);
  });

  it('is in doubt at once when the connection breaks in the middle, and later calls go through', async () => {
    const server = await start();
    const tools = await desk(server.url).connect();
    const calling = rejectionOf(runTool(tools, 'hold'));
    await server.held.promise;
    server.breakConnections();
    const error = await calling;
    expect(error).toBeInstanceOf(InDoubt);
    expect(String(error)).toMatch(/"hold".*"desk".*connection ended before the response.*unknown/);
    expect(await runTool(tools, 'echo', { text: 'on' })).toBe('on');
    free(server);
  });

  it('is a plain error then for a tool that may be repeated', async () => {
    const server = await start();
    const tools = await desk(server.url, { trustHints: true }).connect();
    const calling = rejectionOf(runTool(tools, 'hold_again'));
    await server.held.promise;
    server.breakConnections();
    const error = await calling;
    expect(error).toBeInstanceOf(Error);
    expect(error).not.toBeInstanceOf(InDoubt);
    free(server);
  });

  it('is in doubt when the server or a gateway fails with 5xx', async () => {
    const server = await start();
    const tools = await desk(server.url).connect();
    server.instead = (_request, says) =>
      says === 'tools/call' ? new Response('upstream timed out', { status: 504 }) : undefined;
    const error = await rejectionOf(runTool(tools, 'echo'));
    expect(error).toBeInstanceOf(InDoubt);
    expect(String(error)).toContain('it answered 504 (upstream timed out)');
  });

  it('is not in doubt when it was refused, or nobody listens', async () => {
    const [server, gone] = [await start(), await start()];
    const nowhere = gone.url;
    await gone.close();
    let url = server.url;
    const tools = await desk(server.url, { fetch: (_input, init) => fetch(url, init) }).connect();
    server.instead = () => new Response('slow down', { status: 429 });
    expect(await rejectionOf(runTool(tools, 'echo'))).toMatchObject({
      code: 'tool-source-failed',
      message: expect.stringContaining('it answered 429 (slow down)'),
    });
    url = nowhere;
    expect(await rejectionOf(runTool(tools, 'echo'))).toMatchObject({
      code: 'tool-source-failed',
      message: expect.stringMatching(/it cannot be reached: .*ECONNREFUSED/),
    });
  });
});

describe('a server that has lost its sessions', () => {
  it.each([404, 400] as const)(
    'and says so with %i is given a new one, once for all calls, which run once',
    async status => {
      const server = await start({ unknownSession: status });
      const tools = await desk(server.url).connect();
      server.loseSessions();
      const said = await Promise.all(['a', 'b', 'c'].map(text => runTool(tools, 'echo', { text })));
      expect(said).toEqual(['a', 'b', 'c']);
      expect(server.ran).toEqual(['echo', 'echo', 'echo']);
      expect(server.says().filter(says => says === 'initialize')).toHaveLength(2);
      expect(server.sessions).toBe(1);
    },
  );

  it('still answers the calls that run in the old one', async () => {
    const server = await start();
    const source = desk(server.url);
    const tools = await source.connect();
    const holding = runTool(tools, 'hold');
    await server.held.promise;
    server.loseSessions();
    expect(await runTool(tools, 'echo', { text: 'new' })).toBe('new');
    free(server);
    expect(await holding).toBe('released');
  });

  it('and loses each new one too fails, after one attempt in a new one', async () => {
    const server = await start();
    const tools = await desk(server.url).connect();
    server.instead = (_request, says) =>
      says === 'tools/call' ? new Response('Session not found', { status: 404 }) : undefined;
    expect(await rejectionOf(runTool(tools, 'echo'))).toMatchObject({ code: 'tool-source-failed' });
    expect(server.says().filter(says => says === 'tools/call')).toHaveLength(2);
  });

  it('works on where it was, after it ended and was started again', async () => {
    const server = await start();
    const tools = await desk(server.url).connect();
    const { port } = server;
    await server.close();
    await rejectionOf(runTool(tools, 'echo'));
    const again = await start({ port });
    expect(await runTool(tools, 'echo', { text: 'back' })).toBe('back');
    expect(again.sessions).toBe(1);
  });
});

describe('a server that cannot be connected', () => {
  const connect = (url: string, options = {}) => rejectionOf(desk(url, options).connect());

  it('is named with its URL, without query and secrets, even when it says them back', async () => {
    const server = await start({
      instead: request => {
        const said = `${request.headers.get('authorization')} at ${request.url} is not welcome`;
        return new Response(said, { status: 401 });
      },
    });
    const error = await connect(`${server.url}?key=${SECRET}-2&team=northern`, {
      headers: { Authorization: `Bearer ${SECRET}` },
    });
    expect(error).toMatchObject({ code: 'tool-source-failed', details: { url: server.url } });
    expect(String(error)).toContain(`the MCP server "desk" at ${server.url} failed: it answered 401 (`);
    expect(String(error)).toContain('check `headers`');
    expect(show(error)).not.toMatch(/tok-5f2a9c|northern/);
  });

  it('keeps secrets out of what goes wrong in a call', async () => {
    const server = await start();
    const tools = await desk(server.url, { headers: { 'X-Key': SECRET } }).connect();
    const failed = await rejectionOf(runTool(tools, 'fail', { text: SECRET }));
    server.instead = request => new Response(request.headers.get('x-key'), { status: 500 });
    const doubted = await rejectionOf(runTool(tools, 'echo'));
    expect(doubted).toBeInstanceOf(InDoubt);
    for (const error of [failed, doubted]) expect(show(error)).not.toContain(SECRET);
  });

  it('is given up when it says nothing, whichever request it leaves open', async () => {
    for (const silent of ['initialize', 'notifications/initialized', 'tools/list']) {
      const server = await start({
        instead: (_request, says) => (says === silent ? new Promise<Response>(() => {}) : undefined),
      });
      const error = await connect(server.url, { timeoutMs: 150 });
      expect(error, silent).toMatchObject({ code: 'tool-source-failed' });
      expect(String(error), silent).toMatch(/time/);
    }
  });

  it('is given up when the source is closed meanwhile', async () => {
    const server = await start({ instead: () => new Promise<Response>(() => {}) });
    const source = desk(server.url);
    const connecting = rejectionOf(source.connect());
    await source.close();
    expect(await connecting).toMatchObject({ code: 'tool-source-failed' });
  });

  it('is told from one that is not there, or is something else', async () => {
    const server = await start({
      instead: () => new Response('<h1>Hi</h1>', { headers: { 'content-type': 'text/html' } }),
    });
    expect(String(await connect(server.url))).toContain('Unexpected content type: text/html');
    const { url } = server;
    await server.close();
    expect(String(await connect(url))).toMatch(/it cannot be reached: .*ECONNREFUSED/);
  });

  it.each([301, 302, 303, 307, 308])('takes no headers to another origin (%i)', async status => {
    const other = await start();
    const headers = { location: `${other.url}?to=${SECRET}` };
    const server = await start({ instead: () => new Response(null, { status, headers }) });
    const error = await connect(server.url, { headers: { 'X-Key': SECRET } });
    expect(String(error)).toMatch(new RegExp(`it answered ${status} \\(.*not followed`));
    expect(show(error)).not.toContain(SECRET);
    expect(other.seen).toEqual([]);
  });

  it('can be tried again', async () => {
    const server = await start({ instead: () => new Response('not yet', { status: 503 }) });
    const source = desk(server.url);
    expect(String(await rejectionOf(source.connect()))).toContain('it answered 503 (not yet)');
    server.instead = undefined;
    expect(await source.connect()).toHaveLength(4);
  });

  it('is refused before anything is sent when its options cannot work, without showing them', () => {
    const refused = (options: object) => {
      try {
        mcp(options as McpOptions);
      } catch (error) {
        return show(error);
      }
      return 'accepted';
    };
    expect(refused({ url: 'ftp://x/y' })).toMatch(/agent-invalid|http or https/);
    expect(refused({ url: 'not a url' })).toContain('http or https');
    expect(refused({ name: 'a', url: 'https://me:pass@x/y' })).toMatch(/without credentials/);
    expect(refused({ url: 'https://me:pass@x/y' })).not.toMatch(/pass@|me:/);
    expect(refused({ url: 'https://x', headers: { 'X-Key': `${SECRET}\na` } })).toMatch(
      /"X-Key" cannot be sent/,
    );
    expect(refused({ url: 'https://x', headers: { 'X-Key': `${SECRET}\nX: y` } })).not.toContain(SECRET);
    expect(refused({ command: 'x', url: 'https://x' })).toMatch(/, not both/);
    expect(refused({ name: 'x' })).toMatch(/`command`.*`url`/);
  });
});

describe('two servers with a tool of the same name', () => {
  it('have it under names with their labels, which are called as the servers know them', async () => {
    const [first, second] = [await start(), await start()];
    const { tools } = await connectTools([
      desk(first.url, { name: 'north desk' }),
      desk(second.url, { name: 'north.desk', tools: { fail: { hidden: true } } }),
    ]);
    expect([...tools.keys()]).toEqual([
      'mcp_north_desk_echo',
      'mcp_north_desk_hold',
      'mcp_north_desk_hold_again',
      'fail',
      'mcp_north_desk_echo_2',
      'mcp_north_desk_hold_2',
      'mcp_north_desk_hold_again_2',
    ]);
    expect([...tools].every(([name, tool]) => tool.name === name)).toBe(true);
    expect(await runTool([...tools.values()], 'mcp_north_desk_echo_2', { text: 'a' })).toBe('a');
    expect([first.ran, second.ran]).toEqual([[], ['echo']]);
  });

  it('leave it to a tool of the application that is named so', async () => {
    const server = await start();
    const own = tool({ name: 'echo', description: '', input: z.object({}), run: () => 'own' });
    const { tools } = await connectTools([desk(server.url), own]);
    expect([...tools.keys()]).toEqual(['mcp_desk_echo', 'hold', 'hold_again', 'fail', 'echo']);
    expect(tools.get('echo')).toBe(own);
  });
});
