import { chmodSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { delimiter, dirname } from 'node:path';
import { describe, expect, it } from 'vitest';
import { sqlite } from '../../stores/sqlite.ts';
import { Desk, type Environment, type Started } from '../support/cli/desk.ts';

/** Plays a client: notes how it was started, sends requests as its settings say, and ends as its arguments say. */
const PLAYED = `#!${process.execPath}
import { readFileSync, writeFileSync } from 'node:fs';
const [, file, ...args] = process.argv;
const { env } = process;
const at = args.indexOf('--settings');
const settings = at === -1 ? undefined : { path: args[at + 1], ...JSON.parse(readFileSync(args[at + 1], 'utf8')) };
writeFileSync(file + '.seen', JSON.stringify({ args, env, settings }));
const isCodex = file.endsWith('codex');
const config = Object.fromEntries(args.flatMap((word, place) => {
  const [, name, value] = args[place - 1] === '-c' ? /^([\\w.]+)=(.*)$/.exec(word) : [];
  return name === undefined ? [] : [[name.split('.').at(-1), JSON.parse(value)]];
}));
const url = isCodex ? config.base_url + '/responses' : env.ANTHROPIC_BASE_URL + '/v1/messages';
const token = isCodex ? env[config.env_key] : env.ANTHROPIC_AUTH_TOKEN;
const ask = async (path = '', body, session = 's-1') => {
  const answer = await fetch(path === '' ? url : new URL(path, url), {
    ...(body && { method: 'POST', body: JSON.stringify(body) }),
    headers: { authorization: 'Bearer ' + token, 'content-type': 'application/json', 'session-id': session },
  });
  return { status: answer.status, body: await answer.json() };
};
const model = isCodex ? config.model : env.ANTHROPIC_MODEL;
if (args.includes('ask')) {
  const asked = isCodex
    ? await ask('', { model, input: 'Say hi', store: false, client_metadata: { a: 'b' } })
    : await ask('', { model, max_tokens: 99, diagnostics: { a: 'b' }, messages: [{ role: 'user', content: 'Say hi' }] });
  const again = isCodex ? await ask('/v1/responses/' + asked.body.id) : undefined;
  const runs = await ask('/runs');
  console.log(JSON.stringify({ asked, again, runs }));
}
if (args.includes('call')) {
  const tools = [{ type: 'function', name: 'look' }];
  await ask('', { model, tools, input: 'Look', store: false });
  await ask('', { model, input: 'Make a title', store: false }, 's-title');
}
if (args.includes('die')) process.kill(process.pid, 'SIGKILL');
if (args.includes('wait')) {
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => { console.log('got ' + signal); process.exit(9); });
  setInterval(() => {}, 1000);
  console.log('waiting');
}
else process.exitCode = Number(args.at(-1)) || 0;
`;

type Seen = {
  args: string[];
  env: Record<string, string>;
  settings?: { path: string; env: Record<string, string> };
};

class CodeDesk extends Desk {
  constructor(environment: Environment = {}) {
    super([{ text: 'Hi.', usage: { inputTokens: 100, outputTokens: 20, cachedInputTokens: 80 } }]);
    mkdirSync(this.path('bin'));
    mkdirSync(this.path('tmp'));
    this.write('bin/package.json', '{ "type": "module" }');
    for (const name of ['codex', 'claude']) chmodSync(this.write(`bin/${name}`, PLAYED), 0o755);
    this.#environment = {
      AGENTCHART_MODEL: 'scripted:turns.json',
      PATH: [this.path('bin'), dirname(process.execPath)].join(delimiter),
      TMPDIR: this.path('tmp'),
      ANTHROPIC_API_KEY: undefined,
      ...environment,
    };
  }

  readonly #environment: Environment;

  code(words: readonly string[]): Started {
    return this.start(['code', ...words], this.#environment);
  }

  seen(name: string): Seen {
    return JSON.parse(readFileSync(this.path(`bin/${name}.seen`), 'utf8'));
  }

  get leftFiles(): string[] {
    return readdirSync(this.path('tmp')).filter(name => name.startsWith('agentchart'));
  }
}

describe.each(['codex', 'claude'])('agentchart code %s', name => {
  it('starts the client on the model with a token that is for /v1 only, and says what it used', async () => {
    const desk = new CodeDesk();
    const { code, stdout, stderr } = await desk.code([name, '--', 'ask', '--flag', '0']).ended;
    expect({ code, stderr }).toMatchObject({
      code: 0,
      stderr: expect.stringContaining(`${name} on scripted`),
    });
    expect(stderr).toContain('1 turn, 100 input tokens (80 % from the cache), 20 output tokens');
    expect(stderr).toMatch(/serve, then http:\/\/127\.0\.0\.1:4100\/sessions\/s-1/);
    expect(stderr).not.toContain('ignored');
    const { asked, again, runs } = JSON.parse(stdout);
    expect(asked).toMatchObject({ status: 200 });
    expect(runs.status).toBe(403);
    if (name === 'codex') expect(again).toMatchObject({ status: 404 });
    const { args, env, settings } = desk.seen(name);
    expect(args.slice(-3)).toEqual(['ask', '--flag', '0']);
    const token = env.AGENTCHART_CODE_TOKEN ?? env.ANTHROPIC_AUTH_TOKEN ?? '';
    expect(token).toMatch(/^[\w-]{43}$/);
    if (name === 'claude') expect(env).toMatchObject(settings?.env ?? {});
    const store = sqlite(desk.store);
    const { runs: kept } = await store.list();
    expect(kept).toMatchObject([
      { title: 'Say hi', status: 'finished', labels: { session: 's-1', thread: 'side' } },
    ]);
    const journal = JSON.stringify(await store.read(kept[0]?.runId ?? ''));
    await store.close();
    const [, operator = ''] = /#token=(\S+)/.exec(stderr) ?? [];
    expect(operator).toMatch(/^[\w-]{43}$/);
    expect(operator).not.toBe(token);
    for (const secret of [token, operator]) {
      expect(args.join(' ')).not.toContain(secret);
      expect(journal).not.toContain(secret);
    }
    expect(stderr).not.toContain(token);
  });

  it.each([
    ['its exit code', ['5'], 5],
    ['128 and the signal that killed it', ['die'], 137],
  ])('ends with %s, and leaves no files', async (_, words, expected) => {
    const desk = new CodeDesk();
    expect((await desk.code([name, '--', ...words]).ended).code).toBe(expected);
    expect(desk.leftFiles).toEqual([]);
  });

  it.each(['SIGINT', 'SIGTERM'] as const)(
    'passes %s on, and leaves neither files nor a gateway',
    async signal => {
      const desk = new CodeDesk();
      const started = desk.code([name, '--', 'wait']);
      const printed = await started.printed('waiting');
      expect(desk.leftFiles).toHaveLength(name === 'claude' ? 1 : 0);
      started.child.kill(signal);
      const { code, stdout } = await started.ended;
      expect({ code, stdout }).toMatchObject({ code: 9, stdout: expect.stringContaining(`got ${signal}`) });
      expect(desk.leftFiles).toEqual([]);
      const [, url = ''] = /watch {2}(http:\/\/127\.0\.0\.1:\d+)\//.exec(printed) ?? [];
      await expect(fetch(`${url}/healthz`)).rejects.toThrow();
    },
  );
});

describe('agentchart code', () => {
  it('sets what Claude Code reads before the settings of its user, in a file that only this user reads', async () => {
    const desk = new CodeDesk({ ANTHROPIC_API_KEY: 'sk-own', CLAUDE_CODE_USE_BEDROCK: '1' });
    await desk.code(['claude']).ended;
    const { env, settings } = desk.seen('claude');
    expect(env).toMatchObject({
      ANTHROPIC_API_KEY: '',
      CLAUDE_CODE_USE_BEDROCK: '',
      ANTHROPIC_MODEL: 'scripted',
    });
    expect(settings?.env.ANTHROPIC_BASE_URL).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  });

  it.each([
    ['codex', { OPENAI_API_KEY: 'sk-own' }],
    ['claude', { ANTHROPIC_API_KEY: 'sk-own' }],
  ])('without a model lets %s use its own, if the key of its provider is set', async (name, keys) => {
    const desk = new CodeDesk({ AGENTCHART_MODEL: undefined, ...keys });
    const { code } = await desk.code([name]).ended;
    expect(code).toBe(0);
    const { args, env } = desk.seen(name);
    expect(env.ANTHROPIC_MODEL).toBeUndefined();
    expect(args.join(' ')).not.toContain('model=');
  });

  it('leaves no run that waits for a client that has ended, and names the session with tools', async () => {
    const desk = new CodeDesk();
    desk.write('turns.json', JSON.stringify([{ toolCalls: [{ name: 'look', arguments: {} }] }]));
    const { stderr } = await desk.code(['codex', '--', 'call']).ended;
    expect(stderr).toContain('/sessions/s-1\n');
    const store = sqlite(desk.store);
    const { runs } = await store.list();
    expect(runs).toContainEqual(expect.objectContaining({ title: 'Look', status: 'cancelled', turns: 1 }));
    expect(runs.filter(({ status }) => status === 'waiting')).toEqual([]);
    await store.close();
  });

  it.each<[string, string[], Environment, string]>([
    ['no model and no key', ['codex'], { AGENTCHART_MODEL: undefined }, 'Set OPENAI_API_KEY'],
    ['a model that does not exist', ['codex', '--model', 'nobody:x'], {}, 'unknown provider "nobody"'],
    ['another client', ['aider'], {}, 'must be one of codex, claude, got "aider"'],
    ['a client that is not installed', ['codex'], { PATH: '/nowhere' }, 'npm install -g @openai/codex'],
  ])('with %s says what to do, and starts nothing', async (_, words, environment, expected) => {
    const desk = new CodeDesk(environment);
    const { code, stderr } = await desk.code(words).ended;
    expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringContaining(expected) });
    expect(readdirSync(desk.path('bin')).filter(name => name.endsWith('.seen'))).toEqual([]);
  });

  it('takes models and prices from a configuration, and asks which of several', async () => {
    const desk = new CodeDesk({ AGENTCHART_MODEL: undefined });
    const config = desk.write(
      'gateway.json',
      JSON.stringify({
        models: { small: 'scripted:turns.json' },
        prices: { 'scripted:turns.json': { input: 1_000, output: 1_000, cached_input: 100 } },
      }),
    );
    const one = await desk.code(['codex', '--config', config, '--', 'ask']).ended;
    expect(one.stderr).toContain('codex on small');
    expect(one.stderr).toContain('20 output tokens, $0.0480');
    desk.write('gateway.json', JSON.stringify({ models: { a: 'openai:x', b: 'openai:y' } }));
    const several = await desk.code(['codex', '--config', config]).ended;
    expect(several).toMatchObject({ code: 2, stderr: expect.stringContaining('--model a, b') });
  });
});
