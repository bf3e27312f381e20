import { afterAll, describe, expect, it } from 'vitest';
import { memory } from '../../../../stores/memory.ts';
import { calling, Gateway, type Item, typesOf } from '../../../support/responses/gateway.ts';

/** Two servers over one store, as before and after a restart. What a request had is in the journal, not in a server. */
const store = memory();
const scripts = {
  desk: [calling('echo', { text: 'a' }), { text: 'One.' }, calling('echo', { text: 'b' }), { text: 'Two.' }],
  forever: Array.from({ length: 14 }, (_, at) => calling('echo', { text: String(at) })),
  secret: [calling('pid'), { text: 'Done.' }],
  ask: [calling('ask'), { text: 'Thanks.' }, { text: 'Bye.' }],
};
const one = new Gateway(scripts, {
  store,
  config: folder => ({
    mcp_servers: {
      desk: folder.server({ require_approval: 'always' }),
      free: folder.server({ require_approval: 'never' }),
      crm: folder.server({ hidden: true, allowed_tools: ['pid'] }),
    },
  }),
});
const two = new Gateway(scripts, {
  store,
  config: folder => ({
    mcp_servers: {
      desk: folder.server({ require_approval: 'always' }),
      free: folder.server({ require_approval: 'never' }),
    },
  }),
});
afterAll(async () => {
  await one.close();
  await two.close();
});

const DESK = { type: 'mcp', server_label: 'desk' };
const ASK = { type: 'function', name: 'ask', parameters: { type: 'object', properties: {} } };

function approving(request: Item | undefined): object {
  return { type: 'mcp_approval_response', approval_request_id: request?.id, approve: true };
}

describe('what a request had survives its server', () => {
  it('a pending approval is decided on another server, which lists the tools no second time', async () => {
    const asked = await one.create({ model: 'desk', input: 'go', tools: [DESK] });
    expect(typesOf(asked.output)).toEqual(['mcp_list_tools', 'mcp_approval_request']);
    const request = { model: 'desk', tools: [DESK], previous_response_id: asked.id };
    const done = await two.create({ ...request, input: [approving(asked.output.at(-1))] });
    expect(typesOf(done.output)).toEqual(['mcp_call', 'message']);
    const next = await two.create({
      model: 'desk',
      input: 'on',
      tools: [DESK],
      previous_response_id: done.id,
    });
    expect(typesOf(next.output)).toEqual(['mcp_approval_request']);
    expect(await one.create({ ...request, input: [approving(asked.output.at(-1))] })).toEqual(done);
    expect([one.folder.calls(), two.folder.calls()].map(calls => calls.includes('echo'))).toEqual([
      false,
      true,
    ]);
  });

  it('ten calls without an input of the client are the budget, whichever servers run them', async () => {
    let response = await one.create({ model: 'forever', input: 'go', tools: [DESK] });
    let approvals = 0;
    for (; response.output.at(-1)?.type === 'mcp_approval_request'; approvals += 1) {
      const server = approvals % 2 === 0 ? two : one;
      const request = { model: 'forever', tools: [DESK], previous_response_id: response.id };
      response = await server.create({ ...request, input: [approving(response.output.at(-1))] });
    }
    expect(approvals).toBe(10);
    expect(response.incomplete_details).toEqual({ reason: 'max_tool_calls' });
  });

  it('a call of a hidden server stays hidden where the server is not configured any more', async () => {
    const response = await one.create({ model: 'secret', input: 'go' });
    expect(typesOf(response.output)).toEqual(['message']);
    expect(one.folder.calls()).toContain('pid');
    expect(await two.get(response.id)).toEqual(response);
  });

  it('a fork lists the tools no second time', async () => {
    const free = { type: 'mcp', server_label: 'free' };
    const asked = await one.create({ model: 'ask', input: 'go', tools: [ASK, free] });
    expect(typesOf(asked.output)).toEqual(['mcp_list_tools', 'function_call']);
    const output = { type: 'function_call_output', call_id: asked.output.at(-1)?.call_id, output: 'yes' };
    const request = { model: 'ask', tools: [ASK, free], previous_response_id: asked.id, input: [output] };
    const first = await one.create(request);
    const fork = await two.create({ ...request, input: [{ ...output, output: 'no' }] });
    expect(fork.id).not.toContain(asked.id);
    for (const done of [first, fork]) expect(typesOf(done.output)).toEqual(['message']);
    const after = await one.create({
      model: 'ask',
      input: 'on',
      tools: [ASK, free],
      previous_response_id: fork.id,
    });
    expect(typesOf(after.output)).toEqual(['message']);
  });
});
