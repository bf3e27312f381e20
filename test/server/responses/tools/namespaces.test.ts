import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../../protocol/json.ts';
import { addUp } from '../../../support/responses/add-up.ts';
import { DIALECTS, DialectProvider } from '../../../support/responses/dialect-provider.ts';
import { endOf, type Item, type Page } from '../../../support/responses/gateway.ts';
import { gatewayOn } from '../../../support/responses/gateway-on.ts';

/** Tools in namespaces: OpenAI's models know them, others get functions whose names have the namespace. */

const USER = { role: 'user', content: 'Go.' };
const GRAMMAR = { type: 'grammar', syntax: 'lark', definition: 'start: "let" NAME' };
const functionOf = (name: string) => ({
  type: 'function',
  name,
  strict: false,
  parameters: { type: 'object', properties: { q: { type: 'string' } } },
});
const spaceOf = (name: string, ...tools: JsonObject[]) => ({
  type: 'namespace',
  name,
  description: 'x',
  tools,
});
const CRM = spaceOf('crm', functionOf('find'), { type: 'custom', name: 'run', format: GRAMMAR });
const SHOP = spaceOf('shop', functionOf('find'));
const tools = [functionOf('find'), CRM, SHOP];
const { provider, gateway } = await gatewayOn(DialectProvider);

const others = Object.entries(DIALECTS).filter(([dialect]) => dialect !== 'responses');

function namesIn({ tools = [] }: JsonObject = {}): unknown[] {
  return (tools as JsonObject[]).map(tool => (tool.function as JsonObject | undefined)?.name ?? tool.name);
}

/** As a client keeps it that stores no responses. */
const returned = ({ status: _, ...item }: Item): JsonObject => item;

