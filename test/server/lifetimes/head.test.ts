import { afterEach, describe, expect, it } from 'vitest';
import * as z from 'zod';
import { tool } from '../../../tools/tool.ts';
import { ClientSocket } from '../../support/responses/client-socket.ts';
import { GATE } from '../../support/responses/gated-provider.ts';
import { fastHost, hostAt } from '../../support/responses/gateway.ts';
import { APIS, ServedGateway } from '../../support/responses/served-gateway.ts';

let served: ServedGateway;
afterEach(async () => await served.close());

/** An error of the upstream, and what the client gets: the status, and the type in the API's own form. */
const FAILURES = [
  {
    status: 429,
    headers: { 'retry-after': '7' },
    openai: [429, 'rate_limit_error'],
    anthropic: [429, 'rate_limit_error'],
  },
  {
    status: 503,
    headers: { 'retry-after': '7' },
    openai: [503, 'server_error'],
    anthropic: [529, 'overloaded_error'],
  },
  {
    status: 529,
    headers: { 'retry-after': '7' },
    openai: [503, 'server_error'],
    anthropic: [529, 'overloaded_error'],
  },
  { status: 400, openai: [400, 'invalid_request_error'], anthropic: [400, 'invalid_request_error'] },
  { status: 401, openai: [502, 'server_error'], anthropic: [500, 'api_error'] },
] as const;

const LOOK = { name: 'look', description: 'Looks.', input: z.object({}), run: async () => 'seen' };
const look = tool(LOOK);
const held = tool({ ...LOOK, approval: () => true });

async function errorOf(answer: Response): Promise<[number, string]> {
  const { error } = (await answer.json()) as { error: { type: string } };
  return [answer.status, error.type];
}

describe.each(APIS)('a stream of %s', api => {
  it.each(FAILURES)('is the status of an upstream that answers $status, after one attempt', async failure => {
    const { openai, anthropic, ...step } = failure;
    served = await ServedGateway.open();
    served.provider.play([step]);
    const answer = await served.askAs(api, { stream: true }).answer;
    expect(await errorOf(answer)).toEqual(api === 'Messages' ? anthropic : openai);
    const isPassing = 'headers' in failure;
    expect(answer.headers.get('retry-after')).toBe(isPassing ? '7' : null);
    expect(answer.headers.get('x-should-retry')).toBe(isPassing ? null : 'false');
    expect(served.provider.requests).toBe(1);
  });

  it('begins with the first event of the upstream, before there is text', async () => {
    served = await ServedGateway.open();
    served.provider.play([{ silent: true }, GATE, 'hi']);
    const answer = await served.askAs(api, { stream: true }).answer;
    expect(answer.status).toBe(200);
    served.provider.open();
    expect(await answer.text()).toContain('hi');
  });

  it('begins without the upstream before a proxy cuts the connection', async () => {
    served = await ServedGateway.open({ host: fastHost });
    served.provider.play([GATE, 'hi']);
    const answer = await served.askAs(api, { stream: true }).answer;
    expect(answer.status).toBe(200);
    served.provider.open();
    expect(await answer.text()).toContain('hi');
  });

  it('has a later model call tried again', async () => {
    served = await ServedGateway.open({ tools: [look] });
    served.provider.play([{ call: 'look' }], [{ status: 503 }], ['hi']);
    const answer = await served.askAs(api, { stream: true }).answer;
    expect(await answer.text()).toContain('hi');
    expect(served.provider.requests).toBe(3);
  });

  it('has every model call tried as often as the configuration says', async () => {
    served = await ServedGateway.open({ config: { max_attempts: { desk: 2 } } });
    served.provider.play([{ status: 503 }], ['hi']);
    expect(await (await served.askAs(api, { stream: true }).answer).text()).toContain('hi');
    served.provider.play([{ status: 503 }]);
    expect((await served.askAs(api, { stream: true }).answer).status).toBeGreaterThanOrEqual(500);
    expect(served.provider.requests).toBe(2);
  });
});

describe.each(APIS)('a request of %s without a stream', api => {
  it('has its first model call tried once, and a later one again', async () => {
    served = await ServedGateway.open({ tools: [look] });
    served.provider.play([{ status: 429, headers: { 'retry-after': '7' } }]);
    const refused = await served.askAs(api).answer;
    expect([refused.status, refused.headers.get('retry-after'), served.provider.requests]).toEqual([
      429,
      '7',
      1,
    ]);
    served.provider.play([{ call: 'look' }], [{ status: 503 }], ['hi']);
    expect(await (await served.askAs(api).answer).text()).toContain('hi');
  });
});

