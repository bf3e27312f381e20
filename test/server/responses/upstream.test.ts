import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../protocol/json.ts';
import { readSpec } from '../../../server/responses/wire/response-spec.ts';
import { type Serving, serveRuns } from '../../../server/serve.ts';
import { calling, endOf, Gateway, parseStream, typesOf } from '../../support/responses/gateway.ts';

/** A gateway whose provider is another gateway, whose journal shows the upstream requests. */
let upstream: Gateway;
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
  serving = await serveRuns(upstream.app, { host: '127.0.0.1', port: 0 });
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

/** The bodies that upstream received since `before`, oldest first. */
async function received(before: number): Promise<{ request: JsonObject; input: unknown[] }[]> {
  const runs = (await upstream.store.list({ limit: 1000 })).runs.toReversed().slice(before);
  return await Promise.all(
    runs.map(async ({ runId }) => {
      const [started] = await upstream.store.read(runId);
      const spec =
        started?.event.type === 'run.started' ? readSpec(started.event.launch?.request) : undefined;
      if (started?.event.type !== 'run.started' || spec === undefined) throw new Error('no run of a request');
      const { request } = spec;
      return { request, input: started.event.input };
    }),
  );
}

async function count(): Promise<number> {
  return (await upstream.store.list({ limit: 1000 })).runs.length;
}

describe('the provider receives', () => {
  it('instructions, settings, the output format, and images', async () => {
    const before = await count();
    const schema = { type: 'object', properties: { a: { type: 'string' } }, additionalProperties: false };
    const format = { type: 'json_schema', name: 'answer', schema, strict: false };
    const response = await gateway.create({
      model: 'openai:plain',
      instructions: 'Be brief.',
      ...{ temperature: 0.5, top_p: 0.9, max_output_tokens: 100, parallel_tool_calls: false },
      ...{ reasoning: { effort: 'low', summary: 'auto' }, text: { format, verbosity: 'low' } },
      tools: [ASK],
      input: [{ role: 'user', content: [{ type: 'input_image', image_url: PIXEL }] }],
    });
    expect(response.output).toMatchObject([
      { type: 'reasoning', summary: [{ text: 'hm' }] },
      { type: 'message', content: [{ text: 'Hello from afar.' }] },
    ]);
    const [sent] = await received(before);
    expect(sent?.request).toMatchObject({
      instructions: 'Be brief.',
      ...{ temperature: 0.5, top_p: 0.9, max_output_tokens: 100, parallel_tool_calls: false },
      ...{ reasoning: { effort: 'low', summary: 'auto' }, text: { format, verbosity: 'low' } },
      tools: [ASK],
      tool_choice: 'auto',
    });
    expect(sent?.input).toMatchObject([{ content: [{ type: 'image', url: PIXEL }] }]);
    expect(response.text).toMatchObject({ format, verbosity: 'low' });
  });

  it('a forced tool choice, for the first turn only', async () => {
    const before = await count();
    const tools = [{ type: 'mcp', server_label: 'desk' }];
    const response = await gateway.create({
      model: 'openai:tools',
      input: 'go',
      tools,
      tool_choice: 'required',
    });
    expect(typesOf(response.output)).toEqual(['mcp_list_tools', 'mcp_call', 'mcp_call', 'message']);
    const sent = await received(before);
    expect(sent.map(({ request }) => request.tool_choice)).toEqual(['required']);
    const [run] = (await upstream.store.list({ limit: 1000 })).runs.slice(0, 1);
    const notes = (await upstream.store.read(run?.runId ?? '')).flatMap(({ event }) =>
      event.type === 'run.noted'
        ? [(event.note as { spec: { request: JsonObject } }).spec.request.tool_choice]
        : [],
    );
    expect(notes).toEqual(['auto', 'auto']);
  });

  it('the tool choice of each response of a run', async () => {
    const tools = [ASK];
    const one = await gateway.create({ model: 'openai:calls', input: 'go', tools, tool_choice: 'none' });
    expect(one.output).toMatchObject([{ type: 'message' }]);
    const forced = { type: 'function', name: 'ask' };
    const two = await gateway.create({ model: 'openai:calls', input: 'go', tools, tool_choice: forced });
    const before = await count();
    await gateway.create({
      ...{ model: 'openai:calls', tools, tool_choice: forced, previous_response_id: two.id },
      input: [{ type: 'function_call_output', call_id: two.output[0]?.call_id, output: 'x' }],
    });
    expect(await count()).toBe(before);
  });

  it('only tools that the choice allows', async () => {
    const before = await count();
    const tools = [ASK, { ...ASK, name: 'tell' }];
    const tool_choice = { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'tell' }] };
    await gateway.create({ model: 'openai:plain', input: 'go', tools, tool_choice });
    const [sent] = await received(before);
    expect(sent?.request.tools).toMatchObject([{ name: 'tell' }]);
  });
});

it('text is streamed in pieces while the provider streams it', async () => {
  const response = await gateway.send('POST', '', { model: 'openai:slow', input: 'go', stream: true });
  const text = await response.text();
  const deltas = parseStream(text).filter(({ type }) => type === 'response.output_text.delta');
  expect(deltas.length).toBeGreaterThan(2);
});

it('a provider error is reported without the provider key', async () => {
  const events = await gateway.stream({ model: 'openai:nothing-of-that-name', input: 'go' });
  expect(endOf(events)).toMatchObject({ status: 'failed', error: { message: expect.any(String) } });
  expect(JSON.stringify(events)).not.toContain('sk-upstream');
});
