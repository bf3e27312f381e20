import { Hono } from 'hono';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { type Agent, createAgent, tool } from '../../../agent/index.ts';
import { createChatHandler } from '../../../fronts/ai-sdk-ui/index.ts';
import { createMcpHandler } from '../../../fronts/mcp/index.ts';
import type { RunView } from '../../../protocol/run-view.ts';
import { gatewayConfigSchema } from '../../../server/gateway/config/gateway-config.ts';
import {
  chatApp,
  createResponsesHandler,
  createStoryHandler,
  type GatewayOptions,
  responsesApp,
  runsApp,
  worker,
} from '../../../server/index.ts';
import { memory } from '../../../stores/memory.ts';
import { Folder } from '../../support/responses/gateway.ts';
import { errorOf, until } from '../../support/server/runs-app.ts';

const CALLERS = {
  ann: { name: 'ann', role: 'operator', labels: { tenant: 'a' } },
  otto: { name: 'otto', role: 'viewer', labels: { tenant: 'a' } },
  bert: { name: 'bert', role: 'operator', labels: { tenant: 'b' } },
  boss: { name: 'boss', role: 'operator', labels: {} },
  page: { name: 'page', role: 'client', labels: { tenant: 'a' } },
} as const;
type Name = keyof typeof CALLERS | 'nobody';

const authorize = async (request: Request) =>
  CALLERS[request.headers.get('x-user') as keyof typeof CALLERS] ?? null;

const refund = tool({
  name: 'refund',
  description: 'Pays back.',
  input: z.object({ cents: z.number() }),
  approval: true,
  run: ({ cents }) => ({ refunded: cents }),
});
const REFUND = { toolCalls: [{ name: 'refund', arguments: { cents: 5 } }] };

const store = memory();
const agent = createAgent({
  name: 'desk',
  model: scripted([REFUND, { text: 'Done.' }]),
  tools: [refund],
  store,
});
const folder = new Folder({ talk: [{ text: 'One.' }, { text: 'Two.' }] });
const gateway: GatewayOptions & { authorize: typeof authorize } = {
  store,
  config: gatewayConfigSchema.parse({ models: folder.models }),
  authorize,
};
const parts = [
  runsApp({ agents: [agent], gateway, authorize }),
  responsesApp(gateway),
  chatApp(gateway),
] as const;
const site = new Hono();
for (const part of parts) site.route('/api', part);
site.get('/api/hello', c => c.text('hello'));

afterAll(() => {
  for (const part of parts) part.close();
});

it.each([
  ['runsApp', agents => runsApp({ agents })],
  ['createStoryHandler', agents => createStoryHandler(agents)],
  ['createResponsesHandler', agents => createResponsesHandler(agents)],
  ['worker', agents => worker(agents)],
  ['createChatHandler', agents => createChatHandler(agents)],
  ['createMcpHandler', agents => createMcpHandler(agents)],
] as [string, (agents: Agent[]) => unknown][])('%s refuses two agents of one name', (_, make) => {
  const twin = createAgent({ name: 'desk', model: scripted([]), store });
  expect(() => make([agent, twin])).toThrow('Two agents are named "desk". Runs find their agent by name');
});

