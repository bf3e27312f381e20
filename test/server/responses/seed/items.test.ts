/** The invariants of items, events and errors, of the gateway that this one was built after. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../../protocol/json.ts';
import type { WireEvent } from '../../../../server/responses/response-writer.ts';
import { endOf, type Item, parseStream, typesOf } from '../../../support/responses/gateway.ts';
import { ASK, ECHO, ObedientGateway, server } from '../../../support/responses/obedient-gateway.ts';

let gateway: ObedientGateway;
beforeAll(async () => {
  gateway = await ObedientGateway.start(folder => ({
    desk: folder.server(),
    secret: folder.server({ hidden: true, allowed_tools: ['pid', 'fail'] }),
  }));
});
afterAll(() => gateway.close());

const model = 'obedient';
const desk = server('desk', { require_approval: 'never' });

/** The events that belong to the output item at an index, by type; deltas of one kind in a row count once. */
function eventsOf(events: readonly WireEvent[], index: number): string[] {
  const types = events
    .filter(event => event.output_index === index)
    .map(({ type }) => type.replace('response.', ''));
  return types.filter((type, at) => type !== types[at - 1]);
}

describe('items', () => {
  it('streamed: output indexes are contiguous, and every id is the same in all events and the response', async () => {
    const input = `${ECHO} and ask with the arguments {"what":"x"}`;
    const events = await gateway.stream({ model, input, tools: [desk, ASK] });
    const { output } = endOf(events);
    expect(typesOf(output)).toEqual(['mcp_list_tools', 'mcp_call', 'function_call']);
    for (const [index, { id }] of output.entries()) {
      const own = events.filter(event => event.output_index === index);
      expect(own.length).toBeGreaterThan(1);
      const ids = own.map(event => event.item_id ?? (event.item as Item | undefined)?.id);
      expect(new Set(ids)).toEqual(new Set([id]));
    }
  });

  it('mcp_list_tools has an id, a label and tools with a schema, and no status', async () => {
    const tools = [{ ...desk, allowed_tools: ['echo'] }];
    const { output } = await gateway.create({ model, input: 'hello', tools });
    expect(output[0]).toEqual({
      type: 'mcp_list_tools',
      id: expect.stringMatching(/^mcpl_/),
      server_label: 'desk',
      tools: [
        {
          name: 'echo',
          description: 'Says it back.',
          input_schema: expect.objectContaining({ type: 'object' }),
        },
      ],
    });
  });

  it('mcp_call has a status, arguments, output or error, its server, and no call_id', async () => {
    const input = `${ECHO} and fail with the arguments {}`;
    const { output } = await gateway.create({ model, input, tools: [desk] });
    const own = {
      type: 'mcp_call',
      id: expect.stringMatching(/^mcp_/),
      approval_request_id: null,
      server_label: 'desk',
    };
    expect(output.slice(1, 3)).toEqual([
      {
        ...own,
        status: 'completed',
        name: 'echo',
        arguments: '{"text":"hi"}',
        output: expect.any(String),
        error: null,
      },
      {
        ...own,
        status: 'failed',
        name: 'fail',
        arguments: '{}',
        output: null,
        error: expect.stringContaining('disk full'),
      },
    ]);
  });

  it('ids begin with the kind of the item', async () => {
    const input = `${ECHO} and ask with the arguments {}`;
    const { id, output } = await gateway.create({ model, input, tools: [desk, ASK] });
    const text = await gateway.create({ model, input: 'hello' });
    const prefixes = [...output, ...text.output].map(item => /^[a-z]+_/.exec(item.id)?.[0]);
    expect(prefixes).toEqual(['mcpl_', 'mcp_', 'fc_', 'msg_']);
    expect(id).toMatch(/^resp_/);
  });
});

it('differs: the output has the order of the stream, streamed or not, so that both are one answer', async () => {
  const input = `${ECHO} then hello`;
  const body = { model, input, tools: [desk] };
  const streamed = endOf(await gateway.stream(body));
  expect(typesOf(streamed.output)).toEqual(['mcp_list_tools', 'mcp_call', 'message']);
  expect(typesOf((await gateway.create(body)).output)).toEqual(typesOf(streamed.output));
});

describe('tools', () => {
  it('are echoed as they were sent: mcp stays mcp, without authorization, with headers null', async () => {
    const tools = [{ ...desk, authorization: 'sk-secret', headers: { 'x-key': 'secret' } }, ASK];
    const response = await gateway.create({ model, input: 'hello', tools });
    expect(response.tools).toMatchObject([
      { type: 'mcp', server_label: 'desk', headers: null },
      { type: 'function', name: 'ask' },
    ]);
    expect(JSON.stringify(response)).not.toContain('secret');
  });

  it('are limited by allowed_tools, for the model and in the list', async () => {
    const tools = [{ ...desk, allowed_tools: ['pid'] }];
    let output: Item[] = [];
    const [sent] = await gateway.sentDuring(async () => {
      ({ output } = await gateway.create({ model, input: ECHO, tools }));
    });
    expect(output[0]?.tools).toEqual([expect.objectContaining({ name: 'pid' })]);
    expect(JSON.stringify(sent?.tools)).not.toContain('"echo"');
  });

  it('that say nothing of being read-only are not exposed by a read_only filter', async () => {
    const tools = [{ ...desk, allowed_tools: { read_only: true } }];
    const { output } = await gateway.create({ model, input: ECHO, tools });
    expect(output).toMatchObject([{ type: 'mcp_list_tools', tools: [] }, { type: 'message' }]);
  });
});

