import { mkdtemp, readFile, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { EngineError, InDoubt } from '../../protocol/error.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { type McpOptions, type McpToolSource, mcp } from '../../tools/mcp.ts';
import { createContext, findTool, rejectionOf, runTool } from '../support/tools/call-context.ts';

const FIXTURE = join(import.meta.dirname, '../support/tools/fixture-server.ts');
const opened: McpToolSource[] = [];
const folders: string[] = [];

function fixture(mode = 'serve', options: Partial<McpOptions> = {}, ...args: string[]): McpToolSource {
  const source = mcp({
    name: 'fixture',
    command: process.execPath,
    args: ['--no-warnings', FIXTURE, mode, ...args],
    ...options,
  });
  opened.push(source);
  return source;
}

async function logFile(): Promise<string> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'agentchart-mcp-')));
  folders.push(folder);
  return join(folder, 'log');
}

afterEach(async () => {
  await Promise.all(opened.splice(0).map(source => source.close()));
  await Promise.all(folders.splice(0).map(folder => rm(folder, { recursive: true })));
});

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

describe('listing', () => {
  it('reads every page, changes names that some provider refuses, and sorts the tools by name', async () => {
    const names = (await fixture().connect()).map(tool => tool.name);
    expect(names).toHaveLength(15);
    expect(names.slice(0, 5)).toEqual(['about', 'constructor', 'count', 'die', 'dotted_name']);
  });

  it('calls a renamed tool by its name on the server', async () => {
    const tools = await fixture('serve', { prefix: 'x_' }).connect();
    expect(await runTool(tools, 'x_dotted_name', { a: 1 })).toBe('{"a":1}');
  });

  it('returns no tools for a server without any, and prints nothing', async () => {
    const printed = vi.spyOn(console, 'debug');
    expect(await fixture('toolless').connect()).toEqual([]);
    expect(printed.mock.calls).toEqual([]);
    printed.mockRestore();
  });

  it('refuses an override of an unknown tool, and lists the tools of the server', async () => {
    const source = fixture('serve', { tools: { ecko: { hidden: true }, toString: {} } });
    const error = await rejectionOf(source.connect());
    expect(error).toMatchObject({ name: 'EngineError', code: 'agent-invalid' });
    expect(String(error)).toMatch(/"ecko", "toString", but the server has "about", "constructor"/);
  });

  it('refuses two tools with the same resulting name, unless one is hidden', async () => {
    await expect(fixture('twins').connect()).rejects.toThrow(/two of its tools would be named "a_b"/);
    const tools = await fixture('twins', { tools: { 'a/b': { hidden: true } } }).connect();
    expect(tools.map(tool => tool.name)).toEqual(['a_b']);
  });

  it('refuses retries on a tool that is not declared safe to repeat', async () => {
    await expect(fixture('serve', { tools: { pid: { retries: 1 } } }).connect()).rejects.toThrow(
      /"pid".*cannot have retries, got 1/,
    );
  });
});