async function send(name: Name, method: string, path: string, body?: object): Promise<Response> {
  return await site.request(`https://shop.example/api${path}`, {
    method,
    headers: { 'x-user': name, 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  });
}

async function json<Value>(response: Response): Promise<Value> {
  return (await response.json()) as Value;
}

async function begin(name: Name, body: object = {}): Promise<RunView> {
  const { runId } = await json<RunView>(await send(name, 'POST', '/runs', { input: 'go', ...body }));
  return await until(async () => {
    const view = await json<RunView>(await send(name, 'GET', `/runs/${runId}`));
    return view.status === 'running' ? undefined : view;
  });
}

let run: RunView;
let call: string;
beforeAll(async () => {
  run = await begin('ann', { labels: { order: '7' } });
  call = run.calls[0]?.callId ?? '';
});

describe('the apps of agentchart/server, mounted below a path', () => {
  it('leave the other routes of the server alone', async () => {
    expect(await (await send('nobody', 'GET', '/hello')).text()).toBe('hello');
    expect((await send('ann', 'GET', '/elsewhere')).status).toBe(404);
  });

  it('refuse a request that authorize refuses, each in the envelope of its protocol', async () => {
    expect(await errorOf(await send('nobody', 'GET', '/runs'))).toMatchObject({
      status: 401,
      code: 'unauthorized',
    });
    const refused = await send('nobody', 'POST', '/v1/responses', { model: 'talk', input: 'Hi' });
    expect(refused.status).toBe(401);
    expect(await json(refused)).toMatchObject({ error: { type: expect.any(String), param: null } });
    expect((await send('nobody', 'POST', '/v1/chat/completions', {})).status).toBe(401);
  });

  it('give the runs of a caller its labels', () => {
    expect(run).toMatchObject({ status: 'waiting', labels: { tenant: 'a', order: '7' } });
  });

  it('refuse another value for a label of the caller', async () => {
    const answer = await send('ann', 'POST', '/runs', { input: 'go', labels: { tenant: 'b' } });
    expect(await errorOf(answer)).toMatchObject({ status: 403, code: 'forbidden' });
    expect((await send('ann', 'GET', '/runs?label=tenant%3Db')).status).toBe(403);
  });

  it('list only the runs that have the labels of the caller', async () => {
    const listed = async (name: Name) =>
      (await json<{ runs: RunView[] }>(await send(name, 'GET', '/runs'))).runs.map(({ runId }) => runId);
    for (const name of ['ann', 'otto', 'boss'] as const) expect(await listed(name)).toContain(run.runId);
    expect(await listed('bert')).not.toContain(run.runId);
  });

  it('answer about the runs of others as about runs that do not exist', async () => {
    const requests = (id: string): [string, string, object?][] => [
      ['GET', `/runs/${id}`],
      ['GET', `/runs/${id}/events`],
      ['GET', `/runs/${id}/results/${call}`],
      ['GET', `/runs/${id}/results/${call}/download`],
      ['POST', `/runs/${id}/approve`, { callId: call }],
      ['POST', `/runs/${id}/commands`, [{ type: 'reject', callId: call }]],
      ['POST', `/runs/${id}/cancel`, {}],
      ['DELETE', `/runs/${id}`],
      ['POST', '/runs', { input: 'go', continues: id }],
    ];
    const others = requests(run.runId);
    for (const [index, [method, path, body]] of requests('run_none').entries()) {
      const [, other = ''] = others[index] ?? [];
      const foreign = await errorOf(await send('bert', method, other, body));
      expect(foreign, `${method} ${path}`).toEqual(await errorOf(await send('bert', method, path, body)));
      expect(foreign.status).toBe(404);
    }
    expect((await json<RunView>(await send('ann', 'GET', `/runs/${run.runId}`))).status).toBe('waiting');
  });

  it('let a role do only what it may', async () => {
    const approval = { callId: call };
    expect((await send('otto', 'GET', `/runs/${run.runId}`)).status).toBe(200);
    expect((await send('otto', 'POST', `/runs/${run.runId}/approve`, approval)).status).toBe(403);
    expect((await send('page', 'GET', `/runs/${run.runId}`)).status).toBe(403);
    expect((await send('otto', 'POST', '/v1/chat/completions', {})).status).toBe(403);
  });

  it('record who decided, and continue a run with its labels', async () => {
    const decided = await send('ann', 'POST', `/runs/${run.runId}/approve`, { callId: call });
    expect(decided.status).toBe(200);
    const again = await send('boss', 'POST', `/runs/${run.runId}/reject`, { callId: call });
    expect(await errorOf(again)).toMatchObject({ status: 409, by: 'ann' });
    await until(async () => ((await store.get(run.runId))?.status === 'finished' ? true : undefined));
    const next = await begin('ann', { continues: run.runId });
    expect(next.labels).toEqual({ tenant: 'a', order: '7' });
  });

  it('serve the protocols of models, whose runs only callers with the same labels see', async () => {
    const created = await json<{ id: string }>(
      await send('page', 'POST', '/v1/responses', { model: 'talk', input: 'Hi' }),
    );
    expect((await send('ann', 'GET', `/v1/responses/${created.id}`)).status).toBe(200);
    expect((await send('bert', 'GET', `/v1/responses/${created.id}`)).status).toBe(404);
    const completed = await send('page', 'POST', '/v1/chat/completions', {
      model: 'talk',
      messages: [{ role: 'user', content: 'Hi' }],
    });
    expect(await json(completed)).toMatchObject({ choices: [{ message: { content: 'One.' } }] });
    const { runs } = await json<{ runs: RunView[] }>(await send('ann', 'GET', '/runs?agent=responses'));
    expect(runs.map(({ labels }) => labels)).toEqual([{ tenant: 'a' }, { tenant: 'a' }]);
  });
});
