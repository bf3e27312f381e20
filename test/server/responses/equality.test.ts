import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { addUp } from '../../support/responses/add-up.ts';
import {
  calling,
  endOf,
  Folder,
  Gateway,
  type Resource,
  runOf,
  typesOf,
} from '../../support/responses/gateway.ts';

const TOOLS = [
  { type: 'mcp', server_label: 'desk', require_approval: { never: { tool_names: ['echo', 'fail'] } } },
  { type: 'function', name: 'ask', parameters: { type: 'object', properties: {} } },
];
const usage = { inputTokens: 3, outputTokens: 4, reasoningTokens: 1 };

const SCRIPTS: Readonly<Record<string, readonly ScriptedTurn[]>> = {
  text: [{ text: 'A few words, and then some more of them.', usage }],
  silent: [{}],
  reasoning: [{ reasoning: 'I wonder about this.', text: 'An answer to it.', usage }],
  preamble: [
    { reasoning: 'hm', text: 'I look.', ...calling('echo', { text: 'x' }), usage },
    { text: 'Seen.', usage },
  ],
  several: [
    {
      toolCalls: [
        { name: 'echo', arguments: { text: 'x' } },
        { name: 'fail' },
        { name: 'echo', arguments: '{' },
      ],
    },
    { reasoning: 'so', ...calling('echo', { text: 'y' }) },
    { text: 'Enough.' },
  ],
  gated: [{ reasoning: 'should I?', ...calling('pid') }, { text: 'Done.' }],
  functions: [{ text: 'I ask.', toolCalls: [{ name: 'ask' }, { name: 'echo', arguments: { text: 'x' } }] }],
  cut: [{ text: 'It was a dark', finishReason: 'length' }],
  filtered: [{ text: 'It was', finishReason: 'content_filter' }],
  flaky: [
    { error: { code: 'server', message: 'try again', times: 1, retryAfterMs: 0 } },
    { text: 'At last.' },
  ],
  failing: [{ error: { code: 'server', message: 'no', retryable: false } }],
};

let gateway: Gateway;

beforeAll(() => {
  const config = (folder: Folder) => ({ mcp_servers: { desk: folder.server() } });
  gateway = new Gateway(SCRIPTS, { config });
});
afterAll(() => gateway.close());

/** Removes what differs between any two responses: ids derived from the run, and times. */
function plain(response: Resource): JsonObject {
  const run = response.id.replace(/^resp_/, '').replace(/_\d+$/, '');
  const text = JSON.stringify(response)
    .replaceAll(run, 'RUN')
    .replaceAll(/mcpl_\w+/g, 'LIST');
  return { ...JSON.parse(text), created_at: 0, completed_at: null };
}

describe('a response', () => {
  const names = Object.keys(SCRIPTS).filter(name => name !== 'failing');

  it.each(names)('streamed equals the sum of its events and the retrieved response: %s', async model => {
    const events = await gateway.stream({ model, input: 'go', tools: TOOLS });
    const response = endOf(events);
    expect(addUp(events)).toEqual(response.output);
    expect(typesOf(events).filter(type => /response\.(completed|failed|incomplete)/.test(type))).toHaveLength(
      1,
    );
    expect(await gateway.get(response.id)).toEqual(response);
  });

  it('that fails before it begins is the same error streamed or not', async () => {
    const failed = await gateway.refused({ model: 'failing', input: 'go' });
    expect(await gateway.refused({ model: 'failing', input: 'go', stream: true })).toEqual(failed);
  });

  it.each(names)('is the same streamed or not: %s', async model => {
    for (const include of [[], ['reasoning.encrypted_content']]) {
      const body = { model, input: 'go', tools: TOOLS, include };
      const whole = await gateway.create(body);
      expect(plain(endOf(await gateway.stream(body)))).toEqual(plain(whole));
    }
  });

  it('has the usage of all its turns', async () => {
    const response = await gateway.create({ model: 'preamble', input: 'go', tools: TOOLS });
    expect(response.usage).toMatchObject({
      input_tokens: 6,
      output_tokens: 8,
      total_tokens: 14,
      output_tokens_details: { reasoning_tokens: 2 },
    });
  });

  it('of a retried run shows the successful attempt', async () => {
    const events = await gateway.stream({ model: 'flaky', input: 'go' });
    expect(endOf(events).output).toMatchObject([{ content: [{ text: 'At last.' }] }]);
  });
});

describe('a response in a store on disk', () => {
  it('is available to the next process: retrieved, approved and continued', async () => {
    const folder = new Folder({});
    const file = join(folder.path, 'runs.db');
    const config = (own: Folder) => ({ mcp_servers: { desk: own.server() } });
    const scripts = { gated: [calling('pid'), { text: 'Done.' }, { text: 'More.' }] };
    const first = new Gateway(scripts, { config, store: sqlite(file) });
    const tools = TOOLS.slice(0, 1);
    const asked = await first.create({ model: 'gated', input: 'go', tools });
    await first.store.close();
    await first.close();
    const second = new Gateway(scripts, { config, store: sqlite(file) });
    expect(await second.get(asked.id)).toEqual(asked);
    const request = asked.output.find(({ type }) => type === 'mcp_approval_request');
    const done = await second.create({
      model: 'gated',
      tools,
      previous_response_id: asked.id,
      input: [{ type: 'mcp_approval_response', approval_request_id: request?.id, approve: true }],
    });
    expect(typesOf(done.output)).toEqual(['mcp_call', 'message']);
    const more = await second.create({ model: 'gated', input: 'on', previous_response_id: done.id });
    expect(more.output).toMatchObject([{ content: [{ text: 'More.' }] }]);
    await second.store.close();
    await second.close();
    folder.remove();
  });

  it('is finished by the next process, which has its tools, when its process dies in the middle', async () => {
    const folder = new Folder({});
    const file = join(folder.path, 'runs.db');
    const config = (own: Folder) => ({ mcp_servers: { desk: own.server() } });
    const scripts = { slow: [calling('echo', { text: 'x' }), { text: 'Done.' }] };
    const first = new Gateway(scripts, { config, store: sqlite(file) });
    const tools = TOOLS.slice(0, 1);
    const whole = await first.create({ model: 'slow', input: 'go', tools });
    const runId = runOf(whole);
    const [started] = await first.store.read(runId);
    if (started?.event.type !== 'run.started') throw new Error('the run did not start');
    const left = { ...started.event, runId: 'run_left1' };
    await first.store.create(left);
    expect(await first.get('resp_left1')).toMatchObject({ status: 'in_progress', completed_at: null });
    const busy = await first.refused({ model: 'slow', input: 'on', previous_response_id: 'resp_left1' });
    expect(busy.code).toBe('previous_response_in_progress');
    expect(await first.app.pickUp()).toEqual(['run_left1']);
    await expect.poll(async () => (await first.get('resp_left1')).status).toBe('completed');
    expect(typesOf((await first.get('resp_left1')).output)).toEqual([
      'mcp_list_tools',
      'mcp_call',
      'message',
    ]);
    await first.store.close();
    await first.close();
    folder.remove();
  });
});
