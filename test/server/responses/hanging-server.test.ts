import { afterEach, expect, it } from 'vitest';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calling, Gateway } from '../../support/responses/gateway.ts';
import { until } from '../../support/server/runs-app.ts';
import { HttpMcpServer } from '../../support/tools/http-mcp-server.ts';

const open: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map(each => each.close()));
});

/** A gateway with a hidden server that answers as `instead` says, and the messages that the server has had. */
async function makeGateway(instead: HttpMcpServer['instead']) {
  const server = await HttpMcpServer.start(instead === undefined ? {} : { instead });
  const host = new ManualHost();
  const gateway = new Gateway(
    { model: [calling('echo', { text: 'hi' }), { text: 'Done.' }], talk: Array(9).fill({ text: 'Hello.' }) },
    {
      host,
      hiddenWaitMs: 1_000,
      config: () => ({ mcp_servers: { vault: { url: server.url, hidden: true } } }),
    },
  );
  open.push(gateway, server);
  const ask = (model = 'talk') => gateway.send('POST', '', { model, input: 'go' });
  const connects = () => server.seen.filter(({ says }) => says === 'initialize').length;
  return { server, host, gateway, ask, connects };
}

const HANG = () => new Promise<Response>(() => {});

it.each([
  ['at connect', (_: Request, says: string) => (says === 'initialize' ? HANG() : undefined)],
  ['at listing its tools', (_: Request, says: string) => (says === 'tools/list' ? HANG() : undefined)],
])(
  'a hidden server that hangs %s delays the first requests by a second and later ones not at all',
  async (_where, instead) => {
    const { host, gateway, ask, connects, server } = await makeGateway(instead);
    const first = ask();
    await until(() => (server.seen.length > 0 ? true : undefined));
    await host.advance(1_000);
    expect((await first).status).toBe(200);
    expect(gateway.log.join()).toContain('The hidden MCP server "vault" does not answer');
    const before = connects();
    for (let times = 0; times < 3; times += 1) expect((await ask()).status).toBe(200);
    expect(connects()).toBe(before);
  },
);

it('a hidden server that fails is tried again in the background, and not by requests', async () => {
  let isDown = true;
  const down = () => (isDown ? new Response('no', { status: 503 }) : undefined);
  const { host, gateway, ask, connects } = await makeGateway(down);
  for (let times = 0; times < 3; times += 1) expect((await ask()).status).toBe(200);
  const attempts = connects();
  expect(gateway.log.filter(line => line.includes('"vault" is unavailable')).length).toBe(1);
  await host.advance(5_000);
  await until(() =>
    gateway.log.filter(line => line.includes('unavailable')).length === 2 ? true : undefined,
  );
  expect(connects()).toBeGreaterThan(attempts);
  isDown = false;
  await host.advance(10_000);
  await until(async () => {
    const answer = (await (await ask('model')).json()) as { output: unknown[] };
    return JSON.stringify(answer.output).includes('Done.') ? true : undefined;
  });
});
