import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { JsonObject } from '../../../../protocol/json.ts';
import {
  BuiltinDesk,
  CODE,
  computes,
  DONE,
  INCLUDE,
  OTHER,
  PAGE,
  SANDBOX,
  SEARCHES,
  USER,
  WEB,
} from '../../../support/responses/builtin-desk.ts';
import { DIALECTS } from '../../../support/responses/dialect-provider.ts';
import { Gateway } from '../../../support/responses/gateway.ts';

let desk: BuiltinDesk;

beforeAll(async () => {
  desk = await BuiltinDesk.open();
});
beforeEach(() => {
  for (const [name, value] of Object.entries(desk.provider.environment)) vi.stubEnv(name, value);
  desk.endpoint.find(PAGE, OTHER);
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await desk.close();
});

describe('web search', () => {
  it('passes the options of the request on, and keeps to its domains', async () => {
    desk.provider.play(SEARCHES, DONE);
    const options = {
      filters: { allowed_domains: ['cats.example'] },
      user_location: { type: 'approximate', country: 'CH' },
    };
    const { output } = await desk.ask({
      tools: [{ ...WEB, ...options, search_context_size: 'low' }],
      include: INCLUDE,
    });
    expect(desk.endpoint.asked[0]?.body).toEqual({
      query: 'cats',
      allowed_domains: ['cats.example'],
      user_location: options.user_location,
      search_context_size: 'low',
    });
    expect(desk.endpoint.asked[0]?.headers.authorization).toBe('Bearer hidden-key');
    expect(output[0]?.action).toMatchObject({ sources: [{ url: PAGE.url }] });
    expect(desk.sent()).not.toContain('They bark.');
  });

  it.each([
    [
      'an endless answer',
      JSON.stringify({ results: [{ ...PAGE, snippet: 'x'.repeat(1_100_000) }] }),
      'more than',
    ],
    ['an answer without results', '{"found":1}', 'no list of results'],
    ['results that are no pages', '{"results":[{"url":"javascript:alert(1)"}]}', 'no list of results'],
  ])('fails with %s', async (_, body, reason) => {
    desk.endpoint.answer = { status: 200, body };
    desk.provider.play(SEARCHES, DONE);
    expect((await desk.ask({})).output[0]).toMatchObject({ status: 'failed' });
    expect(desk.sent()).toContain(reason);
  });

  it('uses a tool of an MCP server, also of a hidden one, without a trace of it', async () => {
    desk.provider.play(SEARCHES, DONE);
    const response = await desk.bare.create({ model: DIALECTS.chat, input: [USER], tools: [WEB] });
    expect(response.output).toMatchObject([
      { type: 'web_search_call', status: 'completed' },
      { type: 'message' },
    ]);
    expect(desk.sent()).toContain('"query":"cats"');
    expect(JSON.stringify(response)).not.toMatch(/vault|exotic/);
  });

  it('shares the connection of its MCP server with hidden tools', async () => {
    const shared = new Gateway(
      {},
      {
        config: folder => ({
          mcp_servers: { vault: folder.server({ hidden: true, allowed_tools: ['pid'] }) },
          builtin_tools: { web_search: { mcp_server: 'vault', tool: 'pid' } },
        }),
      },
    );
    const calls = [...(SEARCHES.calls ?? []), { name: 'pid', arguments: {} }];
    desk.provider.play({ calls }, DONE);
    await shared.create({ model: DIALECTS.chat, input: [USER], tools: [WEB] });
    await shared.close();
    const [pid, searching] = [/"content":"(\d+)"/, /"text":"(\d+)"/].map(
      shown => shown.exec(desk.sent())?.[1],
    );
    expect(pid).toMatch(/^\d+$/);
    expect(searching).toBe(pid);
  });

  it('refuses options that the MCP tool does not have', async () => {
    desk.provider.play();
    const refused = async (more: JsonObject) =>
      await desk.bare.refused({ model: DIALECTS.chat, input: [USER], tools: [{ ...WEB, ...more }] });
    expect(await refused({ search_context_size: 'high' })).toMatchObject({
      code: 'unsupported_parameter',
      param: 'tools[0].search_context_size',
    });
    expect(await refused({ filters: { allowed_domains: ['a.example'] } })).toMatchObject({
      param: 'tools[0].filters',
    });
    expect(desk.provider.requests).toEqual([]);
  });
});

describe('the code interpreter', () => {
  it('has neither the secrets of the server nor endless time and output', async () => {
    vi.stubEnv('SECRET_OF_SERVER', 'hidden-secret');
    const code = `
      console.log(JSON.stringify(process.env));
      console.error('and', 'x'.repeat(60000));
      process.exit(3)`;
    desk.provider.play(computes(code), DONE);
    const { output } = await desk.ask({ include: INCLUDE });
    const [first] = (output[0]?.outputs ?? []) as { logs: string }[];
    const logs = first?.logs ?? '';
    expect(logs).not.toContain('hidden');
    expect(logs.length).toBeLessThan(51_000);
    expect(logs).toContain('left out');
    expect(desk.sent()).toContain('"exit_code":3');
  });

  it('tells code that was killed from code that took too long', async () => {
    desk.provider.play(computes("console.log('so far'); process.kill(process.pid, 'SIGKILL')"), DONE);
    const { output } = await desk.ask({});
    expect(output).toMatchObject([{ status: 'completed' }, { type: 'message' }]);
    expect(desk.sent()).toContain('"exit_code":null,"signal":"SIGKILL"');
    expect(desk.sent()).not.toContain('did not end');
  });

  it('kills code that does not end, and what it started', async () => {
    const quick = new Gateway(
      {},
      { config: () => ({ builtin_tools: { code_interpreter: { command: SANDBOX, timeout_ms: 400 } } }) },
    );
    const code = `
      require('node:child_process').spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'inherit' });
      setInterval(() => {}, 1000)`;
    desk.provider.play(computes(code), DONE);
    const { output } = await quick.create({ model: DIALECTS.chat, input: [USER], tools: [CODE] });
    expect(output).toMatchObject([{ status: 'failed', code }, { type: 'message' }]);
    expect(desk.sent()).toContain('did not end within 400 ms');
    await quick.close();
  });
});
