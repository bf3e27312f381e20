import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { EngineError, messageOf } from '../../protocol/error.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { readGatewayConfig } from '../../server/gateway/config/read-gateway-config.ts';
import { calling, Desk } from '../support/cli/desk.ts';
import { ServedDesk } from '../support/server/served-desk.ts';
import { rejectionOf } from '../support/tools/call-context.ts';
import { HttpMcpServer } from '../support/tools/http-mcp-server.ts';

const folder = mkdtempSync(join(tmpdir(), 'agentchart-config-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function write(config: unknown, name = 'gateway.json'): string {
  const file = join(folder, name);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, typeof config === 'string' ? config : JSON.stringify(config));
  return file;
}

const reading = (config: unknown, environment: Record<string, string> = {}) =>
  readGatewayConfig(write(config), environment);

/** The problems reported for an unusable configuration. */
async function problemsOf(config: unknown, environment: Record<string, string> = {}): Promise<string[]> {
  const error = await rejectionOf(reading(config, environment));
  if (!(error instanceof EngineError)) throw error;
  expect(error.code).toBe('input-invalid');
  const [first = '', ...problems] = error.message.split('\n  ');
  expect(first).toContain(join(folder, 'gateway.json'));
  return problems;
}

describe('a configuration file', () => {
  it('is read completely', async () => {
    const config = await reading({
      models: { fast: 'openai:gpt-5-mini' },
      mcp_servers: {
        desk: {
          url: 'https://desk.example/mcp?v=2',
          headers: { 'X-Team': 'north' },
          require_approval: { always: { tool_names: ['refund'] }, never: { tool_names: ['lookup'] } },
          allowed_tools: ['refund', 'lookup'],
          tools: { lookup: { side_effect: 'none', retries: 2, timeout_ms: 500 }, refund: { approval: true } },
          timeout_ms: 3000,
        },
        clock: { command: 'clock', args: ['-u'], hidden: true },
      },
      allowed_server_urls: ['https://other.example/mcp'],
    });
    expect(config).toEqual({
      models: { fast: 'openai:gpt-5-mini' },
      mcpServers: {
        desk: {
          transport: { url: 'https://desk.example/mcp?v=2', headers: { 'X-Team': 'north' } },
          approval: { always: ['refund'], never: ['lookup'] },
          allowedTools: ['refund', 'lookup'],
          tools: { lookup: { sideEffect: 'none', retries: 2, timeoutMs: 500 }, refund: { approval: true } },
          timeoutMs: 3000,
        },
        clock: { transport: { command: 'clock', args: ['-u'], cwd: folder }, hidden: true },
      },
      allowedServerUrls: ['https://other.example/mcp'],
      builtinTools: {},
    });
    expect(await reading({})).toEqual({
      models: {},
      mcpServers: {},
      allowedServerUrls: [],
      builtinTools: {},
    });
  });

  it('resolves relative paths against its folder', async () => {
    const file = write(
      {
        models: { played: 'scripted:turns.json', far: 'scripted:/far/turns.json' },
        mcp_servers: {
          a: { command: './bin/server', cwd: 'work' },
          b: { command: 'node', args: ['server.js'] },
          c: { command: '/usr/bin/server', cwd: '/srv' },
        },
      },
      'deep/er/gateway.json',
    );
    const { models, mcpServers } = await readGatewayConfig(file, {});
    const base = resolve(folder, 'deep/er');
    expect(models).toEqual({ played: `scripted:${base}/turns.json`, far: 'scripted:/far/turns.json' });
    expect(Object.values(mcpServers).map(({ transport }) => transport)).toEqual([
      { command: `${base}/bin/server`, cwd: `${base}/work` },
      { command: 'node', args: ['server.js'], cwd: base },
      { command: '/usr/bin/server', cwd: '/srv' },
    ]);
  });

  it('defines how built-in tools are run, with the same paths and secrets as elsewhere', async () => {
    const config = await reading(
      {
        builtin_tools: {
          web_search: { url: 'https://search.example/', headers: { 'x-key': `\${KEY}` }, timeout_ms: 5 },
          file_search: { stores: { own: { folders: ['files', '/all/files'] } } },
          code_interpreter: { command: ['./run', './not-a-path'], env: { KEY: `\${KEY}` }, pass: true },
        },
      },
      { KEY: 'secret' },
    );
    expect(config.builtinTools).toEqual({
      web_search: {
        pass: false,
        endpoint: { url: 'https://search.example/', headers: { 'x-key': 'secret' }, timeoutMs: 5 },
      },
      file_search: {
        pass: false,
        stores: { own: { folders: [join(folder, 'files'), resolve('/all/files')] } },
      },
      code_interpreter: {
        pass: true,
        sandbox: { command: [join(folder, 'run'), './not-a-path'], cwd: folder, env: { KEY: 'secret' } },
      },
    });
  });

  it.each<[JsonObject, string]>([
    [{ web_search: {} }, 'builtin_tools.web_search: expected "mcp_server" with "tool"'],
    [{ web_search: { mcp_server: 'a' } }, 'builtin_tools.web_search: expected "mcp_server" with "tool"'],
    [
      { web_search: { mcp_server: 'a', tool: 'b' } },
      'builtin_tools.web_search.mcp_server: expected the label',
    ],
    [{ web_search: { url: 'file:///etc' } }, 'builtin_tools.web_search.url: expected an http or https URL'],
    [{ file_search: {} }, 'builtin_tools.file_search: expected "stores"'],
    [{ code_interpreter: { command: [] } }, 'builtin_tools.code_interpreter.command'],
    [{ computer: {} }, 'builtin_tools: unknown field "computer"'],
  ])('rejects built-in tools that cannot be run: %j', async (builtin_tools, problem) => {
    expect((await problemsOf({ builtin_tools })).join('\n')).toContain(problem);
  });

  it('reads secrets from the environment, in headers, env and tokens only', async () => {
    const { mcpServers } = await reading(
      {
        mcp_servers: {
          a: {
            url: 'https://a.example',
            headers: { Authorization: `Bearer \${TOKEN}`, Two: `\${A}-\${A}\${B}` },
          },
          b: { command: 'b', args: [`\${TOKEN}`], env: { KEY: `\${TOKEN}`, PLAIN: `$TOKEN \${} \${1}` } },
        },
      },
      { TOKEN: 'tok-1', A: 'a', B: `\${TOKEN}` },
    );
    expect(mcpServers.a?.transport).toMatchObject({
      headers: { Authorization: 'Bearer tok-1', Two: `a-a\${TOKEN}` },
    });
    expect(mcpServers.b?.transport).toMatchObject({
      args: [`\${TOKEN}`],
      env: { KEY: 'tok-1', PLAIN: `$TOKEN \${} \${1}` },
    });
  });

  it('names each unset variable and where it is needed', async () => {
    const problems = await problemsOf(
      {
        mcp_servers: {
          a: { url: 'https://a.example', headers: { Authorization: `Bearer \${NO_TOKEN}` } },
          b: { command: 'b', env: { 'A KEY': `\${EMPTY}` } },
        },
      },
      { EMPTY: '' },
    );
    expect(problems).toEqual([
      `mcp_servers.a.headers.Authorization: the environment variable \${NO_TOKEN} is not set`,
      `mcp_servers.b.env["A KEY"]: the environment variable \${EMPTY} is not set`,
    ]);
  });

  it.each<[string, unknown, string]>([
    ['an unknown field', { servers: {} }, 'unknown field "servers"; expected one of models, mcp_servers'],
    ['a value that is not an object', [], 'expected object, got array'],
    [
      'a model without a provider',
      { models: { 'gpt-4.1': 'gpt' } },
      'models["gpt-4.1"]: expected "provider:model"',
    ],
    [
      'an unknown provider',
      { models: { x: 'acme:big' } },
      'models.x: expected "provider:model" with one of the providers',
    ],
    [
      'a label that requests cannot contain',
      server({ command: 'x' }, '1st'),
      'mcp_servers.1st: expected a label',
    ],
    ['neither a command nor a URL for a server', server({}), 'mcp_servers.s: expected either "command"'],
    [
      'both a command and a URL for a server',
      server({ command: 'x', url: 'https://x' }),
      'mcp_servers.s: expected either "command"',
    ],
    [
      'headers for a process',
      server({ command: 'x', headers: {} }),
      'mcp_servers.s: "headers" cannot be combined with "command"',
    ],
    [
      'env for a URL',
      server({ url: 'https://x', env: {} }),
      'mcp_servers.s: "env" cannot be combined with "url"',
    ],
    [
      'a URL of another scheme',
      server({ url: 'ws://x' }),
      'mcp_servers.s.url: expected an http or https URL',
    ],
    [
      'credentials in a URL',
      server({ url: 'https://me:hunter2@x' }),
      'mcp_servers.s.url: expected an http or https URL without credentials',
    ],
    [
      'a header that is not a string',
      server({ url: 'https://x', headers: { A: 1 } }),
      'mcp_servers.s.headers.A: expected string, got number',
    ],
    [
      'an unsendable header',
      server({ url: 'https://x', headers: { A: 'hunter2\nB: c' } }),
      'mcp_servers.s: the MCP server "s": the header "A" cannot be sent',
    ],
    [
      'an invalid approval',
      server({ command: 'x', require_approval: { always: ['a'] } }),
      'mcp_servers.s.require_approval: expected "always", "never" or',
    ],
    [
      'a hidden server that requires approval',
      server({ command: 'x', hidden: true, require_approval: 'always' }),
      'mcp_servers.s: a hidden server cannot require approval',
    ],
    [
      'an unknown side effect',
      server({ command: 'x', tools: { a: { side_effect: 'twice' } } }),
      'mcp_servers.s.tools.a.side_effect: expected one of "none"|',
    ],
    [
      'retries of a tool with side effects',
      server({ command: 'x', tools: { a: { retries: 1 } } }),
      'mcp_servers.s.tools.a: retries require a side_effect',
    ],
    [
      'an allowed URL that is invalid',
      { allowed_server_urls: ['https://x', 'x'] },
      'allowed_server_urls[1]: expected an http or https URL',
    ],
  ])('with %s is rejected, naming the place in the file', async (_what, config, expected) => {
    const problems = await problemsOf(config);
    expect(problems).toEqual([expect.stringContaining(expected)]);
    expect(problems.join()).not.toContain('hunter2');
  });

  it('that is missing or not JSON is rejected without printing its contents', async () => {
    const broken = write('{ "mcp_servers": { "s": { "headers": { "Key": "hunter2" "b": 1 } } } }');
    const message = messageOf(await rejectionOf(readGatewayConfig(broken)));
    expect(message).toMatch(
      /gateway\.json is not valid JSON \(line 1 column \d+\)\. Expected an object with/,
    );
    expect(message).not.toContain('hunter');
    expect(messageOf(await rejectionOf(readGatewayConfig(write('hunter2'))))).not.toContain('hunter');
    expect(messageOf(await rejectionOf(readGatewayConfig(join(folder, 'absent.json'))))).toMatch(
      /Cannot read .*absent\.json: ENOENT/,
    );
    const marked = write('\uFEFF{}', 'marked.json');
    expect(await readGatewayConfig(marked)).toMatchObject({ models: {} });
  });
});

