import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { openaiResponses } from '../../../adapters/openai-responses.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { Item } from '../../../protocol/item.ts';
import type { JsonObject, JsonValue } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { ModelTurn } from '../../../protocol/turn.ts';
import { tool } from '../../../tools/tool.ts';
import { sse } from '../../support/adapters/replay-server.ts';
import { calling, collect, request } from '../../support/adapters/requests.ts';
import { body, input } from '../../support/adapters/wire/responses-request.ts';

/** Items in the form of the types of openai@7.55.0: no traffic with them was recorded. */
const PROGRAM = {
  type: 'program',
  id: 'cm_1',
  call_id: 'call_p',
  code: 'await tools.buy()',
  fingerprint: 'f',
};
const KEPT: JsonObject[] = [
  PROGRAM,
  { type: 'program_output', id: 'cmo_1', call_id: 'call_p', result: '"ok"', status: 'completed' },
  { type: 'tool_search_call', id: 'ts_1', call_id: null, execution: 'server', arguments: { paths: ['crm'] } },
  {
    type: 'tool_search_output',
    id: 'tso_1',
    call_id: null,
    execution: 'server',
    tools: [{ type: 'function', name: 'f' }],
  },
  { type: 'additional_tools', id: 'at_1', role: 'developer', tools: [{ type: 'function', name: 'g' }] },
  { type: 'compaction', id: 'cmp_1', encrypted_content: 'sealed' },
  { type: 'image_generation_call', id: 'ig_1', status: 'completed', result: 'AAAA' },
  {
    type: 'shell_call',
    id: 'sh_1',
    call_id: 'call_h',
    status: 'completed',
    action: { commands: ['ls'] },
    environment: { type: 'container_reference', container_id: 'cntr_1' },
  },
  {
    type: 'shell_call_output',
    id: 'sho_1',
    call_id: 'call_h',
    status: 'completed',
    max_output_length: null,
    output: [{ stdout: 'a', stderr: '', outcome: { type: 'exit', exit_code: 0 } }],
  },
  { type: 'not_known_yet', id: 'x_1', whatever: [1] },
];

type Call = { item: JsonObject; tool: string; output: JsonObject };
const CALLS: Call[] = [
  {
    item: {
      type: 'apply_patch_call',
      id: 'apc_1',
      call_id: 'c1',
      status: 'completed',
      operation: { type: 'update_file', path: 'a.ts', diff: '@@' },
    },
    tool: 'apply_patch',
    output: { type: 'apply_patch_call_output', call_id: 'c1', status: 'completed', output: 'done' },
  },
  {
    item: {
      type: 'shell_call',
      id: 'sh_1',
      call_id: 'c1',
      status: 'completed',
      action: { commands: ['ls'], timeout_ms: 1_000 },
      environment: { type: 'local' },
      caller: { type: 'direct' },
    },
    tool: 'shell',
    output: {
      type: 'shell_call_output',
      call_id: 'c1',
      caller: { type: 'direct' },
      output: [{ stdout: 'done', stderr: '', outcome: { type: 'exit', exit_code: 0 } }],
    },
  },
  {
    item: {
      type: 'local_shell_call',
      id: 'lsh_1',
      call_id: 'c1',
      status: 'completed',
      action: { type: 'exec', command: ['ls'], env: {} },
    },
    tool: 'local_shell',
    output: { type: 'local_shell_call_output', call_id: 'c1', output: 'done' },
  },
  {
    item: {
      type: 'tool_search_call',
      id: 'ts_1',
      call_id: 'c1',
      status: 'completed',
      execution: 'client',
      arguments: { goal: 'crm' },
    },
    tool: 'tool_search',
    output: { type: 'tool_search_output', call_id: 'c1', execution: 'client', tools: [] },
  },
];
const COMPUTER = {
  type: 'computer_call',
  id: 'cu_1',
  call_id: 'c1',
  status: 'completed',
  action: { type: 'screenshot' },
  pending_safety_checks: [],
};

