import { EventEmitter } from 'node:events';
import { Hono } from 'hono';
import { expect, test } from 'vitest';
import { A2A_ROUTES } from '../../../fronts/a2a/a2a-api.ts';
import { MCP_ROUTES } from '../../../fronts/mcp/mcp-api.ts';
import { limitStreams } from '../../../server/access/authorize.ts';
import { ApiError } from '../../../server/error-envelope.ts';
import { RUNS_ROUTES, V1_ROUTES } from '../../../server/route-table.ts';

const ROUTES = { ...RUNS_ROUTES, ...V1_ROUTES, ...MCP_ROUTES, ...A2A_ROUTES };

/** A server that may have one open stream. */
function makeApp() {
  const app = new Hono();
  app.onError((error, c) => c.text(error instanceof ApiError ? error.code : error.message, 429));
  app.use(limitStreams(1, ROUTES));
  app.get('/runs/1/events', c => c.body('', 200, { 'content-type': 'text/event-stream' }));
  for (const route of Object.keys(ROUTES)) {
    const [method = '', path = ''] = route.split(' ');
    app.on(method, path, c => c.text('ok'));
  }
  const socket = Object.assign(new EventEmitter(), { closed: false });
  const send = async (request: string) => {
    const [method = '', path = ''] = request.split(' ');
    return await (await app.request(path, { method }, { outgoing: socket })).text();
  };
  return { socket, send };
}

const STREAMS = [
  'GET /runs/2/events',
  'GET /events',
  'GET /runs/2/explore',
  'POST /v1/responses',
  'GET /v1/responses/1?stream=true',
  'POST /mcp',
  'POST /a2a/a',
];
const OTHERS = [
  'GET /runs/2',
  'GET /v1/responses/1',
  'POST /runs/2/approve',
  'POST /v1/responses/1/cancel',
  'GET /v1/models?stream=true',
];

test('while the last stream is open, only requests that could open another are refused', async () => {
  const { socket, send } = makeApp();
  const answers = async (requests: readonly string[]) => new Set(await Promise.all(requests.map(send)));
  expect(await answers([...STREAMS, ...OTHERS])).toEqual(new Set(['ok']));
  await send('GET /runs/1/events');
  expect(await answers(STREAMS)).toEqual(new Set(['rate-limit-exceeded']));
  expect(await answers(OTHERS)).toEqual(new Set(['ok']));
  socket.emit('close');
  expect(await answers(STREAMS)).toEqual(new Set(['ok']));
});
