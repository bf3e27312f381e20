import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../../protocol/json.ts';
import { addUp } from '../../../support/responses/add-up.ts';
import { DIALECTS, DialectProvider } from '../../../support/responses/dialect-provider.ts';
import { endOf, type Page, typesOf } from '../../../support/responses/gateway.ts';
import { gatewayOn } from '../../../support/responses/gateway-on.ts';

/** Tools and items that OpenAI's models know, in the form of the types of openai@7.55.0: no traffic was recorded. */

const USER = { role: 'user', content: 'Go.' };
const model = DIALECTS.responses;
const FIND = { type: 'function', name: 'find', parameters: { type: 'object', properties: {} } };
const { provider, gateway } = await gatewayOn(DialectProvider);

type Own = { tool: JsonObject; call: JsonObject; output: JsonObject };
const PICTURE = 'data:image/png;base64,AAAA';
const OWN: Own[] = [
  {
    tool: { type: 'apply_patch' },
    call: { type: 'apply_patch_call', operation: { type: 'delete_file', path: 'a.ts' } },
    output: { type: 'apply_patch_call_output', status: 'failed', output: 'no such file' },
  },
  {
    tool: { type: 'shell', environment: { type: 'local' } },
    call: { type: 'shell_call', action: { commands: ['ls'] }, environment: { type: 'local' } },
    output: {
      type: 'shell_call_output',
      max_output_length: 9,
      output: [{ stdout: 'a', stderr: '', outcome: { type: 'exit', exit_code: 0 } }],
    },
  },
  {
    tool: { type: 'local_shell' },
    call: { type: 'local_shell_call', action: { type: 'exec', command: ['ls'], env: {} } },
    output: { type: 'local_shell_call_output', output: 'a' },
  },
  {
    tool: { type: 'computer' },
    call: {
      type: 'computer_call',
      actions: [{ type: 'screenshot' }],
      pending_safety_checks: [{ id: 'sc_1' }],
    },
    output: {
      type: 'computer_call_output',
      output: { type: 'computer_screenshot', image_url: PICTURE },
      acknowledged_safety_checks: [{ id: 'sc_1' }],
    },
  },
];
const made = (call: JsonObject): JsonObject => ({
  ...call,
  id: 'theirs_1',
  call_id: 'call_1',
  status: 'completed',
});