describe.each(others)('with a provider of the dialect %s', (_, model) => {
  it('each tool is a function with the namespace in its name', async () => {
    provider.play({ text: 'Done.' });
    await gateway.create({ model, input: [USER], tools });
    expect(namesIn(provider.requests[0])).toEqual(['find', 'crm__find', 'crm__run', 'shop__find']);
    expect(JSON.stringify(provider.requests[0]?.tools)).toContain('must match this Lark grammar:');
  });

  it('calls are given back with name and namespace, streamed and not, and go back as they were made', async () => {
    const calls = [
      { name: 'shop__find', arguments: { q: 'shoes' } },
      { name: 'crm__run', arguments: { input: 'let x' } },
      { name: 'find', arguments: {} },
    ];
    provider.play({ calls }, { calls }, { text: 'Done.' });
    const body = { model, store: false, input: [USER], tools };
    const given = [
      { type: 'function_call', namespace: 'shop', name: 'find', arguments: '{"q":"shoes"}' },
      { type: 'custom_tool_call', namespace: 'crm', name: 'run', input: 'let x' },
      { type: 'function_call', name: 'find' },
    ];
    const { output } = await gateway.create(body);
    expect(output).toMatchObject(given);
    expect(output[2]).not.toHaveProperty('namespace');
    const events = await gateway.stream(body);
    expect(addUp(events)).toEqual(endOf(events).output);
    expect(endOf(events).output).toMatchObject(given);
    expect(events.filter(({ type }) => type === 'response.custom_tool_call_input.delta')).toMatchObject([
      { delta: 'let x' },
    ]);
    const answers = output.map(({ type, call_id }) => ({ type: `${type}_output`, call_id, output: 'ok' }));
    await gateway.create({ ...body, input: [USER, ...output.map(returned), ...answers] });
    const sent = JSON.stringify(provider.requests[2]?.messages);
    for (const { name } of calls) expect(sent).toContain(`"name":"${name}"`);
    expect(sent).not.toContain('namespace');
  });

  it('a choice can name a tool in a namespace', async () => {
    provider.play({ calls: [{ name: 'crm__run', arguments: { input: '' } }] });
    const tool_choice = { type: 'custom', name: 'run' };
    await gateway.create({ model, input: [USER], tools, tool_choice });
    expect(JSON.stringify(provider.requests[0]?.tool_choice)).toContain('"crm__run"');
  });

  it('tools that an item adds, also in namespaces, can be called from then on', async () => {
    const calls = [{ name: 'crm__find', arguments: {} }];
    provider.play({ calls }, { text: 'Done.' }, { calls });
    const added = { type: 'additional_tools', role: 'developer', tools: [CRM] };
    const first = await gateway.create({ model, input: [added, USER] });
    expect(namesIn(provider.requests[0])).toEqual(['crm__find', 'crm__run']);
    expect(first.output).toMatchObject([{ type: 'function_call', namespace: 'crm', name: 'find' }]);
    const output = { type: 'function_call_output', call_id: String(first.output[0]?.call_id), output: '1' };
    const second = await gateway.create({ model, previous_response_id: first.id, input: [output] });
    const third = await gateway.create({ model, previous_response_id: second.id, input: [USER] });
    expect(third.output).toMatchObject([{ type: 'function_call', namespace: 'crm', name: 'find' }]);
    expect(JSON.stringify(provider.requests.map(({ messages }) => messages))).not.toContain(
      'additional_tools',
    );
  });

  it('the client searches for tools, and the model calls what was found, at once', async () => {
    const search = {
      type: 'tool_search',
      execution: 'client',
      description: 'Finds tools.',
      parameters: functionOf('').parameters,
    };
    provider.play(
      { calls: [{ name: 'tool_search', arguments: { q: 'customers' } }] },
      { calls: [{ name: 'crm__find', arguments: { q: 'x' } }] },
    );
    const body = { model, store: false, tools: [search] };
    const first = await gateway.create({ ...body, input: [USER] });
    expect(first.output).toMatchObject([
      { type: 'tool_search_call', execution: 'client', arguments: { q: 'customers' }, status: 'completed' },
    ]);
    expect(namesIn(provider.requests[0])).toEqual(['tool_search']);
    const [call] = first.output;
    const found = [spaceOf('crm', { ...functionOf('find'), defer_loading: true })];
    const answer = {
      type: 'tool_search_output',
      call_id: call?.call_id,
      execution: 'client',
      status: 'completed',
      tools: found,
    };
    const second = await gateway.create({ ...body, input: [USER, ...first.output, answer] });
    expect(second.output).toMatchObject([{ type: 'function_call', namespace: 'crm', name: 'find' }]);
    expect(namesIn(provider.requests[1])).toEqual(['tool_search', 'crm__find']);
  });
});