function answering(answer: string, type = 'text/event-stream') {
  const fetch = async () => new Response(answer, { headers: { 'content-type': type } });
  return openaiResponses({ model: 'gpt-4.1', apiKey: 'test', baseURL: 'http://provider.test/v1', fetch });
}

async function read(...output: JsonObject[]): Promise<ModelTurn> {
  const response = JSON.stringify({ id: 'resp_1', status: 'completed', output });
  return await answering(response, 'application/json').generate(request('hi'), calling());
}

async function stream(...output: JsonObject[]): Promise<ModelTurn | undefined> {
  const events = output.flatMap((item, output_index) => [
    { type: 'response.output_item.added', output_index, item: { ...item, status: 'in_progress' } },
    { type: 'response.output_item.done', output_index, item },
  ]);
  const completed = {
    type: 'response.completed',
    response: { id: 'resp_1', status: 'completed', output: [] },
  };
  const deltas = await collect(answering(sse(...events, completed)).stream(request('hi'), calling()));
  const last = deltas.at(-1);
  return last?.type === 'turn' ? last.turn : undefined;
}

const result = (output: JsonValue, isError = false): Item => ({
  type: 'tool_result',
  callId: 'c1',
  output,
  isError,
});

/** What the next request has after the message of the user. */
function sentBack(items: readonly Item[]): JsonValue[] {
  const sent = input([userMessage('go'), ...items]);
  return Array.isArray(sent) ? sent.slice(1) : [];
}

describe('an item that is not a call of ours', () => {
  test.each(KEPT.map(item => [String(item.type), item] as const))(
    '%s goes back as it came',
    async (_, item) => {
      const turn = await read(item);
      expect(turn).toMatchObject({ toolCalls: [], items: [{ type: 'provider_item', kind: item.type }] });
      expect(sentBack(turn.items)).toEqual([item]);
    },
  );

  test('all of them keep their places, and a stream reads what a whole response has', async () => {
    const turn = await read(...KEPT);
    expect(sentBack(turn.items)).toEqual(KEPT);
    expect((await stream(...KEPT))?.items).toEqual(turn.items);
  });
});

describe('a call that the client runs', () => {
  test.each(CALLS.map(call => [call.tool, call] as const))(
    '%s is a call of that tool, and goes back with its result',
    async (tool, { item, output }) => {
      const turn = await read(item);
      expect(turn).toMatchObject({ finishReason: 'tool_calls', toolCalls: [{ callId: 'c1', name: tool }] });
      expect(sentBack([...turn.items, result('done')])).toEqual([item, output]);
      expect(await stream(item)).toEqual(turn);
    },
  );

  test('a result in the form of the output goes back as it is', async () => {
    const output = [{ stdout: '', stderr: 'no', outcome: { type: 'timeout' } }];
    const [shell] = CALLS.filter(({ tool }) => tool === 'shell');
    const turn = await read(shell?.item ?? {});
    const [, sent] = sentBack([...turn.items, result({ output, max_output_length: 10 })]);
    expect(sent).toMatchObject({ type: 'shell_call_output', output, max_output_length: 10 });
  });

  test('a failure is one in the words of each output', async () => {
    const failed = await Promise.all(
      CALLS.slice(0, 2).map(
        async ({ item }) => sentBack([...(await read(item)).items, result('no', true)])[1],
      ),
    );
    expect(failed).toMatchObject([
      { status: 'failed', output: 'Error: no' },
      { output: [{ stderr: 'Error: no', outcome: { type: 'exit', exit_code: 1 } }] },
    ]);
  });

  test("a computer's picture is its output, and what has no picture is said after an empty one", async () => {
    const { items } = await read(COMPUTER);
    const picture = [{ type: 'input_image', image_url: 'data:image/png;base64,AAAA' }];
    expect(sentBack([...items, result(picture)])).toEqual([
      COMPUTER,
      {
        type: 'computer_call_output',
        call_id: 'c1',
        output: { type: 'computer_screenshot', image_url: 'data:image/png;base64,AAAA' },
      },
    ]);
    const [, output, said] = sentBack([...items, result('rejected', true)]);
    expect(output).toMatchObject({ output: { image_url: expect.stringMatching(/^data:image\/png/) } });
    expect(said).toEqual({ role: 'user', content: 'Error: rejected' });
  });

  test('a call with its output in the same response was run by the provider', async () => {
    const call = {
      type: 'apply_patch_call',
      id: 'apc_1',
      call_id: 'c1',
      status: 'completed',
      operation: { type: 'delete_file', path: 'a' },
    };
    const output = {
      type: 'apply_patch_call_output',
      id: 'apo_1',
      call_id: 'c1',
      status: 'completed',
      output: null,
    };
    const turn = await read(call, output);
    expect(turn).toMatchObject({ finishReason: 'stop', toolCalls: [] });
    expect(sentBack(turn.items)).toEqual([call, output]);
  });

  test('its id is left out where the provider stores nothing, if the item can do without', async () => {
    const items = [...(await read(CALLS[0]?.item ?? {})).items, result('done')];
    const local = [...(await read(CALLS[2]?.item ?? {})).items, result('done')];
    expect(JSON.stringify(input(items, { store: false }))).not.toContain('apc_1');
    expect(JSON.stringify(input(local, { store: false }))).toContain('lsh_1');
  });
});