describe.each(OWN.map(own => [String(own.tool.type), own] as const))(
  'the tool %s',
  (_, { tool, call, output }) => {
    it('ends the turn with its call open, streamed and not', async () => {
      provider.play({ items: [made(call)] }, { items: [made(call)] });
      const body = { model, input: [USER], tools: [tool] };
      const whole = await gateway.create(body);
      expect(provider.requests[0]?.tools).toEqual([tool]);
      expect(whole).toMatchObject({ status: 'completed', tools: [tool] });
      expect(whole.output).toMatchObject([{ ...call, call_id: 'call_1', status: 'completed' }]);
      const events = await gateway.stream(body);
      expect(addUp(events)).toEqual(endOf(events).output);
      expect(endOf(events).output).toMatchObject([call]);
    });

    it.each(['after the response', 'from its items', 'from its items, not stored', 'by references'])(
      'takes the output of the client %s',
      async way => {
        provider.play({ items: [made(call)] }, { text: 'Done.' });
        const store = !way.endsWith('not stored');
        const first = await gateway.create({ model, store, input: [USER], tools: [tool] });
        const items =
          way === 'by references'
            ? first.output.map(({ id }) => ({ id, type: 'item_reference' }))
            : first.output;
        const answer = { ...output, call_id: 'call_1' };
        const second = await gateway.create({
          model,
          store,
          tools: [tool],
          ...(way === 'after the response'
            ? { previous_response_id: first.id, input: [answer] }
            : { input: [USER, ...items, answer] }),
        });
        expect(second.output).toMatchObject([{ type: 'message', content: [{ text: 'Done.' }] }]);
        expect(provider.requests[1]?.input).toMatchObject([USER, { ...call, call_id: 'call_1' }, answer]);
        if (!store) return;
        const { data } = await gateway.read<Page>(`/${second.id}/input_items?order=asc`);
        expect(data.slice(way === 'after the response' ? 0 : 2)).toMatchObject([answer]);
      },
    );

    it.skipIf(tool.type === 'computer')('is a function of a model that does not know it', async () => {
      const name = String(tool.type);
      const { type: _, ...members } = call;
      provider.play({ calls: [{ name, arguments: members }] }, { text: 'Done.' });
      const other = { model: DIALECTS.anthropic, store: false, tools: [tool] };
      const first = await gateway.create({ ...other, input: [USER] });
      expect(provider.requests[0]?.tools).toMatchObject([{ name, input_schema: { type: 'object' } }]);
      expect(first.output).toMatchObject([{ ...call, status: 'completed' }]);
      const answer = { ...output, call_id: first.output[0]?.call_id };
      const second = await gateway.create({ ...other, input: [USER, ...first.output, answer] });
      expect(second.output).toMatchObject([{ content: [{ text: 'Done.' }] }]);
      const sent = JSON.stringify(provider.requests[1]?.messages);
      expect(sent).toContain(JSON.stringify(members).slice(1, -1));
      expect(sent).toContain('tool_result');
    });

    it.skipIf(tool.type === 'computer')('never reaches the client in another form', async () => {
      provider.play(
        { calls: [{ name: String(tool.type), arguments: { path: 'a.ts' } }] },
        { text: 'Sorry.' },
      );
      const { output } = await gateway.create({ model: DIALECTS.chat, input: [USER], tools: [tool] });
      expect(typesOf(output)).toEqual(['message']);
      expect(JSON.stringify(provider.requests[1]?.messages)).toContain('expected');
    });

    it.runIf(tool.type === 'computer')(
      'is refused by name for a model that does not know it, and so are its items',
      async () => {
        provider.play();
        const other = { model: DIALECTS.anthropic, input: [USER] };
        expect(await gateway.refused({ ...other, tools: [tool] })).toMatchObject({
          status: 400,
          code: 'unsupported_tool',
          param: 'tools[0].type',
        });
        const input = [USER, made(call), { ...output, call_id: 'call_1' }];
        expect(await gateway.refused({ ...other, input })).toMatchObject({
          code: 'unsupported_input_item',
          param: 'input[1].type',
        });
        expect(provider.requests).toEqual([]);
      },
    );
  },
);

const PROGRAM = {
  type: 'program',
  id: 'cm_1',
  call_id: 'call_p',
  code: 'await tools.find()',
  fingerprint: 'f',
};
const RAN = { type: 'program_output', id: 'cmo_1', call_id: 'call_p', result: '"ok"', status: 'completed' };
const caller = { type: 'program', caller_id: 'call_p' };

