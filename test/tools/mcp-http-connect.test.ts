import { inspect } from 'node:util';
import { afterEach, describe, expect, it } from 'vitest';
import * as z from 'zod';
import { EngineError, InDoubt } from '../../protocol/error.ts';
import { connectTools } from '../../tools/connect-tools.ts';
import { type McpOptions, mcp } from '../../tools/mcp.ts';
import { tool } from '../../tools/tool.ts';
import { rejectionOf, runTool } from '../support/tools/call-context.ts';
import { closeDesks, desk, SECRET, start } from '../support/tools/http-desk.ts';

afterEach(closeDesks);

/** Everything that an error can show, including its causes. */
const show = (error: unknown) =>
  inspect(error, { depth: 9 }) + JSON.stringify(error instanceof EngineError ? error.details : null);

describe('a server that cannot be connected', () => {
  const connect = (url: string, options = {}) => rejectionOf(desk(url, options).connect());

  it('is named with its URL, without query and secrets, even when its answer repeats them', async () => {
    const server = await start({
      instead: request => {
        const body = `${request.headers.get('authorization')} at ${request.url} is not welcome`;
        return new Response(body, { status: 401 });
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

  it('does not reveal secrets in the errors of calls', async () => {
    const server = await start();
    const tools = await desk(server.url, { headers: { 'X-Key': SECRET } }).connect();
    const failed = await rejectionOf(runTool(tools, 'fail', { text: SECRET }));
    server.instead = request => new Response(request.headers.get('x-key'), { status: 500 });
    const doubted = await rejectionOf(runTool(tools, 'echo'));
    expect(doubted).toBeInstanceOf(InDoubt);
    for (const error of [failed, doubted]) expect(show(error)).not.toContain(SECRET);
  });

  it('times out, whichever request it does not answer', async () => {
    for (const silent of ['initialize', 'notifications/initialized', 'tools/list']) {
      const server = await start({
        instead: (_request, says) => (says === silent ? new Promise<Response>(() => {}) : undefined),
      });
      const error = await connect(server.url, { timeoutMs: 150 });
      expect(error, silent).toMatchObject({ code: 'tool-source-failed' });
      expect(String(error), silent).toMatch(/time/);
    }
  });

  it('is abandoned when the source is closed during the attempt', async () => {
    const server = await start({ instead: () => new Promise<Response>(() => {}) });
    const source = desk(server.url);
    const connecting = rejectionOf(source.connect());
    await source.close();
    expect(await connecting).toMatchObject({ code: 'tool-source-failed' });
  });

  it('is distinguished from a missing server and from a server of another protocol', async () => {
    const server = await start({
      instead: () => new Response('<h1>Hi</h1>', { headers: { 'content-type': 'text/html' } }),
    });
    expect(String(await connect(server.url))).toContain('Unexpected content type: text/html');
    const { url } = server;
    await server.close();
    expect(String(await connect(url))).toMatch(/it cannot be reached: .*ECONNREFUSED/);
  });

  it.each([301, 302, 303, 307, 308])(
    'gets no headers at another origin after a redirect (%i)',
    async status => {
      const other = await start();
      const headers = { location: `${other.url}?to=${SECRET}` };
      const server = await start({ instead: () => new Response(null, { status, headers }) });
      const error = await connect(server.url, { headers: { 'X-Key': SECRET } });
      expect(String(error)).toMatch(new RegExp(`it answered ${status} \\(.*not followed`));
      expect(show(error)).not.toContain(SECRET);
      expect(other.seen).toEqual([]);
    },
  );

  it('can be connected again', async () => {
    const server = await start({ instead: () => new Response('not yet', { status: 503 }) });
    const source = desk(server.url);
    expect(String(await rejectionOf(source.connect()))).toContain('it answered 503 (not yet)');
    server.instead = undefined;
    expect(await source.connect()).toHaveLength(4);
  });

  it('is refused before any request when its options are invalid, without showing them', () => {
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
  it('have it under names with their labels, and are called with the original name', async () => {
    const [first, second] = [await start(), await start()];
    const { tools } = await connectTools([
      desk(first.url, { name: 'north desk' }),
      desk(second.url, { name: 'north.desk', tools: { fail: { hidden: true } } }),
    ]);
    expect([...tools.keys()]).toEqual([
      'mcp_north_desk_echo',
      'fail',
      'mcp_north_desk_hold',
      'mcp_north_desk_hold_again',
      'mcp_north_desk_echo_2',
      'mcp_north_desk_hold_2',
      'mcp_north_desk_hold_again_2',
    ]);
    expect([...tools].every(([name, tool]) => tool.name === name)).toBe(true);
    expect(await runTool([...tools.values()], 'mcp_north_desk_echo_2', { text: 'a' })).toBe('a');
    expect([first.ran, second.ran]).toEqual([[], ['echo']]);
  });

  it('leave the name to a tool of the application', async () => {
    const server = await start();
    const own = tool({ name: 'echo', description: '', input: z.object({}), run: () => 'own' });
    const { tools } = await connectTools([desk(server.url), own]);
    expect([...tools.keys()]).toEqual(['mcp_desk_echo', 'fail', 'hold', 'hold_again', 'echo']);
    expect(tools.get('echo')).toBe(own);
  });
});
