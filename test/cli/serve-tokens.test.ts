import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { messageOf } from '../../protocol/error.ts';
import { describeGatewayConfig } from '../../server/gateway/config/gateway-config.ts';
import { readGatewayConfig } from '../../server/gateway/config/read-gateway-config.ts';
import { Desk } from '../support/cli/desk.ts';
import { ServedDesk } from '../support/server/served-desk.ts';
import { rejectionOf } from '../support/tools/call-context.ts';

const folder = mkdtempSync(join(tmpdir(), 'agentchart-tokens-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function reading(config: unknown, environment: Record<string, string> = {}) {
  const file = join(folder, 'gateway.json');
  writeFileSync(file, JSON.stringify(config));
  return await readGatewayConfig(file, environment);
}

function token(more: object) {
  return { tokens: { web: { token: 'hunter2-hunter2-hunter2', role: 'client', ...more } } };
}

describe('a configuration file', () => {
  it('defines who may use the server, and with which limits', async () => {
    const { tokens, limits, cors, prices } = await reading(
      {
        $schema: './node_modules/agentchart/dist/gateway-config.schema.json',
        models: { fast: 'openai:gpt-5-mini' },
        prices: { 'openai:gpt-5-mini': { input: 0.25, cached_input: 0.025, output: 2 } },
        tokens: {
          web: {
            token: `\${WEB_TOKEN}`,
            role: 'client',
            labels: { tenant: 'a' },
            limits: { concurrent_runs: 4, spend_per_day_usd: 5 },
          },
        },
        limits: { open_streams: 50 },
        cors: { origins: ['https://app.example'] },
      },
      { WEB_TOKEN: 'the-token-of-web-000' },
    );
    expect(tokens).toEqual({
      web: {
        token: 'the-token-of-web-000',
        role: 'client',
        labels: { tenant: 'a' },
        limits: { concurrentRuns: 4, spendPerDayUsd: 5 },
      },
    });
    expect(limits).toMatchObject({ openStreams: 50, concurrentRuns: 1_000, bodyBytes: 32 * 1024 * 1024 });
    expect(cors).toEqual({ origins: ['https://app.example'] });
    expect(prices).toEqual({ 'openai:gpt-5-mini': { input: 0.25, cachedInput: 0.025, output: 2 } });
  });

  it.each<[string, unknown, string]>([
    ['an unknown role', token({ role: 'admin' }), 'tokens.web.role: expected one of "operator"|"approver"|'],
    ['a token without a role', { tokens: { web: { token: 'hunter2' } } }, 'tokens.web.role: expected one of'],
    ['an unset token', token({ token: `\${NONE}` }), 'tokens.web.token: the environment variable'],
    ['a limit of zero', token({ limits: { concurrent_runs: 0 } }), 'tokens.web.limits.concurrent_runs: '],
    [
      'a dollar limit with any model allowed',
      token({ limits: { spend_per_day_usd: 1 } }),
      'tokens.web.limits.spend_per_day_usd: requires "models"',
    ],
    [
      'a dollar limit with a model without a price',
      { models: { x: 'openai:x' }, ...token({ limits: { spend_per_day_usd: 1 } }) },
      'requires a price for openai:x in "prices"',
    ],
    [
      'an origin with a path',
      { cors: { origins: ['https://app.example/'] } },
      'cors.origins[0]: expected an origin',
    ],
    ['a wildcard origin', { cors: { origins: ['*'] } }, 'cors.origins[0]: expected an origin'],
  ])('with %s is rejected, naming the place in the file', async (_what, config, expected) => {
    const message = messageOf(await rejectionOf(reading(config)));
    expect(message).toContain(expected);
    expect(message).not.toContain('hunter2');
  });
});

describe('agentchart serve', () => {
  it('rejects unusable tokens, listens on other hosts only with tokens, and logs requests as JSON', async () => {
    const desk = new Desk([{ text: 'Hello.' }], { WEB_TOKEN: 'the-token-of-web-000' });
    const tokens = { web: { token: `\${WEB_TOKEN}`, role: 'client' } };
    const models = { played: 'scripted:turns.json' };
    desk.write('short.json', JSON.stringify({ tokens: { web: { token: 'hunter2', role: 'client' } } }));
    const refused = await desk.run(['serve', '--port', '0', '--config', 'short.json']);
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('fewer than 16 characters') });
    expect(refused.stderr).not.toContain('hunter2');
    desk.write('gateway.json', JSON.stringify({ models, tokens }));
    const args = ['--config', 'gateway.json', '--host', '0.0.0.0', '--log', 'json'];
    const served = await ServedDesk.start(desk, { args }, {});
    const url = `http://127.0.0.1:${served.port}/v1/responses`;
    const headers = { authorization: 'Bearer the-token-of-web-000', 'content-type': 'application/json' };
    const body = JSON.stringify({ model: 'played', input: 'A secret.' });
    const answer = await fetch(url, { method: 'POST', headers, body });
    expect(answer.status).toBe(200);
    await answer.text();
    expect((await fetch(url, { method: 'POST', body })).status).toBe(401);
    const ended = await served.stop();
    expect(ended.code).toBe(0);
    const lines = ended.stderr
      .trim()
      .split('\n')
      .map(line => JSON.parse(line));
    expect(lines[0]).toMatchObject({
      level: 'info',
      message: expect.stringContaining('No token has the role operator'),
    });
    expect(lines).toContainEqual(
      expect.objectContaining({
        level: 'info',
        request: answer.headers.get('x-request-id'),
        route: '/v1/responses',
        caller: 'web',
        run: expect.stringContaining('run_'),
      }),
    );
    expect(lines).toContainEqual(expect.objectContaining({ level: 'warn', status: 401, caller: null }));
    expect(ended.stderr).not.toMatch(/secret|the-token/);
  });

  it('prints the JSON Schema of the file', async () => {
    const printed = await new Desk([]).run(['serve', '--config-schema']);
    expect(JSON.parse(printed.stdout)).toEqual(describeGatewayConfig());
  });
});