describe('an item of OpenAI', () => {
  it.each<[string, JsonObject[]]>([
    ['configuration_update', [{ type: 'configuration_update', text: { format: { type: 'text' } } }]],
    ['program', [PROGRAM, RAN]],
    [
      'tool_search_call',
      [
        { type: 'tool_search_call', call_id: null, execution: 'server', arguments: { paths: ['crm'] } },
        { type: 'tool_search_output', call_id: null, execution: 'server', tools: [FIND] },
      ],
    ],
    [
      'image_generation_call',
      [{ type: 'image_generation_call', id: 'ig_1', status: 'completed', result: 'AAAA' }],
    ],
    [
      'shell_call',
      [
        {
          type: 'shell_call',
          id: 'sh_1',
          call_id: 'call_h',
          status: 'completed',
          action: { commands: ['ls'] },
          environment: { type: 'container_reference', container_id: 'c' },
        },
        { type: 'shell_call_output', id: 'sho_1', call_id: 'call_h', status: 'completed', output: [] },
      ],
    ],
  ])(
    '%s of a client reaches the model word for word, and is listed; other models refuse it',
    async (_, items) => {
      provider.play({ text: 'Done.' });
      const input = [USER, ...items, USER];
      const { id } = await gateway.create({ model, input });
      expect(provider.requests[0]?.input).toEqual(input);
      expect(provider.requests[0]?.tools).toBeUndefined();
      const { data } = await gateway.read<Page>(`/${id}/input_items?order=asc`);
      expect(data.slice(1, -1)).toMatchObject(items);
      const refused = await gateway.refused({ model: DIALECTS.chat, input });
      expect(refused).toMatchObject({ code: 'unsupported_input_item', param: 'input[1].type' });
    },
  );

  it('that adds tools reaches the model word for word, and is listed', async () => {
    const added = { type: 'additional_tools', role: 'developer', tools: [FIND] };
    provider.play({ text: 'Done.' });
    const { id } = await gateway.create({ model, input: [USER, added, USER] });
    expect(provider.requests[0]?.input).toEqual([USER, added, USER]);
    expect(provider.requests[0]?.tools).toBeUndefined();
    const { data } = await gateway.read<Page>(`/${id}/input_items?order=asc`);
    expect(data[1]).toMatchObject(added);
  });

  it('without a member that it needs is refused by its name', async () => {
    const refused = async (item: JsonObject) => (await gateway.refused({ model, input: [USER, item] })).param;
    expect(await refused({ type: 'program', id: 'cm_1', call_id: 'c', code: 'x' })).toBe(
      'input[1].fingerprint',
    );
    expect(await refused({ type: 'shell_call', call_id: 'c', action: 'ls' })).toBe('input[1].action');
    expect(await refused({ type: 'apply_patch_call_output', call_id: 'c' })).toBe('input[1].status');
    expect(await refused({ type: 'additional_tools', tools: [{ type: 'function' }] })).toBe(
      'input[1].tools[0].name',
    );
  });

  it('cannot declare a tool that runs at the provider', async () => {
    provider.play();
    const tools = [{ type: 'mcp', server_label: 'x', server_url: 'https://x.example' }];
    const refused = await gateway.refused({ model, input: [USER, { type: 'additional_tools', tools }] });
    expect(refused).toMatchObject({ code: 'unsupported_tool', param: 'input[1].tools[0].type' });
    const hosted = [{ type: 'shell', environment: { type: 'container_auto' } }];
    expect(await gateway.refused({ model, input: [USER], tools: hosted })).toMatchObject({
      param: 'tools[0].environment.type',
    });
    expect(provider.requests).toEqual([]);
  });

  it.each([true, false])('of the model is shown and goes back in its place (store: %s)', async store => {
    const nested = {
      type: 'function_call',
      id: 'fc_1',
      call_id: 'call_f',
      name: 'find',
      arguments: '{}',
      caller,
      status: 'completed',
    };
    provider.play({ items: [PROGRAM, nested] }, { items: [RAN], text: 'Done.' }, { text: 'More.' });
    const find = { ...FIND, allowed_callers: ['programmatic'] };
    const tools = [{ type: 'programmatic_tool_calling' }, find];
    const first = await gateway.create({ model, store, input: [USER], tools });
    expect(provider.requests[0]?.tools).toEqual([tools[0], { ...find, strict: false }]);
    expect(first.output).toMatchObject([
      { ...PROGRAM, id: expect.any(String) },
      { type: 'function_call', name: 'find', caller },
    ]);
    const output = { type: 'function_call_output', call_id: 'call_f', output: '1' };
    const input = [USER, ...first.output, output];
    const second = await gateway.create({ model, store, input, tools });
    const sent = [USER, PROGRAM, { type: 'function_call', call_id: 'call_f', caller }, { ...output, caller }];
    expect(provider.requests[1]?.input).toMatchObject(sent);
    expect(typesOf(second.output)).toEqual(['program_output', 'message']);
    await gateway.create({ model, store, input: [...input, ...second.output, USER], tools });
    expect(provider.requests[2]?.input).toMatchObject([...sent, RAN, { role: 'assistant' }, USER]);
  });
});