describe('a tool that the provider options declare', () => {
  const tool = (name: string) => ({ name, description: '', inputSchema: { type: 'object' } });
  const declared = [
    { type: 'shell' },
    { type: 'function', name: 'find', parameters: {}, defer_loading: true },
    { type: 'namespace', name: 'crm', description: 'c', tools: [{ type: 'function', name: 'look_up' }] },
  ];

  test('is declared by them alone, whether known to OpenAI, deferred or in a namespace', () => {
    const tools = [tool('shell'), tool('find'), tool('look_up'), tool('other')];
    const { tools: sent } = body(request('hi', { tools, providerOptions: { tools: declared } }));
    expect(sent).toMatchObject([{ type: 'function', name: 'other' }, ...declared]);
  });

  test('is chosen by its type if it is one of those that OpenAI knows', () => {
    const asked = { tools: [tool('shell'), tool('find')], providerOptions: { tools: declared } };
    expect(body(request('hi', { ...asked, toolChoice: { name: 'shell' } })).tool_choice).toEqual({
      type: 'shell',
    });
    expect(body(request('hi', { ...asked, toolChoice: { name: 'find' } })).tool_choice).toEqual({
      type: 'function',
      name: 'find',
    });
  });

  test('is not declared again if an item of the transcript added it', () => {
    const opaque = {
      provider: 'openai-responses',
      data: {
        item: { type: 'additional_tools', role: 'developer', tools: [{ type: 'function', name: 'find' }] },
      },
    };
    const transcript: Item[] = [
      userMessage('hi'),
      { type: 'provider_item', kind: 'additional_tools', opaque },
    ];
    expect(body(request(transcript, { tools: [tool('find')] })).tools).toBeUndefined();
  });
});

test('an item that a client appended after the last turn is sent with a continuation', () => {
  const update = { type: 'configuration_update', reasoning: { effort: 'low' } };
  const transcript: Item[] = [
    userMessage('one'),
    { type: 'message', role: 'assistant', content: [{ type: 'text', text: 'two' }] },
    {
      type: 'provider_item',
      kind: 'configuration_update',
      opaque: { provider: 'openai-responses', data: { item: update } },
    },
    userMessage('three'),
  ];
  expect(body(request(transcript, { continuation: 'resp_1' }))).toMatchObject({
    previous_response_id: 'resp_1',
    input: [update, { role: 'user', content: 'three' }],
  });
});