function server(config: object, label = 's') {
  return { mcp_servers: { [label]: config } };
}

describe('agentchart serve --config', () => {
  it('serves its models and servers with secrets from the environment, which are never shown', async () => {
    const mcpServer = await HttpMcpServer.start();
    const desk = new Desk([calling(['echo', { text: 'hi' }]), { text: 'Said.' }], {
      DESK_TOKEN: 'hunter2-hunter2',
    });
    desk.write(
      'gateway.json',
      JSON.stringify({
        models: { played: 'scripted:turns.json' },
        mcp_servers: {
          desk: {
            url: mcpServer.url,
            headers: { Authorization: `Bearer \${DESK_TOKEN}` },
            require_approval: 'never',
          },
        },
      }),
    );
    const served = await ServedDesk.start(desk, { args: ['--config', 'gateway.json'] }, {});
    const tools = [{ type: 'mcp', server_label: 'desk' }];
    const answer = await served.post('/v1/responses', { model: 'played', input: 'go', tools });
    const body = await answer.text();
    expect(answer.status, body).toBe(200);
    const { output } = JSON.parse(body);
    expect(output.map(({ type }: { type: string }) => type)).toEqual([
      'mcp_list_tools',
      'mcp_call',
      'message',
    ]);
    expect(output[1]).toMatchObject({ server_label: 'desk', name: 'echo', output: 'hi' });
    const ended = await served.stop();
    expect(mcpServer.seen[0]?.headers.get('authorization')).toBe('Bearer hunter2-hunter2');
    expect(mcpServer.sessions).toBe(0);
    expect(body + ended.stderr).not.toContain('hunter2');
    await mcpServer.close();
  });

  it('exits 2 with the problem of an unusable file', async () => {
    const desk = new Desk([]);
    desk.write('gateway.json', JSON.stringify({ mcp_servers: { desk: { url: 'desk.example' } } }));
    const ended = await desk.run(['serve', '--port', '0', '--config', 'gateway.json']);
    expect(ended.code).toBe(2);
    expect(ended.stderr).toContain(
      'gateway.json is not a valid configuration:\n  mcp_servers.desk.url: expected an http or https URL without credentials',
    );
  });
});