describe('a tool that an item adds', () => {
  const CALL = { calls: [{ name: 'find', arguments: {} }] };
  const added = { type: 'additional_tools', role: 'developer', tools: [FIND] };

  it("is the client's from then on, also in the requests that continue the conversation", async () => {
    provider.play(CALL, { text: 'Done.' }, CALL);
    const first = await gateway.create({ model, input: [USER, added] });
    expect(first.output).toMatchObject([{ type: 'function_call', name: 'find' }]);
    const [call] = first.output;
    const output = { type: 'function_call_output', call_id: String(call?.call_id), output: '1' };
    const second = await gateway.create({ model, previous_response_id: first.id, input: [output] });
    expect(second.output).toMatchObject([{ content: [{ text: 'Done.' }] }]);
    const third = await gateway.create({ model, previous_response_id: second.id, input: [USER] });
    expect(third.output).toMatchObject([{ type: 'function_call', name: 'find' }]);
    expect(provider.requests.map(({ tools }) => tools)).toEqual([undefined, undefined, undefined]);
  });

  it('is declared once by an item in the middle of a conversation', async () => {
    const growing = 'openai:gpt-6-sol';
    provider.play({ text: 'Hello.' }, CALL);
    const tools = [{ ...FIND, name: 'look' }];
    const first = await gateway.create({ model: growing, input: [USER], tools });
    const input = [added, USER];
    const second = await gateway.create({ model: growing, previous_response_id: first.id, input, tools });
    expect(second.output).toMatchObject([{ type: 'function_call', name: 'find' }]);
    const sent = provider.requests.flatMap(({ input }) => input as JsonObject[]);
    expect(sent.filter(({ type }) => type === 'additional_tools')).toHaveLength(1);
    expect(provider.requests.map(request => request.tools)).toMatchObject([tools, tools]);
  });

  it('is found by a search that the client runs', async () => {
    const search = {
      type: 'tool_search_call',
      call_id: 'call_s',
      status: 'completed',
      execution: 'client',
      arguments: { goal: 'x' },
    };
    provider.play({ items: [search] }, CALL);
    const tools = [{ type: 'tool_search', execution: 'client' }];
    const first = await gateway.create({ model, input: [USER], tools });
    expect(first.output).toMatchObject([
      { type: 'tool_search_call', execution: 'client', arguments: { goal: 'x' } },
    ]);
    const found = { type: 'tool_search_output', call_id: 'call_s', execution: 'client', tools: [FIND] };
    const second = await gateway.create({ model, previous_response_id: first.id, input: [found], tools });
    expect(second.output).toMatchObject([{ type: 'function_call', name: 'find' }]);
    expect(provider.requests[1]).toMatchObject({ tools, input: [USER, search, found] });
  });

  it('can be in a namespace, which its calls name', async () => {
    const call = {
      type: 'function_call',
      id: 'fc_1',
      call_id: 'call_n',
      name: 'find',
      namespace: 'crm',
      arguments: '{}',
      status: 'completed',
    };
    provider.play({ items: [call] });
    const tools = [{ type: 'namespace', name: 'crm', description: 'Customers.', tools: [FIND] }];
    const { output } = await gateway.create({ model, input: [USER], tools });
    expect(output).toMatchObject([{ type: 'function_call', name: 'find', namespace: 'crm' }]);
    expect(provider.requests[0]?.tools).toEqual(tools);
  });
});

it('an update of the configuration is sent along with the output of a call', async () => {
  provider.play({ calls: [{ name: 'find', arguments: {} }] }, { text: 'Done.' });
  const first = await gateway.create({ model, input: [USER], tools: [FIND] });
  const call_id = String(first.output[0]?.call_id);
  const update = { type: 'configuration_update', reasoning: { effort: 'low' } };
  const input = [{ type: 'function_call_output', call_id, output: '1' }, update];
  const second = await gateway.create({ model, previous_response_id: first.id, input, tools: [FIND] });
  expect(second.output).toMatchObject([{ content: [{ text: 'Done.' }] }]);
  expect(provider.requests[1]?.input).toMatchObject([USER, { call_id }, ...input]);
});