describe('a request whose run a worker drives', () => {
  it.each(APIS)('of %s has its first model call tried once', async api => {
    served = await ServedGateway.open({ elsewhere: true });
    served.provider.play([{ status: 429, headers: { 'retry-after': '7' } }]);
    const refused = await served.askAs(api, { stream: true }).answer;
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '7']);
    expect(served.provider.requests).toBe(1);
  });

  it('has a later model call tried again', async () => {
    served = await ServedGateway.open({ elsewhere: true, tools: [look] });
    served.provider.play([{ call: 'look' }], [{ status: 503 }], ['hi']);
    expect(await (await served.askAs('Messages', { stream: true }).answer).text()).toContain('hi');
  });

  it('has every model call of a stored response tried again', async () => {
    served = await ServedGateway.open({ elsewhere: true });
    served.provider.play([{ status: 503 }], ['hi']);
    const { answer } = served.ask('/v1/responses', { model: 'desk', input: 'go', stream: true });
    expect(await (await answer).text()).toContain('hi');
  });
});

describe('a stored response', () => {
  const ask = (more: object) => served.ask('/v1/responses', { model: 'desk', input: 'go', ...more }).answer;

  it.each([true, false])('has every model call tried again, with stream: %s', async stream => {
    served = await ServedGateway.open();
    served.provider.play([{ status: 503 }], ['hi']);
    const answer = await ask({ stream });
    expect(answer.status).toBe(200);
    expect(await answer.text()).toContain('hi');
    expect(served.provider.requests).toBe(2);
  });

  it('is a status too once all attempts have failed', async () => {
    // A slow machine needs all of the 15 s after which an answer begins in any case.
    served = await ServedGateway.open({ host: hostAt(10) });
    served.provider.play([{ status: 429 }]);
    const answer = await ask({ stream: true });
    expect(await errorOf(answer)).toEqual([429, 'rate_limit_error']);
    expect(served.provider.requests).toBe(3);
  });

  it('in the background is accepted at once', async () => {
    served = await ServedGateway.open();
    served.provider.play([GATE, 'hi']);
    const answer = await ask({ stream: true, background: true });
    expect(answer.status).toBe(200);
    served.provider.open();
    expect(await answer.text()).toContain('hi');
  });
});

describe('a stream that continues after an approval', () => {
  /** Asks, and decides about the call. */
  async function decide(approve: boolean, elsewhere: boolean): Promise<Response> {
    served = await ServedGateway.open({ elsewhere, tools: [held], config: { max_attempts: { desk: 1 } } });
    served.provider.play([{ call: 'look' }]);
    const asked = await (await served.ask('/v1/responses', { model: 'desk', input: 'go' }).answer).json();
    const { id, output } = asked as { id: string; output: { id: string }[] };
    served.provider.play([GATE, { status: 503 }]);
    const decision = { type: 'mcp_approval_response', approval_request_id: output.at(-1)?.id, approve };
    const body = { model: 'desk', previous_response_id: id, input: [decision], stream: true };
    const { answer } = served.ask('/v1/responses', body);
    await served.provider.asked();
    if (!approve) served.provider.open();
    return await answer;
  }

  it.each([false, true])('begins with the approved call, driven elsewhere: %s', async elsewhere => {
    const answer = await decide(true, elsewhere);
    expect(answer.status).toBe(200);
    served.provider.open();
    expect(await answer.text()).toContain('response.failed');
  });

  it.each([false, true])('waits for the model after a denial, driven elsewhere: %s', async elsewhere => {
    expect(await errorOf(await decide(false, elsewhere))).toEqual([503, 'server_error']);
  });
});

it('no client is asked to wait for more than a day', async () => {
  served = await ServedGateway.open();
  served.provider.play([{ status: 429, headers: { 'retry-after': '99999999' } }]);
  const answer = await served.askAs('Messages', { stream: true }).answer;
  expect(answer.headers.get('retry-after')).toBe('86400');
});

it('a WebSocket gets the status as an error event', async () => {
  served = await ServedGateway.open();
  served.provider.play([{ status: 429, headers: { 'retry-after': '7' } }], ['hi']);
  const socket = await ClientSocket.open(`${served.url}/v1/responses`);
  const ask = { model: 'desk', input: 'go', store: false };
  expect(await socket.create(ask)).toMatchObject([
    { type: 'error', status: 429, error: { type: 'rate_limit_error' }, headers: { 'retry-after': '7' } },
  ]);
  expect((await socket.create(ask)).at(-1)).toMatchObject({ type: 'response.completed' });
  socket.close();
});