describe('an agent with a tool that OpenAI knows', () => {
  const [shell] = CALLS.filter(({ tool }) => tool === 'shell');
  const played = (bodies: JsonObject[]) => {
    const outputs = [
      [shell?.item ?? {}],
      [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Listed.' }] }],
    ];
    return openaiResponses({
      model: 'gpt-4.1',
      apiKey: 'test',
      store: false,
      providerOptions: { tools: [{ type: 'shell', environment: { type: 'local' } }] },
      fetch: async (_, init) => {
        bodies.push(JSON.parse(String(init?.body)));
        return Response.json({ id: 'resp_1', status: 'completed', output: outputs[bodies.length - 1] ?? [] });
      },
    });
  };

  test('runs its calls itself, as those of any tool', async () => {
    const bodies: JsonObject[] = [];
    const input = z.object({ action: z.object({ commands: z.array(z.string()) }) });
    const own = tool({
      name: 'shell',
      description: 'Runs commands.',
      input,
      sideEffect: 'none',
      run: ({ action }) => action.commands.join(),
    });
    const agent = createAgent({ name: 'a', model: played(bodies), tools: [own] });
    expect(await agent.run('go')).toMatchObject({ status: 'finished', text: 'Listed.' });
    expect(bodies[0]?.tools).toEqual([{ type: 'shell', environment: { type: 'local' } }]);
    expect(bodies[1]?.input).toMatchObject([
      {},
      { type: 'shell_call' },
      { type: 'shell_call_output', output: [{ stdout: 'ls' }] },
    ]);
  });

  test('waits for the result of a call that the application runs', async () => {
    const bodies: JsonObject[] = [];
    const own = tool({
      name: 'shell',
      description: 'Runs commands.',
      input: z.looseObject({}),
      sideEffect: 'once',
    });
    const agent = createAgent({ name: 'a', model: played(bodies), tools: [own] });
    const run = await agent.start('go');
    expect(await run.settled()).toMatchObject({
      status: 'waiting',
      open: [{ kind: 'result', name: 'shell', input: { action: { commands: ['ls'] } } }],
    });
    await run.answer('c1', { output: 'listed' });
    expect(await run.settled()).toMatchObject({ status: 'finished' });
    expect(bodies[1]?.input).toMatchObject([
      {},
      {},
      { type: 'shell_call_output', output: [{ stdout: 'listed' }] },
    ]);
  });

  test('tells the model that the call failed if it has no such tool', async () => {
    const bodies: JsonObject[] = [];
    const settled = await createAgent({ name: 'a', model: played(bodies) }).run('go');
    expect(settled).toMatchObject({ status: 'finished', text: 'Listed.' });
    expect(bodies[1]?.input).toMatchObject([
      {},
      {},
      { type: 'shell_call_output', output: [{ outcome: { exit_code: 1 } }] },
    ]);
  });
});

test('reasoning that OpenAI left out of the input is reported by the id of its item', async () => {
  const opaque = (id: string) => ({
    provider: 'openai-responses',
    data: { item: { type: 'reasoning', id, summary: [], encrypted_content: 'x' } },
  });
  const transcript: Item[] = [
    { type: 'reasoning', id: 'item_1', text: '', opaque: opaque('rs_1') },
    { type: 'reasoning', id: 'item_2', text: '', opaque: opaque('rs_2') },
    userMessage('go'),
  ];
  const input_transformations = [
    { type: 'reasoning', action: 'removed', id: 'rs_1', reason: 'prefix_mismatch' },
    { type: 'reasoning', action: 'removed', id: 'rs_2', reason: 'turn_boundary' },
  ];
  const response = { id: 'resp_1', status: 'completed', output: [], input_transformations };
  const whole = await answering(JSON.stringify(response), 'application/json').generate(
    request(transcript),
    calling(),
  );
  expect(whole.dropped).toEqual(['item_1']);
});
