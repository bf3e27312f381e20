import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../protocol/json.ts';
import { calling, endOf, Gateway, type Item } from '../../support/responses/gateway.ts';

const DESK = { type: 'mcp', server_label: 'desk' };
const ECHO = { type: 'function', name: 'echo', parameters: { type: 'object', properties: {} } };
const twelve = Array.from({ length: 12 }, () => ({ name: 'echo', arguments: { text: 'x' } }));

let gateway: Gateway;

beforeAll(() => {
  gateway = new Gateway(
    {
      greedy: [{ toolCalls: twelve }, { text: 'That was enough.' }],
      handed: [{ toolCalls: Array.from({ length: 12 }, () => ({ name: 'echo' })) }, { text: 'All.' }],
      endless: [calling('pid'), calling('pid'), calling('pid'), { text: 'End.' }],
      mixed: [calling('pid'), calling('echo', { text: 'x' }), { text: 'End.' }],
      forever: [...Array.from({ length: 14 }, () => calling('pid')), { text: 'End.' }],
    },
    {
      config: folder => ({
        mcp_servers: {
          desk: folder.server({ require_approval: 'never' }),
          strict: folder.server({ require_approval: 'always' }),
        },
      }),
    },
  );
});
afterAll(() => gateway.close());

function approving(request: Item | undefined): JsonObject {
  return { type: 'mcp_approval_response', approval_request_id: request?.id ?? '', approve: true };
}

describe('the budget of tool calls', () => {
  it('is ten or a lower limit of the request; the response is completed and reports why it stopped', async () => {
    const ten = await gateway.create({ model: 'greedy', input: 'go', tools: [DESK], max_tool_calls: 50 });
    expect(ten).toMatchObject({
      status: 'completed',
      incomplete_details: { reason: 'max_tool_calls' },
      max_tool_calls: 50,
    });
    const calls = ten.output.filter(({ type }) => type === 'mcp_call');
    expect(calls.filter(({ status }) => status === 'completed')).toHaveLength(10);
    expect(calls.filter(({ status }) => status === 'failed')).toHaveLength(2);
    expect(ten.output.at(-1)).toMatchObject({ content: [{ text: 'That was enough.' }] });
    const two = await gateway.create({ model: 'greedy', input: 'go', tools: [DESK], max_tool_calls: 2 });
    expect(
      two.output.filter(({ status, type }) => type === 'mcp_call' && status === 'completed'),
    ).toHaveLength(2);
    expect(two.incomplete_details).toEqual({ reason: 'max_tool_calls' });
  });

  it('of zero runs no call', async () => {
    const none = await gateway.create({ model: 'greedy', input: 'go', tools: [DESK], max_tool_calls: 0 });
    expect(none).toMatchObject({ status: 'completed', incomplete_details: { reason: 'max_tool_calls' } });
    const calls = none.output.filter(({ type }) => type === 'mcp_call');
    expect(new Set(calls.map(({ status }) => status))).toEqual(new Set(['failed']));
  });

  it('is streamed as completed, then [DONE]', async () => {
    const events = await gateway.stream({ model: 'greedy', input: 'go', tools: [DESK], max_tool_calls: 1 });
    expect(events.at(-1)?.type).toBe('response.completed');
    expect(endOf(events).incomplete_details).toEqual({ reason: 'max_tool_calls' });
  });

  it('does not count calls of client functions', async () => {
    const response = await gateway.create({ model: 'handed', input: 'go', tools: [ECHO], max_tool_calls: 1 });
    expect(response.output).toHaveLength(12);
    expect(response.incomplete_details).toBeNull();
  });

  it('counts approved calls and approval requests; each response has its own budget', async () => {
    const tools = [{ ...DESK, server_label: 'strict' }];
    let response = await gateway.create({ model: 'endless', input: 'go', tools, max_tool_calls: 1 });
    for (const _ of [1, 2, 3]) {
      const request = response.output.at(-1);
      expect(request?.type).toBe('mcp_approval_request');
      response = await gateway.create({
        model: 'endless',
        tools,
        max_tool_calls: 2,
        previous_response_id: response.id,
        input: [{ type: 'mcp_approval_response', approval_request_id: request?.id, approve: true }],
      });
      expect(response.output[0]).toMatchObject({ type: 'mcp_call' });
    }
    expect(response.output.at(-1)).toMatchObject({ content: [{ text: 'End.' }] });
    expect(response.incomplete_details).toBeNull();
  });

  it.each([
    { most: 0, ran: 0 },
    { most: 1, ran: 1 },
    { most: 2, ran: 2 },
  ])('of $most in a continuation runs $ran calls, including the approved one', async ({ most, ran }) => {
    const tools = [{ ...DESK, require_approval: { always: { tool_names: ['pid'] } } }];
    const asked = await gateway.create({ model: 'mixed', input: 'go', tools });
    const done = await gateway.create({
      model: 'mixed',
      tools,
      max_tool_calls: most,
      previous_response_id: asked.id,
      input: [approving(asked.output.at(-1))],
    });
    const calls = done.output.filter(({ type }) => type === 'mcp_call');
    expect(calls.map(({ status }) => status === 'completed')).toEqual([most > 0, most > 1]);
    expect(calls.filter(({ status }) => status === 'completed')).toHaveLength(ran);
    expect(done.incomplete_details).toEqual(most === 2 ? null : { reason: 'max_tool_calls' });
    expect(done.output.at(-1)).toMatchObject({ content: [{ text: 'End.' }] });
    if (most === 0) expect(JSON.stringify(calls[0]?.error)).toMatch(/approved, but .* limit of 0 tool calls/);
    expect(JSON.stringify(calls)).not.toContain('rejected');
    expect(await gateway.get(done.id)).toEqual(done);
    const again = await gateway.create({
      model: 'mixed',
      tools,
      max_tool_calls: most,
      previous_response_id: asked.id,
      input: [approving(asked.output.at(-1))],
    });
    expect(again).toEqual(done);
  });

  it('is shared by continuations that only approve calls', async () => {
    const tools = [{ ...DESK, server_label: 'strict' }];
    let response = await gateway.create({ model: 'forever', input: 'go', tools });
    let approvals = 0;
    for (; response.output.at(-1)?.type === 'mcp_approval_request'; approvals += 1) {
      response = await gateway.create({
        model: 'forever',
        tools,
        previous_response_id: response.id,
        input: [approving(response.output.at(-1))],
      });
    }
    expect(approvals).toBe(10);
    expect(response.incomplete_details).toEqual({ reason: 'max_tool_calls' });
  });
});
