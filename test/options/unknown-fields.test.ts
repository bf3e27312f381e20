import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { readGatewayConfig } from '../../server/index.ts';
import { errorOf, makeApp } from '../support/server/runs-app.ts';
import { makeTemporaryFolder } from '../support/temporary-folders.ts';

describe('an unknown field of a request is refused with the one that was meant', () => {
  test.each([
    ['/runs', { input: 'go', lables: {} }, 'the body: unknown field "lables"; did you mean "labels"?'],
    ['/runs', { input: 'go', limits: { turn: 1 } }, 'limits: unknown field "turn"; did you mean "turns"?'],
    ['/runs', { input: 'go', thread_id: 't' }, 'unknown field "thread_id"; did you mean "thread"?'],
    ['/runs', { input: 'go', max_turns: 1 }, 'unknown field "max_turns"; did you mean "limits: { turns }"?'],
    ['/runs', { input: 'go', zzz: 1 }, 'unknown field "zzz"; expected one of agent, input, continues,'],
    ['/runs', { input: 'go', zzz: 1, lables: {} }, 'by, requestId. unknown field "lables"; did you mean'],
    ['/runs/RUN/approve', { callId: 'c', stiky: true }, 'unknown field "stiky"; did you mean "sticky"?'],
    [
      '/runs/RUN/resolve',
      { callId: 'c', retry: true, forc: true },
      'unknown field "forc"; did you mean "force"?',
    ],
    [
      '/runs/RUN/fork',
      { at: 1, replay_tools: true },
      'unknown field "replay_tools"; did you mean "replayTools"?',
    ],
    [
      '/runs/RUN/commands',
      [{ type: 'reject', callId: 'c', raeson: 'no' }],
      '0: unknown field "raeson"; did you mean "reason"?',
    ],
    [
      '/runs/RUN/commands',
      [{ type: 'set-params', params: { settings: { topp: 1 } } }],
      '0.params.settings: unknown field "topp"; did you mean "topP"?',
    ],
    [
      '/runs/RUN/breakpoints',
      { breakpoints: [{ id: 'a', tools: 'pay' }] },
      'unknown option "tools" of a breakpoint; did you mean "tool"?',
    ],
  ])('POST %s %j', async (path, body, problem) => {
    const { send, begin } = makeApp();
    const { runId } = await begin();
    const refused = await errorOf(await send('POST', path.replace('RUN', runId), JSON.stringify(body)));
    expect(refused).toMatchObject({ status: 400, code: 'input-invalid' });
    expect(refused.message).toContain(problem);
  });

  test('GET /runs', async () => {
    const { send } = makeApp();
    const refused = await errorOf(await send('GET', '/runs?satus=waiting'));
    expect(refused.message).toContain('unknown field "satus"; did you mean "status"?');
  });
});

test.each([
  [{ mcp_server: {} }, 'unknown field "mcp_server"; did you mean "mcp_servers"?'],
  [
    { limits: { conurrent_runs: 1 } },
    'limits: unknown field "conurrent_runs"; did you mean "concurrent_runs"?',
  ],
])(
  'an unknown field of a configuration is refused with the one that was meant: %j',
  async (config, problem) => {
    const file = join(makeTemporaryFolder('config'), 'gateway.json');
    writeFileSync(file, JSON.stringify(config));
    await expect(readGatewayConfig(file)).rejects.toThrow(problem);
  },
);

test('an unknown field of a scripted turn is refused with the one that was meant', () => {
  const turn: object = { txt: 'Hello.' };
  expect(() => scripted([turn])).toThrow('unknown field "txt"; did you mean "text"?');
});

test('every strict object of the server and the fronts is made with fields(), which says what was meant', () => {
  const files = globSync('{server,fronts}/**/*.ts').filter(file =>
    readFileSync(file, 'utf8').includes('strictObject('),
  );
  expect(files).toEqual([join('server', 'fields.ts')]);
});