describe('arguments and results', () => {
  it('names the invalid argument', async () => {
    const echo = findTool(await fixture().connect(), 'echo');
    expect(await echo.validate({ text: 'a', items: [{ n: 1 }, { n: 1.5 }] })).toEqual({
      valid: false,
      message: 'items.1.n: must be integer',
    });
    expect(await echo.validate({})).toEqual({
      valid: false,
      message: "must have required property 'text'",
    });
  });

  it('leaves validation to the server when its schema has an unknown dialect', async () => {
    const exotic = findTool(await fixture().connect(), 'exotic');
    expect(await exotic.validate({ any: 'thing' })).toEqual({ valid: true, value: { any: 'thing' } });
    expect(await exotic.validate('text')).toMatchObject({ valid: false });
  });

  it('passes on keys named like members of Object.prototype', async () => {
    const overrides = Object.fromEntries([['constructor', { sideEffect: 'none' as const }]]);
    const tools = await fixture('serve', { tools: overrides }).connect();
    const hostile = JSON.parse('{"__proto__":{"a":1},"constructor":2}');
    expect(findTool(tools, 'constructor').sideEffect).toBe('none');
    expect(await runTool(tools, 'constructor', hostile)).toBe('{"__proto__":{"a":1},"constructor":2}');
  });

  it('returns images as content, and structured content when there are no parts', async () => {
    const tools = await fixture().connect();
    expect(await runTool(tools, 'picture')).toEqual({
      type: 'content',
      parts: [
        { type: 'text', text: 'a dot' },
        { type: 'image', url: 'data:image/png;base64,AAAA' },
      ],
    });
    expect(await runTool(tools, 'structured')).toEqual({ total: 3 });
  });

  it('reports progress while the call runs', async () => {
    const tools = await fixture().connect();
    const seen: JsonValue[] = [];
    const { promise: second, resolve } = Promise.withResolvers<void>();
    const progress = (data: JsonValue) => {
      if (seen.push(data) === 2) resolve();
    };
    const counting = runTool(tools, 'count', {}, { ...createContext(), progress });
    await second;
    expect(seen).toEqual([
      { progress: 1, total: 2, message: 'step 1' },
      { progress: 2, total: 2, message: 'step 2' },
    ]);
    await runTool(tools, 'release');
    expect(await counting).toBe('counted');
  });

  it('turns error results and JSON-RPC errors into plain errors', async () => {
    const tools = await fixture().connect();
    const failed = await rejectionOf(runTool(tools, 'fail'));
    const refused = await rejectionOf(runTool(tools, 'refuse'));
    expect([failed, refused].map(error => error instanceof InDoubt)).toEqual([false, false]);
    expect(String(failed)).toBe('Error: disk full');
    expect(String(refused)).toMatch(/^Error: "refuse": .*not on Sundays/);
  });
});

describe('a call without an answer', () => {
  it('is in doubt when the server exits during the call, and the cause contains its stderr', async () => {
    const error = await rejectionOf(runTool(await fixture().connect(), 'die'));
    expect(error).toBeInstanceOf(InDoubt);
    if (!(error instanceof InDoubt)) throw error;
    expect(error.message).toMatch(/"die".*"fixture".*it is unknown whether it acted/);
    expect(error.cause).toMatchObject({ code: 'tool-source-failed', details: { stderr: 'out of memory' } });
  });

  it('fails with a plain error when the tool may be repeated', async () => {
    const error = await rejectionOf(runTool(await fixture('serve', { trustHints: true }).connect(), 'die'));
    expect(error).toMatchObject({
      name: 'Error',
      message: expect.stringContaining('unknown whether it acted'),
    });
  });

  it('is in doubt when it times out, and the server is asked to cancel', async () => {
    const log = await logFile();
    const tools = await fixture('serve', { tools: { hang: { timeoutMs: 20 } } }, log).connect();
    expect(await rejectionOf(runTool(tools, 'hang'))).toBeInstanceOf(InDoubt);
    await runTool(tools, 'pid');
    expect(await readFile(log, 'utf8')).toBe(
      'notifications/initialized\nhang\nnotifications/cancelled\npid\n',
    );
  });

  it('is in doubt when it is aborted after it was sent', async () => {
    const aborting = new AbortController();
    const tools = await fixture().connect();
    const { promise: arrived, resolve } = Promise.withResolvers<void>();
    const context = { ...createContext(aborting.signal), progress: () => resolve() };
    const calling = rejectionOf(runTool(tools, 'count', {}, context));
    await arrived;
    aborting.abort();
    expect(await calling).toBeInstanceOf(InDoubt);
  });

  it('is in doubt when the answer is not a tool result', async () => {
    expect(await rejectionOf(runTool(await fixture().connect(), 'garble'))).toBeInstanceOf(InDoubt);
  });

  it('is not sent and not in doubt when it was aborted before', async () => {
    const log = await logFile();
    const tools = await fixture('serve', {}, log).connect();
    const error = await rejectionOf(
      runTool(tools, 'echo', { text: 'a' }, createContext(AbortSignal.abort())),
    );
    expect(error).not.toBeInstanceOf(InDoubt);
    await runTool(tools, 'pid');
    expect(await readFile(log, 'utf8')).not.toContain('echo');
  });
});

