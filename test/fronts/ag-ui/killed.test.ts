import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { AgUiClient } from '../../support/fronts/ag-ui-desk.ts';
import { KilledServer } from '../../support/fronts/killed-server.ts';
import { makeTemporaryFolder } from '../../support/temporary-folders.ts';

const server = new KilledServer('ag-ui-fixture.ts', join(makeTemporaryFolder('ag-ui'), 'runs.db'));
afterEach(() => server.kill());

test('a server is killed while an approval waits; the client continues with the next one', async () => {
  const client = new AgUiClient(await server.start(), 'thread');
  await client.say('pay');
  expect(client.interrupts).toHaveLength(1);
  await server.kill();
  client.agent.url = await server.start();
  await client.resume({ approved: true });
  expect(client.texts).toEqual(['I pay.', 'Paid.']);
  expect(client.results).toEqual(['pay ran']);
  expect(client.state).toMatchObject({ state: 'finished' });
  expect(client.types).not.toContain('MESSAGES_SNAPSHOT');
});