it('an update of the effort is the effort of a model that reads no such items', async () => {
  provider.play({ text: 'Done.' });
  const updates = ['high', 'low'].map(effort => ({ type: 'configuration_update', reasoning: { effort } }));
  const input = [USER, ...updates, USER];
  await gateway.create({ model: DIALECTS.chat, input, reasoning: { effort: 'medium' } });
  expect(provider.requests[0]).toMatchObject({ reasoning_effort: 'low' });
});

it('what one agent of a client says to another is a message for models that read no such items', async () => {
  const words = [
    { type: 'input_text', text: 'Message Type: NEW_TASK\n' },
    { type: 'encrypted_content', encrypted_content: 'Count the files.' },
  ];
  const told = { type: 'agent_message', author: '/root', recipient: '/root/one', content: words };
  provider.play({ text: 'Done.' }, { calls: [{ name: 'find', arguments: {} }] }, { text: 'Two.' });
  await gateway.create({ model, store: false, input: [USER, told] });
  expect(provider.requests[0]?.input).toEqual([USER, told]);
  const other = { model: DIALECTS.chat, tools: [FIND] };
  const { id, output } = await gateway.create({ ...other, input: [told] });
  const text = 'Message Type: NEW_TASK\nCount the files.';
  expect(provider.requests[1]?.messages).toEqual([{ role: 'user', content: text }]);
  const result = { type: 'function_call_output', call_id: String(output[0]?.call_id), output: '2' };
  await gateway.create({ ...other, previous_response_id: id, input: [result, told] });
  const said = expect.arrayContaining([{ role: 'user', content: text }]);
  expect(provider.requests[2]?.messages).toEqual(said);
  provider.play({ text: 'Done.' });
  const kept = await gateway.create({ model, input: [USER, told] });
  await expect(gateway.create({ ...other, previous_response_id: kept.id, input: [USER] })).rejects.toThrow(
    'agent_message',
  );
});

it('what a request says of the reasoning that is seen again reaches OpenAI', async () => {
  provider.play({ text: 'Done.' }, { text: 'Done.' });
  const reasoning = { effort: 'low', context: 'all_turns' };
  await gateway.create({ model, input: [USER], reasoning });
  expect(provider.requests[0]?.reasoning).toEqual(reasoning);
  const other = await gateway.send('POST', '', { model: DIALECTS.chat, input: [USER], reasoning });
  expect(other.headers.get('agentchart-ignored')).toContain('reasoning.context');
  expect(JSON.stringify(provider.requests[1])).not.toContain('all_turns');
});

it('what a request says of the prompt cache reaches OpenAI, and is no reason for others to refuse it', async () => {
  const hints = {
    prompt_cache_key: 'k',
    prompt_cache_options: { mode: 'explicit', ttl: '12h' },
    prompt_cache_retention: '24h',
  };
  provider.play({ text: 'Done.' }, { text: 'Done.' });
  await gateway.create({ model, input: [USER], ...hints });
  expect(provider.requests[0]).toMatchObject(hints);
  await gateway.create({ model: DIALECTS.anthropic, input: [USER], ...hints });
  expect(JSON.stringify(provider.requests[1])).not.toContain('prompt_cache');
  const refused = await gateway.refused({ model, input: [USER], prompt_cache_options: { mode: 'off' } });
  expect(refused).toMatchObject({ status: 400, param: 'prompt_cache_options.mode' });
});

it('a tool that the model knows cannot have the name of a function', async () => {
  const tools = [{ type: 'shell' }, { type: 'function', name: 'shell' }];
  expect(await gateway.refused({ model, input: [USER], tools })).toMatchObject({
    code: 'duplicate_function',
  });
});