describe('the server process', () => {
  it('is shared by all who connect', async () => {
    const source = fixture();
    const [first, second] = await Promise.all([source.connect(), source.connect()]);
    expect(await runTool(first, 'pid')).toBe(await runTool(second, 'pid'));
    expect(await source.connect()).toBe(first);
  });

  it('is restarted once by the calls after it exited', async () => {
    const tools = await fixture().connect();
    const before = await runTool(tools, 'pid');
    await rejectionOf(runTool(tools, 'die'));
    const [after, same] = await Promise.all([runTool(tools, 'pid'), runTool(tools, 'pid')]);
    expect(after).not.toBe(before);
    expect(same).toBe(after);
  });

  it('exits when the source is closed, and later calls are refused without being sent', async () => {
    const source = fixture();
    const tools = await source.connect();
    const pid = Number(await runTool(tools, 'pid'));
    await source.close();
    expect(isRunning(pid)).toBe(false);
    await expect(runTool(tools, 'pid')).rejects.toThrow(/"fixture" is closed; nothing was sent/);
    expect(await runTool(await source.connect(), 'pid')).not.toBe(String(pid));
  });

  it('exits when the source is closed during the start', async () => {
    const source = fixture('silent');
    const connecting = rejectionOf(source.connect());
    await source.close();
    expect(await connecting).toMatchObject({ code: 'tool-source-failed' });
  });

  it('gets the given environment and only safe defaults of the parent', async () => {
    vi.stubEnv('AGENTCHART_TEST_SECRET', 'hidden');
    const folder = join(await logFile(), '..');
    const tools = await fixture('serve', { env: { GIVEN: 'value' }, cwd: folder }).connect();
    vi.unstubAllEnvs();
    const { client, env, cwd } = JSON.parse(String(await runTool(tools, 'about')));
    expect(env).toMatchObject({ GIVEN: 'value', PATH: process.env.PATH });
    expect(env).not.toHaveProperty('AGENTCHART_TEST_SECRET');
    expect(cwd).toBe(folder);
    expect(client).toEqual({ name: packageJson.name, version: packageJson.version });
  });
});

describe('a server that does not start', () => {
  it('is reported with its command and the end of its stderr, without secrets', async () => {
    const source = fixture(
      'crash',
      { env: { DATABASE_URL: 'postgres://me:pass-word@db/x' } },
      '--api-key',
      'sk-123456',
      'postgres://me:pass-word@db/x',
    );
    const error = await rejectionOf(source.connect());
    if (!(error instanceof EngineError)) throw error;
    expect(error.code).toBe('tool-source-failed');
    expect(error.message).toContain('it ended before it answered');
    expect(error.message).toMatch(/fixture-server\.ts crash --api-key \*\*\*/);
    expect(error.message).toMatch(/no database at \*\*\*$/);
    expect(JSON.stringify([error.message, error.details])).not.toMatch(/pass-word|sk-123456/);
    const { stderr } = error.details as { stderr: string };
    expect(Buffer.byteLength(stderr)).toBeLessThanOrEqual(4096);
    expect(error.message.length).toBeLessThan(1000);
  });

  it('is reported when its program does not exist, and can be connected again', async () => {
    const source = fixture('serve', { command: 'agentchart-no-such-program' });
    for (const _attempt of [1, 2]) {
      expect(await rejectionOf(source.connect())).toMatchObject({
        code: 'tool-source-failed',
        message: expect.stringMatching(/"fixture" failed: .*agentchart-no-such-program/),
      });
    }
  });

  it('is reported when it starts and does not answer', async () => {
    expect(await rejectionOf(fixture('silent', { timeoutMs: 20 }).connect())).toMatchObject({
      code: 'tool-source-failed',
      message: expect.stringContaining('timed out'),
    });
  });

  it('is refused by name when its options are invalid', () => {
    expect(() => mcp({ command: '' })).toThrow(/`command`/);
    expect(() => mcp({ command: 'x', prefix: 'a.' })).toThrow(/"x": expected prefix.*"a\."/);
    expect(() => mcp({ command: 'x', timeoutMs: 0 })).toThrow(/timeoutMs above 0, got 0/);
  });
});
