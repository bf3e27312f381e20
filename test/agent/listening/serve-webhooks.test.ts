import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { readGatewayConfig } from '../../../server/gateway/config/read-gateway-config.ts';
import { AGENT, calling, Desk, REFUND } from '../../support/cli/desk.ts';
import { until } from '../../support/server/runs-app.ts';
import { ServedDesk } from '../../support/server/served-desk.ts';
import { makeTemporaryFolder } from '../../support/temporary-folders.ts';
import { rejectionOf } from '../../support/tools/call-context.ts';
import { receiveHooks, SECRET } from '../../support/tools/listening/hook-receiver.ts';

const closing: { close(): void }[] = [];
afterEach(() => {
  for (const each of closing.splice(0)) each.close();
});

/** A variable of the environment, as the configuration names it. */
const variable = (name: string) => `\${${name}}`;

describe('the webhooks of the configuration', () => {
  const url = `https://example.com/hook/${variable('PLACE')}`;
  const secret = variable('SECRET');

  const reading = (webhooks: object) => {
    const file = join(makeTemporaryFolder('webhooks'), 'gateway.json');
    writeFileSync(file, JSON.stringify({ webhooks }));
    return readGatewayConfig(file, { PLACE: 'north', SECRET: 'a secret of sixteen' });
  };

  it('get their secrets from the environment', async () => {
    const config = await reading({ a: { url, secret }, b: { url, secret, on: ['failed'] } });
    expect(config.webhooks).toEqual({
      a: { url: 'https://example.com/hook/north', secret: 'a secret of sixteen', on: ['waiting'] },
      b: { url: 'https://example.com/hook/north', secret: 'a secret of sixteen', on: ['failed'] },
    });
  });

  it('are refused with a secret in the file, an unknown topic or address, without showing a value', async () => {
    const refused = [
      [{ url, secret: 'hunter2hunter2hunter2' }, 'a.secret: expected a variable of the environment'],
      [
        { url, secret: variable('NONE') },
        `a.secret: the environment variable ${variable('NONE')} is not set`,
      ],
      [{ url, secret: variable('PLACE') }, 'a.secret: expected a secret of at least 16 characters'],
      [{ url: 'file:///hunter2', secret }, 'a.url: webhook() expects an http or https URL'],
      [{ url: 'https://me:hunter2@example.com', secret }, 'a.url: webhook() expects'],
      [{ url, secret, on: ['everything'] }, 'a.on[0]: expected one of'],
      [{ url, secret, on: [] }, 'a.on'],
    ] as const;
    for (const [hook, problem] of refused) {
      const { message } = (await rejectionOf(reading({ a: hook }))) as Error;
      expect(message).toContain(`webhooks.${problem}`);
      expect(message).not.toContain('hunter2');
    }
  });
});

it('a server that was killed before its webhook was taken delivers it after the restart, and later messages in order', async () => {
  let first: ServedDesk | undefined;
  const hooks = await receiveHooks([500, 500, 500], received => {
    if (received.length === 1) first?.started.child.kill('SIGKILL');
  });
  closing.push(hooks);
  const desk = new Desk([calling(REFUND), { text: 'Refunded.' }]);
  const ops = { url: hooks.url, secret: variable('HOOK_SECRET'), on: ['waiting', 'finished'] };
  const config = desk.write('gateway.json', JSON.stringify({ webhooks: { ops } }));
  const environment = { ...desk.model, HOOK_SECRET: SECRET };
  const args = ['--agent', AGENT, '--config', config];
  first = await ServedDesk.start(desk, { args }, environment);
  const runId = await first.begin();
  const killed = await first.started.ended;
  expect(killed.stdout + killed.stderr).not.toContain(SECRET);

  const second = await ServedDesk.start(desk, { args }, environment);
  const waiting = await until(async () => (hooks.received.length >= 4 ? [...hooks.received] : undefined));
  expect(new Set(waiting.map(({ id }) => id)).size).toBe(1);
  expect(waiting.every(({ isSigned, body }) => isSigned && body.type === 'run.waiting')).toBe(true);
  expect(waiting[0]?.body.data.runId).toBe(runId);

  await second.post(`/runs/${runId}/approve`, { callId: 'call_0_0' });
  await until(async () => hooks.received.find(({ body }) => body.type === 'run.finished'));
  expect(hooks.received.slice(waiting.length).map(({ body }) => body.type)).toEqual(['run.finished']);
  expect((await second.stop()).code).toBe(0);
});
