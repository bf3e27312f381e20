import { afterAll, describe, expect, it } from 'vitest';
import { calling, Gateway, type Resource } from '../../../support/responses/gateway.ts';

const ASK = { type: 'function', name: 'ask', parameters: { type: 'object', properties: {} } };

const gateway = new Gateway(
  {
    talk: [{ text: 'Hello there, how are you?' }, { text: 'Fine.' }],
    ask: [calling('ask'), { text: 'So.' }],
  },
  { config: folder => ({ mcp_servers: { desk: folder.server() } }) },
);
afterAll(() => gateway.close());

async function count(body: object): Promise<number> {
  const response = await gateway.send('POST', '/input_tokens', body);
  const counted = (await response.json()) as { object: string; input_tokens: number };
  expect(counted).toEqual({ object: 'response.input_tokens', input_tokens: expect.any(Number) });
  return counted.input_tokens;
}

describe('POST /v1/responses/input_tokens', () => {
  it('counts instructions, input, history, functions and tools of MCP servers, and starts no run', async () => {
    const one: Resource = await gateway.create({ model: 'talk', input: 'Hello!' });
    const runs = (await gateway.store.list({ limit: 1000 })).runs.length;
    const plain = await count({ model: 'talk', input: 'Hello!' });
    expect(await count({ model: 'talk', input: 'Hello!', instructions: 'Be brief.' })).toBeGreaterThan(plain);
    expect(await count({ model: 'talk', input: 'Hello!', previous_response_id: one.id })).toBeGreaterThan(
      plain,
    );
    expect(await count({ model: 'talk', input: 'Hello!', tools: [ASK] })).toBeGreaterThan(plain);
    const desk = { type: 'mcp', server_label: 'desk' };
    expect(await count({ model: 'talk', input: 'Hello!', tools: [desk] })).toBeGreaterThan(plain + 50);
    expect((await gateway.store.list({ limit: 1000 })).runs).toHaveLength(runs);
  });

  it('counts the result of a function that a run waits for, and leaves the run waiting', async () => {
    const asked = await gateway.create({ model: 'ask', input: 'go', tools: [ASK] });
    const output = {
      type: 'function_call_output',
      call_id: asked.output[0]?.call_id,
      output: 'x'.repeat(400),
    };
    const request = { model: 'ask', tools: [ASK], previous_response_id: asked.id, input: [output] };
    expect(await count(request)).toBeGreaterThan(100);
    expect((await gateway.create(request)).output).toMatchObject([{ content: [{ text: 'So.' }] }]);
  });

  it('refuses what a request for a response refuses', async () => {
    const unknown = await gateway.send('POST', '/input_tokens', { model: 'nobody', input: 'x' });
    expect(unknown.status).toBe(400);
    const gone = { model: 'talk', input: 'x', previous_response_id: 'resp_0' };
    const missing = await gateway.send('POST', '/input_tokens', gone);
    expect(await missing.json()).toMatchObject({ error: { code: 'previous_response_not_found' } });
  });
});
