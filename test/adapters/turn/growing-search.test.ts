import { expect, test } from 'vitest';
import { anthropic } from '../../../adapters/anthropic.ts';
import { openaiResponses } from '../../../adapters/openai-responses.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { memory } from '../../../stores/memory.ts';
import { message, text, toolUse } from '../../support/adapters/anthropic-exchange.ts';
import { eventsOf, makeTool } from '../../support/engine/agents.ts';

/* Stand-ins in the documented form of both providers' tool search: no traffic was recorded. */

type Fetch = typeof globalThis.fetch;

const response = (...output: JsonObject[]): JsonObject => ({
  id: 'resp_1',
  object: 'response',
  status: 'completed',
  output,
});
const call = (id: string, name: string, more: JsonObject = {}): JsonObject => ({
  type: 'function_call',
  id: `fc_${id}`,
  call_id: id,
  name,
  arguments: '{}',
  status: 'completed',
  ...more,
});
const said = {
  type: 'message',
  id: 'msg_1',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text: 'Done.', annotations: [] }],
};
const hosted = { execution: 'server', call_id: null, status: 'completed' };

type Stand = { open(fetch: Fetch): ModelAdapter; answers: readonly JsonObject[]; list: 'messages' | 'input' };

const STANDS: Readonly<Record<string, Stand>> = {
  'Claude searches': {
    open: fetch => anthropic({ model: 'claude-opus-5-5', apiKey: 'k', fetch }),
    list: 'messages',
    answers: [
      message(
        [
          { type: 'thinking', thinking: 'Hm.', signature: 'sig_1' },
          {
            type: 'server_tool_use',
            id: 'srvtoolu_1',
            name: 'tool_search_tool_bm25',
            input: { query: 'pay' },
          },
          {
            type: 'tool_search_tool_result',
            tool_use_id: 'srvtoolu_1',
            content: {
              type: 'tool_search_tool_search_result',
              tool_references: [{ type: 'tool_reference', tool_name: 'pay_bill' }],
            },
          },
          toolUse('call_1', 'pay_bill'),
        ],
        'tool_use',
      ),
      message(
        [{ type: 'thinking', thinking: 'So.', signature: 'sig_2' }, toolUse('call_2', 'read')],
        'tool_use',
      ),
      message([text('Done.')]),
    ],
  },
  'OpenAI searches': {
    open: fetch => openaiResponses({ model: 'gpt-5.4', apiKey: 'k', store: false, fetch }),
    list: 'input',
    answers: [
      response(
        { type: 'tool_search_call', id: 'tsc_1', ...hosted, arguments: { paths: ['pay_bill'] } },
        {
          type: 'tool_search_output',
          id: 'tso_1',
          ...hosted,
          tools: [{ type: 'function', name: 'pay_bill' }],
        },
        call('call_1', 'pay_bill'),
      ),
      response(call('call_2', 'read')),
      response(said),
    ],
  },
  'our search and tools that OpenAI lets us append': {
    open: fetch => openaiResponses({ model: 'gpt-5', apiKey: 'k', store: false, fetch }),
    list: 'input',
    answers: [
      response(call('call_0', 'search_tools', { arguments: '{"query":"pay"}' })),
      response(call('call_1', 'pay_bill')),
      response(call('call_2', 'read')),
      response(said),
    ],
  },
};

test.each(Object.entries(STANDS))('requests only grow when %s', async (_, { open, answers, list }) => {
  const sent: JsonObject[] = [];
  const model = open(async (_, init) => {
    sent.push(JSON.parse(String(init?.body)));
    return Response.json(answers[sent.length - 1]);
  });
  const tools = ['read', 'pay_bill', 'send_mail'].map(name =>
    makeTool(name, { sideEffect: 'none', ...(name !== 'read' && { deferred: true }) }),
  );
  const store = memory();
  const agent = createAgent({ name: 'a', model, store, tools, stream: false });
  const run = await agent.start('Go.');
  const settled = await run.settled();
  expect(settled).toMatchObject({ status: 'finished', text: 'Done.' });
  const events = await eventsOf(store, run.id);
  expect(events.filter(event => event.type === 'turn.completed' && event.broken !== undefined)).toEqual([]);
  expect(JSON.stringify(sent.at(-1))).toContain('pay_bill ran');
  expect(sent).toHaveLength(answers.length);
  for (const [at, body] of sent.entries()) {
    const before = sent[at - 1];
    if (before === undefined) continue;
    const items = before[list] as JsonObject[];
    expect(body.tools).toEqual(before.tools);
    expect((body[list] as JsonObject[]).slice(0, items.length)).toEqual(items);
  }
});