describe('a hidden server', () => {
  const input = 'pid with the arguments {}';

  it('runs its tools without a list, an item or an echo; its label and tool names are nowhere', async () => {
    let events: WireEvent[] = [];
    const sent = await gateway.sentDuring(async () => {
      events = await gateway.stream({ model, input });
    });
    expect(sent).toHaveLength(2);
    expect(typesOf(endOf(events).output)).toEqual(['message']);
    expect(JSON.stringify(events)).not.toMatch(/secret|pid/);
  });

  it('is absent from the echoed tools and from the errors of its tools', async () => {
    const failing = await gateway.create({ model, input: 'fail with the arguments {}', tools: [ASK] });
    expect(typesOf(failing.output)).toEqual(['message']);
    expect(failing.tools).toMatchObject([{ type: 'function', name: 'ask' }]);
    expect(JSON.stringify(failing)).not.toMatch(/secret|"fail"|disk full/);
  });

  it('leaves a function of the user with the same name visible', async () => {
    const tools = [{ type: 'function', name: 'pid', parameters: { type: 'object', properties: {} } }];
    const { output } = await gateway.create({ model, input, tools });
    expect(output).toMatchObject([{ type: 'function_call', name: 'pid' }]);
  });
});

describe('the stream', () => {
  it('numbers its events from 0, ends with [DONE], and has one created and one completed for all turns', async () => {
    const answer = await gateway.send('POST', '', {
      model,
      input: `${ECHO} then ${ECHO}`,
      tools: [desk],
      stream: true,
    });
    const text = await answer.text();
    const events = parseStream(text);
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
    expect(events.map(event => event.sequence_number)).toEqual([...events.keys()]);
    const types = typesOf(events);
    expect(types.filter(type => /^response\.(created|completed)$/.test(type))).toHaveLength(2);
    expect(types.at(-1)).toBe('response.completed');
  });

  it('sums the usage of all turns', async () => {
    const one = await gateway.create({ model, input: 'hello' });
    const two = await gateway.create({ model, input: ECHO, tools: [desk] });
    const tokens = ({ usage }: JsonObject) => (usage as { total_tokens: number }).total_tokens;
    expect(tokens(two)).toBe(2 * tokens(one));
  });

  it('has for a list: added without tools, in_progress, completed, done with the tools', async () => {
    const events = await gateway.stream({ model, input: 'hello', tools: [desk] });
    const items = events.filter(event => event.output_index === 0 && event.item !== undefined);
    expect(items.map(({ item }) => (item as { tools: unknown[] }).tools.length > 0)).toEqual([false, true]);
    expect(eventsOf(events, 0)).toEqual([
      'output_item.added',
      'mcp_list_tools.in_progress',
      'mcp_list_tools.completed',
      'output_item.done',
    ]);
  });

  it('has for an MCP call: added in progress without arguments, then those, its end, done with the output', async () => {
    const events = await gateway.stream({
      model,
      input: `${ECHO} and fail with the arguments {}`,
      tools: [desk],
    });
    const common = [
      'output_item.added',
      'mcp_call.in_progress',
      'mcp_call_arguments.delta',
      'mcp_call_arguments.done',
    ];
    expect(eventsOf(events, 1)).toEqual([...common, 'mcp_call.completed', 'output_item.done']);
    expect(eventsOf(events, 2)).toEqual([...common, 'mcp_call.failed', 'output_item.done']);
    const items = events.flatMap(event => (event.output_index === 1 && event.item ? [event.item] : []));
    expect(items).toMatchObject([
      { status: 'in_progress', arguments: '', output: null },
      { status: 'completed', arguments: '{"text":"hi"}', output: '{"text":"hi"}' },
    ]);
  });

  it('has for a function: added, arguments, done', async () => {
    const events = await gateway.stream({ model, input: 'ask with the arguments {}', tools: [ASK] });
    expect(eventsOf(events, 0)).toEqual([
      'output_item.added',
      'function_call_arguments.delta',
      'function_call_arguments.done',
      'output_item.done',
    ]);
  });

  it('has for an approval request: added and done, with the same item', async () => {
    const tools = [server('desk', { require_approval: 'always' })];
    const events = await gateway.stream({ model, input: ECHO, tools });
    expect(eventsOf(events, 1)).toEqual(['output_item.added', 'output_item.done']);
    const [added, done] = events.filter(event => event.output_index === 1);
    expect(added?.item).toEqual(done?.item);
  });

  it('has for an approved call: added with the request, in_progress, arguments, the end, done, then the model', async () => {
    const tools = [server('desk', { require_approval: 'always' })];
    const asked = await gateway.create({ model, input: ECHO, tools });
    const approval_request_id = asked.output.at(-1)?.id;
    const events = await gateway.stream({
      model,
      tools,
      previous_response_id: asked.id,
      input: [{ type: 'mcp_approval_response', approval_request_id, approve: true }],
    });
    const added = events.find(({ type }) => type === 'response.output_item.added');
    expect(added?.item).toMatchObject({ type: 'mcp_call', approval_request_id });
    expect(eventsOf(events, 0)).toEqual([
      'output_item.added',
      'mcp_call.in_progress',
      'mcp_call_arguments.delta',
      'mcp_call_arguments.done',
      'mcp_call.completed',
      'output_item.done',
    ]);
    expect(endOf(events).output[1]?.type).toBe('message');
  });

  it('has for a text: added, part added, deltas, text done, part done, done', async () => {
    const events = await gateway.stream({ model, input: 'hello' });
    expect(eventsOf(events, 0)).toEqual([
      'output_item.added',
      'content_part.added',
      'output_text.delta',
      'output_text.done',
      'content_part.done',
      'output_item.done',
    ]);
  });
});
