import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../protocol/json.ts';
import { type Serving, serveRuns } from '../../../server/serve.ts';
import { calling, Gateway, parseStream, typesOf } from '../../support/responses/gateway.ts';
import { recordBodies } from '../../support/responses/record-bodies.ts';

/** A gateway whose provider is another gateway. */
let upstream: Gateway;
/** The bodies of the requests to the provider, oldest first. */
let received: JsonObject[];
let serving: Serving;
let gateway: Gateway;
const saved = { url: process.env.OPENAI_BASE_URL, key: process.env.OPENAI_API_KEY };

const PIXEL = 'data:image/png;base64,AAAA';
const ASK = {
  type: 'function',
  name: 'ask',
  description: 'Asks.',
  parameters: { type: 'object', properties: { what: { type: 'string' } } },
  strict: false,
};

beforeAll(async () => {
  upstream = new Gateway({
    plain: [{ reasoning: 'hm', text: 'Hello from afar.', usage: { inputTokens: 1, outputTokens: 2 } }],
    calls: [calling('ask', { what: 'a' }), calling('ask', { what: 'b' }), { text: 'Done.' }],
    tools: [calling('echo', { text: 'x' }), calling('echo', { text: 'y' }), { text: 'Done.' }],
    slow: [{ text: 'Word after word it comes, and never all at once.', delayMs: 150 }],
  });
  const recorded = recordBodies(upstream.app);
  received = recorded.bodies;
  serving = await serveRuns(recorded.app, { host: '127.0.0.1', port: 0 });
  process.env.OPENAI_BASE_URL = `${serving.url}/v1`;
  process.env.OPENAI_API_KEY = 'sk-upstream';
  gateway = new Gateway(
    {},
    { config: folder => ({ mcp_servers: { desk: folder.server({ require_approval: 'never' }) } }) },
  );
});
afterAll(async () => {
  if (saved.url === undefined) delete process.env.OPENAI_BASE_URL;
  else process.env.OPENAI_BASE_URL = saved.url;
  if (saved.key === undefined) delete process.env.OPENAI_API_KEY;
  else process.env.OPENAI_API_KEY = saved.key;
  await gateway.close();
  await serving.close();
  await upstream.close();
});

describe('the provider receives', () => {
  it('instructions, settings, the output format, and images', async () => {
    const schema = { type: 'object', properties: { a: { type: 'string' } }, additionalProperties: false };
    const format = { type: 'json_schema', name: 'answer', schema, strict: false };
    const response = await gateway.create({
      model: 'openai:plain',
      instructions: 'Be brief.',
      temperature: 0.5,
      top_p: 0.9,
      max_output_tokens: 100,
      parallel_tool_calls: false,
      reasoning: { effort: 'low', summary: 'auto' },
      text: { format, verbosity: 'low' },
      tools: [ASK],
      input: [{ role: 'user', content: [{ type: 'input_image', image_url: PIXEL }] }],
    });
    expect(response.output).toMatchObject([
      { type: 'reasoning', summary: [{ text: 'hm' }] },
      { type: 'message', content: [{ text: 'Hello from afar.' }] },
    ]);
    const sent = received.at(-1);
    expect(sent).toMatchObject({
      instructions: 'Be brief.',
      temperature: 0.5,
      top_p: 0.9,
      max_output_tokens: 100,
      parallel_tool_calls: false,
      reasoning: { effort: 'low', summary: 'auto' },
      text: { format, verbosity: 'low' },
      tools: [ASK],
      tool_choice: 'auto',
    });
    expect(sent?.input).toMatchObject([{ content: [{ type: 'input_image', image_url: PIXEL }] }]);
    expect(response.text).toMatchObject({ format, verbosity: 'low' });
  });

  it('a forced tool choice, for the first turn only', async () => {
    const before = received.length;
    const tools = [{ type: 'mcp', server_label: 'desk' }];
    const response = await gateway.create({
      model: 'openai:tools',
      input: 'go',
      tools,
      tool_choice: 'required',
    });
    expect(typesOf(response.output)).toEqual(['mcp_list_tools', 'mcp_call', 'mcp_call', 'message']);
    expect(received.slice(before).map(({ tool_choice }) => tool_choice)).toEqual([
      'required',
      'auto',
      'auto',
    ]);
  });

  it('the tool choice of each response of a run', async () => {
    const tools = [ASK];
    const one = await gateway.create({ model: 'openai:calls', input: 'go', tools, tool_choice: 'none' });
    expect(one.output).toMatchObject([{ type: 'message' }]);
    const forced = { type: 'function', name: 'ask' };
    const two = await gateway.create({ model: 'openai:calls', input: 'go', tools, tool_choice: forced });
    await gateway.create({
      model: 'openai:calls',
      tools,
      tool_choice: forced,
      previous_response_id: two.id,
      input: [{ type: 'function_call_output', call_id: two.output[0]?.call_id, output: 'x' }],
    });
    expect(received.slice(-3).map(({ tool_choice }) => tool_choice)).toEqual(['none', forced, forced]);
  });

  it('only tools that the choice allows', async () => {
    const tools = [ASK, { ...ASK, name: 'tell' }];
    const tool_choice = { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'tell' }] };
    await gateway.create({ model: 'openai:plain', input: 'go', tools, tool_choice });
    expect(received.at(-1)?.tools).toMatchObject([{ name: 'tell' }]);
  });
});

it('text is streamed in pieces while the provider streams it', async () => {
  const response = await gateway.send('POST', '', { model: 'openai:slow', input: 'go', stream: true });
  const text = await response.text();
  const deltas = parseStream(text).filter(({ type }) => type === 'response.output_text.delta');
  expect(deltas.length).toBeGreaterThan(2);
});

it('a provider error is reported without the provider key', async () => {
  const error = await gateway.refused({ model: 'openai:nothing-of-that-name', input: 'go', stream: true });
  expect(error).toMatchObject({ status: 502, message: expect.any(String) });
  expect(JSON.stringify(error)).not.toContain('sk-upstream');
});
