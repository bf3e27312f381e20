/**
 * The invariants of the gateway that this one was built after: its loop, its budget and what it sends to the model.
 * A title that begins with "differs" names a deliberate difference.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type JsonObject, omitUndefined } from '../../../../protocol/json.ts';
import { UPSTREAMS, Upstream } from '../../../support/messages/upstream.ts';
import { endOf, Gateway, typesOf } from '../../../support/responses/gateway.ts';
import {
  ASK,
  ECHO,
  messageList,
  messagesOf,
  ObedientGateway,
  server,
} from '../../../support/responses/obedient-gateway.ts';

let gateway: ObedientGateway;
beforeAll(async () => {
  gateway = await ObedientGateway.start();
});
afterAll(() => gateway.close());

const model = 'obedient';
const free = server('desk', { require_approval: 'never' });
const strict = server('annex', { require_approval: 'always' });
const BOTH = `${ECHO} and ask with the arguments {"what":"x"}`;

describe('the order of the loop', () => {
  it('a refused approval is an error before any event', async () => {
    const input = [{ type: 'mcp_approval_response', approval_request_id: 'mcpr_none', approve: true }];
    const answer = await gateway.send('POST', '', { model, input, tools: [strict], stream: true });
    expect(answer.status).toBe(400);
    expect(answer.headers.get('content-type')).toContain('application/json');
  });

  it('created and in_progress come first, then the list of each server, then the turns', async () => {
    const events = await gateway.stream({ model, input: ECHO, tools: [free] });
    expect(typesOf(events).slice(0, 3)).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
    ]);
    expect(typesOf(endOf(events).output)).toEqual(['mcp_list_tools', 'mcp_call', 'message']);
  });

  it('a turn without calls ends the response', async () => {
    const sent = await gateway.sentDuring(() => gateway.create({ model, input: 'hello', tools: [free] }));
    expect(sent).toHaveLength(1);
  });

  it('after executed tools the model is called again', async () => {
    const sent = await gateway.sentDuring(() =>
      gateway.create({ model, input: `${ECHO} then ${ECHO}`, tools: [free] }),
    );
    expect(sent).toHaveLength(3);
  });

  it('only gated calls interrupt for approval, without running', async () => {
    const { output, status } = await gateway.create({ model, input: ECHO, tools: [strict] });
    expect(status).toBe('completed');
    expect(typesOf(output)).toEqual(['mcp_list_tools', 'mcp_approval_request']);
  });

  it('ungated calls of a turn run at once, the gated ones wait until they have', async () => {
    const input = 'echo with the arguments {"text":"a"} and mcp_annex_pid with the arguments {}';
    const tools = [
      server('desk', { require_approval: 'never', allowed_tools: ['echo', 'pid'] }),
      server('annex', { require_approval: 'always', allowed_tools: ['pid'] }),
    ];
    const { output } = await gateway.create({ model, input, tools });
    expect(typesOf(output)).toEqual(['mcp_list_tools', 'mcp_list_tools', 'mcp_call', 'mcp_approval_request']);
  });

  it('differs: all gated calls of a turn are asked for, not only the first', async () => {
    const { output } = await gateway.create({ model, input: `${ECHO} and ${ECHO}`, tools: [strict] });
    expect(typesOf(output)).toEqual(['mcp_list_tools', 'mcp_approval_request', 'mcp_approval_request']);
  });

  it('differs: gated calls and functions of one turn are asked for together, so that a client can answer both', async () => {
    const input = `${ECHO} and mcp_annex_pid with the arguments {} and ask with the arguments {}`;
    const tools = [{ ...free, allowed_tools: ['echo', 'pid'] }, { ...strict, allowed_tools: ['pid'] }, ASK];
    const asked = await gateway.create({ model, input, tools });
    expect(typesOf(asked.output).slice(2)).toEqual(['mcp_call', 'mcp_approval_request', 'function_call']);
    const [, request, call] = asked.output.slice(2);
    const done = await gateway.create({
      model,
      tools,
      previous_response_id: asked.id,
      input: [
        { type: 'mcp_approval_response', approval_request_id: request?.id, approve: true },
        { type: 'function_call_output', call_id: call?.call_id, output: 'x' },
      ],
    });
    expect(typesOf(done.output)).toEqual(['mcp_call', 'message']);
  });

  it('in a mixed turn the gateway runs its tools, then ends with the function calls and no further model call', async () => {
    let types: string[] = [];
    const sent = await gateway.sentDuring(async () => {
      types = typesOf((await gateway.create({ model, input: BOTH, tools: [free, ASK] })).output);
    });
    expect(types).toEqual(['mcp_list_tools', 'mcp_call', 'function_call']);
    expect(sent).toHaveLength(1);
  });

  it('functions that the caller declares are never run', async () => {
    const input = 'ask with the arguments {"what":"x"}';
    const { output } = await gateway.create({ model, input, tools: [ASK] });
    expect(output).toMatchObject([{ type: 'function_call', name: 'ask', arguments: '{"what":"x"}' }]);
  });
});

describe('the budget', () => {
  const calls = (count: number) => Array.from({ length: count }, () => ECHO).join(' and ');
  const ran = (output: readonly JsonObject[]) =>
    output.filter(({ type, status }) => type === 'mcp_call' && status === 'completed').length;

  it('is the smaller of max_tool_calls and ten', async () => {
    const many = await gateway.create({ model, input: calls(12), tools: [free], max_tool_calls: 50 });
    const two = await gateway.create({ model, input: calls(3), tools: [free], max_tool_calls: 2 });
    expect([ran(many.output), ran(two.output)]).toEqual([10, 2]);
  });

  it('counts only tools that the gateway runs', async () => {
    const input = 'ask with the arguments {} and ask with the arguments {}';
    const response = await gateway.create({ model, input, tools: [ASK], max_tool_calls: 1 });
    expect(response.output).toHaveLength(2);
    expect(response.incomplete_details).toBeNull();
  });

  it('counts the approved call of a continuation, which has a counter of its own', async () => {
    const body = { model, tools: [strict], max_tool_calls: 1 };
    const asked = await gateway.create({ ...body, input: `${ECHO} then ${ECHO}` });
    const done = await gateway.create({
      ...body,
      previous_response_id: asked.id,
      input: [{ type: 'mcp_approval_response', approval_request_id: asked.output.at(-1)?.id, approve: true }],
    });
    expect(ran(done.output)).toBe(1);
    expect(done.incomplete_details).toEqual({ reason: 'max_tool_calls' });
  });

  it('when it is used up the response is completed, says max_tool_calls, and shows what did not run as failed', async () => {
    const events = await gateway.stream({ model, input: calls(2), tools: [free], max_tool_calls: 1 });
    const response = endOf(events);
    expect(events.at(-1)?.type).toBe('response.completed');
    expect(response).toMatchObject({
      status: 'completed',
      incomplete_details: { reason: 'max_tool_calls' },
    });
    const [skipped] = response.output.filter(({ status }) => status === 'failed');
    expect(skipped).toMatchObject({ type: 'mcp_call', error: expect.any(String), output: null });
  });

  it('when it is used up the model answers from what it has', async () => {
    const { output } = await gateway.create({ model, input: calls(2), tools: [free], max_tool_calls: 1 });
    expect(output.at(-1)).toMatchObject({ type: 'message', status: 'completed' });
  });
});

describe('the budget that is used up', () => {
  it('clears the gated calls of the turn: nothing asks for approval, and the model is called', async () => {
    const input = `${ECHO} and mcp_annex_pid with the arguments {}`;
    const tools = [
      { ...free, allowed_tools: ['echo', 'pid'] },
      { ...strict, allowed_tools: ['pid'] },
    ];
    const { output, incomplete_details } = await gateway.create({ model, input, tools, max_tool_calls: 1 });
    expect(typesOf(output).slice(2)).toEqual(['mcp_call', 'mcp_call', 'message']);
    const ended = output.slice(2, 4).map(({ server_label, status }) => [server_label, status]);
    expect(Object.fromEntries(ended)).toEqual({ desk: 'completed', annex: 'failed' });
    expect(incomplete_details).toEqual({ reason: 'max_tool_calls' });
  });

  it('leaves one model call without a choice of tools, whose calls do not run', async () => {
    const before = gateway.folder.calls().length;
    const sent = await gateway.sentDuring(async () => {
      const input = `${ECHO} then ${ECHO} then ${ECHO}`;
      const { status } = await gateway.create({ model, input, tools: [free], max_tool_calls: 1 });
      expect(status).toBe('completed');
    });
    expect(sent.map(({ tool_choice: choice }) => choice ?? 'auto')).toEqual(['auto', 'auto', 'none']);
    expect(gateway.folder.calls()).toHaveLength(before + 1);
  });
});

it('differs: a loop that makes no progress ends as incomplete after 20 model calls, not with an error', async () => {
  const input = Array.from({ length: 30 }, () => 'echo with the arguments [1]').join(' then ');
  let status = '';
  const sent = await gateway.sentDuring(async () => {
    const response = await gateway.create({ model, input, tools: [free] });
    ({ status } = response);
    expect(response.incomplete_details).toEqual({ reason: 'max_turns' });
  });
  expect(status).toBe('incomplete');
  expect(sent).toHaveLength(21);
});

describe('what the model receives', () => {
  it.each([undefined, true, false])(
    'its calls themselves send store: false, no previous id and no conversation; the client sends store: %s',
    async store => {
      const upstream = await Upstream.listen();
      for (const [name, value] of Object.entries(upstream.environment)) vi.stubEnv(name, value);
      const call = { id: 'call_1', name: 'echo', arguments: '{"text":"hi"}' };
      upstream.play({ calls: [call] }, { text: 'Said.' }, { text: 'Bye.' });
      const provider = new Gateway({}, { config: folder => ({ mcp_servers: { desk: folder.server() } }) });
      const body = { model: UPSTREAMS.responses, tools: [free], ...omitUndefined({ store }) };
      const one = await provider.create({ ...body, input: 'hello' });
      expect(one).toMatchObject({ store: store ?? true, previous_response_id: null });
      if (store !== false) await provider.create({ ...body, input: 'bye', previous_response_id: one.id });
      for (const sent of upstream.requests) {
        expect(sent.store).toBe(false);
        expect(sent).not.toHaveProperty('previous_response_id');
        expect(sent).not.toHaveProperty('conversation');
      }
      expect(upstream.requests).toHaveLength(store === false ? 2 : 3);
      vi.unstubAllEnvs();
      await provider.close();
      await upstream.close();
    },
  );

  it('the choice of tools is auto from the second turn on, so that a forced call is not forced forever', async () => {
    const sent = await gateway.sentDuring(() =>
      gateway.create({ model, input: `${ECHO} then ${ECHO}`, tools: [free], tool_choice: 'required' }),
    );
    expect(sent.map(({ tool_choice: choice }) => choice ?? 'auto')).toEqual(['required', 'auto', 'auto']);
  });

  it('its input is the history and the turns of this request, call and result side by side', async () => {
    const [first, second] = await gateway.sentDuring(() =>
      gateway.create({ model, input: ECHO, tools: [free] }),
    );
    expect(messagesOf(first)).toEqual(['user']);
    expect(messagesOf(second)).toEqual(['user', 'assistant(echo)', 'tool']);
    expect(messageList(second).at(-1)).toMatchObject({
      role: 'tool',
      content: expect.stringContaining('hi'),
    });
  });

  it.each(['[1]', '{"text" 1}'])(
    'malformed arguments are not dispatched: the item fails, the model reads why, and the loop continues: %s',
    async written => {
      let output: JsonObject[] = [];
      const sent = await gateway.sentDuring(async () => {
        const input = `echo with the arguments ${written}`;
        ({ output } = await gateway.create({ model, input, tools: [free] }));
      });
      expect(output.slice(1)).toMatchObject([
        { type: 'mcp_call', status: 'failed', error: expect.stringContaining('object') },
        { type: 'message' },
      ]);
      expect(sent).toHaveLength(2);
    },
  );

  it('MCP tools are plain functions to it', async () => {
    const [first] = await gateway.sentDuring(() => gateway.create({ model, input: 'hello', tools: [free] }));
    expect(first?.tools).toContainEqual({
      type: 'function',
      function: expect.objectContaining({ name: 'echo' }),
    });
  });

  it('tools with the same name are mcp_LABEL_NAME to it, and keep their own name for the client', async () => {
    const tools = [free, server('annex', { require_approval: 'never' })];
    const input = 'mcp_annex_echo with the arguments {"text":"hi"}';
    const { output } = await gateway.create({ model, input, tools });
    expect(output.find(({ type }) => type === 'mcp_call')).toMatchObject({
      name: 'echo',
      server_label: 'annex',
    });
  });
});