describe('with a model of OpenAI', () => {
  const model = DIALECTS.responses;

  it('namespaces are declared as sent, and two of them may have a tool of one name', async () => {
    const call = (namespace: string | undefined, at: number) => ({
      type: 'function_call',
      id: `fc_${at}`,
      call_id: `call_${at}`,
      ...(namespace === undefined ? {} : { namespace }),
      name: 'find',
      arguments: '{}',
      status: 'completed',
    });
    const calls = [call('shop', 1), call(undefined, 2), call('crm', 3)];
    provider.play({ items: calls }, { text: 'Done.' });
    const first = await gateway.create({ model, input: [USER], tools });
    expect(provider.requests[0]?.tools).toHaveLength(3);
    expect(provider.requests[0]?.tools).toEqual(expect.arrayContaining([CRM, SHOP]));
    expect(first.output.map(({ namespace = null, name }) => [namespace, name])).toEqual([
      ['shop', 'find'],
      [null, 'find'],
      ['crm', 'find'],
    ]);
    const input = calls.map(({ call_id }) => ({ type: 'function_call_output', call_id, output: '1' }));
    const second = await gateway.create({ model, previous_response_id: first.id, input, tools });
    const sent = provider.requests[1]?.input as JsonObject[];
    expect(sent.slice(1, 4)).toMatchObject(calls.map(({ id: _, status: __, ...kept }) => kept));
    expect(sent[2]).not.toHaveProperty('namespace');
    const { data } = await gateway.read<Page>(`/${second.id}/input_items?order=asc`);
    expect(data).toMatchObject(input);
  });

  it('a conversation can go on with a model that knows no namespaces, and come back', async () => {
    const call = {
      type: 'function_call',
      call_id: 'call_1',
      namespace: 'crm',
      name: 'find',
      arguments: '{}',
    };
    const result = { type: 'function_call_output', call_id: 'call_1', output: '1' };
    provider.play({ calls: [{ name: 'crm__find', arguments: {} }] }, { text: 'Done.' });
    const input = [USER, call, result];
    const { output } = await gateway.create({ model: DIALECTS.anthropic, store: false, input, tools });
    expect(JSON.stringify(provider.requests[0]?.messages)).toContain('"name":"crm__find"');
    const answer = { ...result, call_id: output[0]?.call_id };
    await gateway.create({ model, store: false, input: [...input, ...output.map(returned), answer], tools });
    const theirs = { ...call, call_id: output[0]?.call_id };
    expect(provider.requests[1]?.input).toMatchObject([USER, call, result, theirs, answer]);
  });

  it('two tools of one name in one namespace are refused', async () => {
    const twice = [spaceOf('crm', functionOf('find'), functionOf('find'))];
    expect(await gateway.refused({ model, input: [USER], tools: twice })).toMatchObject({
      code: 'duplicate_function',
    });
  });

  it.each(['openai:gpt-6-sol', 'openai:any'])(
    'what the client has found for %s is called in its namespace',
    async model => {
      const search = {
        type: 'tool_search_call',
        id: 'tsc_1',
        call_id: 'call_s',
        status: 'completed',
        execution: 'client',
        arguments: {},
      };
      const call = {
        type: 'function_call',
        id: 'fc_1',
        call_id: 'call_f',
        namespace: 'crm',
        name: 'find',
        arguments: '{}',
      };
      provider.play({ items: [search] }, { items: [call] }, { text: 'Done.' });
      const declared = [
        { type: 'tool_search', execution: 'client', description: 'x', parameters: { type: 'object' } },
      ];
      const body = { model, tools: declared };
      const first = await gateway.create({ ...body, input: [USER] });
      const found = { type: 'tool_search_output', call_id: 'call_s', execution: 'client', tools: [CRM] };
      const second = await gateway.create({ ...body, previous_response_id: first.id, input: [found] });
      expect(second.output).toMatchObject([{ type: 'function_call', namespace: 'crm', name: 'find' }]);
      const output = { type: 'function_call_output', call_id: 'call_f', output: '1' };
      await gateway.create({ ...body, previous_response_id: second.id, input: [output] });
      const { id: _, ...sent } = call;
      expect(provider.requests[2]?.input).toMatchObject([
        USER,
        { type: 'tool_search_call' },
        found,
        sent,
        output,
      ]);
    },
  );

  it('the results of a search by the client are not deferred again', async () => {
    const search = {
      type: 'tool_search_call',
      call_id: 'call_s',
      status: 'completed',
      execution: 'client',
      arguments: { q: 'x' },
    };
    const found = {
      type: 'tool_search_output',
      call_id: 'call_s',
      execution: 'client',
      tools: [spaceOf('crm', { ...functionOf('find'), defer_loading: true })],
    };
    provider.play({ text: 'Done.' });
    const declared = [
      { type: 'tool_search', execution: 'client', description: 'x', parameters: { type: 'object' } },
    ];
    await gateway.create({ model, store: false, input: [USER, search, found], tools: declared });
    expect(provider.requests[0]?.tools).toEqual(declared);
    expect(provider.requests[0]?.input).toMatchObject([USER, search, found]);
  });
});
