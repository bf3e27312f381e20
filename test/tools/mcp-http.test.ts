import { afterEach, describe, expect, it } from 'vitest';
import { InDoubt } from '../../protocol/error.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { until } from '../support/server/runs-app.ts';
import { createContext, findTool, rejectionOf, runTool } from '../support/tools/call-context.ts';
import { closeDesks, desk, SECRET, start } from '../support/tools/http-desk.ts';
import type { HttpMcpServer } from '../support/tools/http-mcp-server.ts';

afterEach(closeDesks);

function free(server: HttpMcpServer): void {
  server.released.resolve();
}

describe('a server over Streamable HTTP', () => {
  it('lists its tools, with their original definitions', async () => {
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

  it('has one session for all calls, and ends it when the source is closed', async () => {
    const server = await start();
    const source = desk(server.url);
    const tools = await source.connect();
    const texts = await Promise.all(['a', 'b'].map(text => runTool(tools, 'echo', { text })));
    expect(texts).toEqual(['a', 'b']);
    const connected = server.listMethods().indexOf('initialize') + 1;
    expect(new Set(server.seen.slice(connected).map(({ session }) => session)).size).toBe(1);
    expect(server.sessions).toBe(1);
    await source.close();
    expect(server.listMethods().at(-1)).toBe('DELETE');
    expect(server.sessions).toBe(0);
    await expect(runTool(tools, 'echo')).rejects.toThrow(/"desk" is closed; nothing was sent/);
  });

  it('may have no sessions', async () => {
    const server = await start({ stateless: true });
    expect(await runTool(await desk(server.url).connect(), 'echo', { text: 'a' })).toBe('a');
    expect(server.seen.every(({ session }) => session === null)).toBe(true);
  });

  it('gets the headers with every request, including the one that ends the session', async () => {
    const server = await start();
    const source = desk(server.url, { headers: { Authorization: `Bearer ${SECRET}`, 'X-Team': 'north' } });
    await runTool(await source.connect(), 'echo');
    await source.close();
    const sent = server.seen.map(({ headers }) => [headers.get('authorization'), headers.get('x-team')]);
    expect(new Set(sent.map(String))).toEqual(new Set([`Bearer ${SECRET},north`]));
    expect(server.listMethods()).toContain('DELETE');
  });

  it('is called with the given fetch', async () => {
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

  it('reports progress, and its error results are plain errors', async () => {
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

describe('a call over HTTP without an answer', () => {
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

  it('is in doubt immediately when the connection breaks, and later calls succeed', async () => {
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

  it('fails with a plain error when the connection breaks and the tool may be repeated', async () => {
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

  it('is not in doubt when it was refused, or the server is down', async () => {
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

describe('a server whose stream of messages ends at once', () => {
  const streaming = async (retry: number) => {
    const opened: number[] = [];
    const server = await start({
      instead: (_request, says) => {
        if (says !== 'GET') return undefined;
        opened.push(performance.now());
        const headers = { 'content-type': 'text/event-stream' };
        return new Response(`retry: ${retry}\nid: ${opened.length}\ndata: \n\n`, { headers });
      },
    });
    return { opened, tools: await desk(server.url).connect() };
  };

  it('is asked again a few times a second, even if it asks for more', async () => {
    const { opened } = await streaming(0);
    await until(() => opened[2]);
    const [first = 0, , third = 0] = opened;
    expect(third - first).toBeGreaterThan(400);
  });

  it('is not asked again before the time that it says, however long', async () => {
    const { opened, tools } = await streaming(3_000_000_000);
    await until(() => opened[0]);
    for (const text of ['a', 'b', 'c', 'd', 'e', 'f']) await runTool(tools, 'echo', { text });
    expect(opened).toHaveLength(1);
  });
});

describe('a server that has lost its sessions', () => {
  it.each([404, 400] as const)(
    'and answers %i gets one new session for all calls, which run once',
    async status => {
      const server = await start({ unknownSession: status });
      const tools = await desk(server.url).connect();
      server.loseSessions();
      const texts = await Promise.all(['a', 'b', 'c'].map(text => runTool(tools, 'echo', { text })));
      expect(texts).toEqual(['a', 'b', 'c']);
      expect(server.ran).toEqual(['echo', 'echo', 'echo']);
      expect(server.listMethods().filter(method => method === 'initialize')).toHaveLength(2);
      expect(server.sessions).toBe(1);
    },
  );

  it('still answers the calls that run in the old session', async () => {
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

  it('and also loses each new one fails after one more attempt', async () => {
    const server = await start();
    const tools = await desk(server.url).connect();
    server.instead = (_request, says) =>
      says === 'tools/call' ? new Response('Session not found', { status: 404 }) : undefined;
    expect(await rejectionOf(runTool(tools, 'echo'))).toMatchObject({ code: 'tool-source-failed' });
    expect(server.listMethods().filter(method => method === 'tools/call')).toHaveLength(2);
  });

  it('can be called again after a restart at the same address', async () => {
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
