import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../../protocol/json.ts';
import {
  calling,
  endOf,
  Gateway,
  type Item,
  type Page,
  type Resource,
  typesOf,
} from '../../../support/responses/gateway.ts';

const TOOL = { type: 'mcp', server_label: 'desk', require_approval: 'always' };
const SAY = { reasoning: 'first I look', ...calling('echo', { text: 'hi' }) };
const USER = { role: 'user', content: 'Say hi.' };

let gateway: Gateway;

beforeAll(() => {
  gateway = new Gateway(
    {
      one: [SAY, { text: 'Said.' }, { text: 'Anything else?' }, { text: 'Bye.' }],
      two: [{ toolCalls: [...(SAY.toolCalls ?? []), { name: 'pid' }] }, { text: 'Both said.' }],
      free: [{ toolCalls: [{ name: 'pid' }, { name: 'echo', arguments: { text: 'x' } }] }, { text: 'Done.' }],
    },
    { config: folder => ({ mcp_servers: { desk: folder.server() } }) },
  );
});
afterAll(() => gateway.close());

function answer(request: Item | undefined, approve: boolean, more: JsonObject = {}): JsonObject {
  return { type: 'mcp_approval_response', approval_request_id: request?.id ?? '', approve, ...more };
}

async function ask(model = 'one', more: JsonObject = {}): Promise<{ asked: Resource; requests: Item[] }> {
  const asked = await gateway.create({ model, input: [USER], tools: [TOOL], ...more });
  return { asked, requests: asked.output.filter(({ type }) => type === 'mcp_approval_request') };
}

/** Sends items, or a message, after a response. */
function followUp(asked: Resource, input: JsonObject[] | string, model = 'one'): Promise<Resource> {
  return gateway.create({ model, tools: [TOOL], previous_response_id: asked.id, input });
}

function count(name: string): number {
  return gateway.folder.calls().filter(call => call === name).length;
}

describe('a call that needs approval', () => {
  it('completes the response with an approval request in place of the call', async () => {
    const before = count('echo');
    const { asked, requests } = await ask();
    expect(asked.status).toBe('completed');
    expect(typesOf(asked.output)).toEqual(['mcp_list_tools', 'reasoning', 'mcp_approval_request']);
    expect(requests).toEqual([
      {
        id: expect.stringMatching(/^mcpr_/),
        type: 'mcp_approval_request',
        server_label: 'desk',
        name: 'echo',
        arguments: '{"text":"hi"}',
      },
    ]);
    expect(count('echo')).toBe(before);
  });

  it('runs once after the approval, before the model is called again', async () => {
    const { asked, requests } = await ask();
    const events = await gateway.stream({
      model: 'one',
      tools: [TOOL],
      previous_response_id: asked.id,
      input: [answer(requests[0], true)],
    });
    const done = endOf(events);
    expect(typesOf(done.output)).toEqual(['mcp_call', 'message']);
    expect(done.output[0]).toEqual({
      id: expect.stringMatching(/^mcp_/),
      type: 'mcp_call',
      status: 'completed',
      approval_request_id: requests[0]?.id,
      server_label: 'desk',
      name: 'echo',
      arguments: '{"text":"hi"}',
      output: '{"text":"hi"}',
      error: null,
    });
    expect(done.previous_response_id).toBe(asked.id);
    expect(typesOf(events).slice(2, 8)).toEqual([
      'response.output_item.added',
      'response.mcp_call.in_progress',
      'response.mcp_call_arguments.delta',
      'response.mcp_call_arguments.done',
      'response.mcp_call.completed',
      'response.output_item.done',
    ]);
    expect(events[2]?.item).toMatchObject({ status: 'in_progress', approval_request_id: requests[0]?.id });
  });

  it('runs once when it is approved twice, and both requests get the same result', async () => {
    const { asked, requests } = await ask();
    const before = count('echo');
    const request = {
      model: 'one',
      tools: [TOOL],
      previous_response_id: asked.id,
      input: [answer(requests[0], true)],
    };
    const [first, second] = await Promise.all([gateway.create(request), gateway.create(request)]);
    const third = await gateway.stream(request);
    expect(second).toEqual(first);
    expect(endOf(third)).toEqual(first);
    expect(count('echo')).toBe(before + 1);
  });

  it('refuses the opposite decision afterwards', async () => {
    const { asked, requests } = await ask();
    const request = { model: 'one', tools: [TOOL], previous_response_id: asked.id };
    await gateway.create({ ...request, input: [answer(requests[0], false, { reason: 'not now' })] });
    const before = count('echo');
    const refused = await gateway.refused({ ...request, input: [answer(requests[0], true)] });
    expect(refused).toMatchObject({ status: 400, code: 'approval_already_decided' });
    expect(count('echo')).toBe(before);
  });

  it('does not run when it is denied: the model reads the reason', async () => {
    const { asked, requests } = await ask();
    const before = count('echo');
    const done = await followUp(asked, [answer(requests[0], false, { reason: 'not now' })]);
    expect(typesOf(done.output)).toEqual(['message']);
    expect(count('echo')).toBe(before);
    const run = await gateway.run(asked);
    expect(run.transcript).toContainEqual(
      expect.objectContaining({ type: 'tool_result', output: expect.stringContaining('not now') }),
    );
  });

  it('stays in the history of later turns', async () => {
    const { asked, requests } = await ask();
    const approved = await followUp(asked, [answer(requests[0], true)]);
    const before = count('echo');
    const third = await followUp(approved, 'Thanks.');
    expect(third.output).toMatchObject([{ type: 'message', content: [{ text: 'Anything else?' }] }]);
    const again = await followUp(third, [answer(requests[0], true), { role: 'user', content: 'And now?' }]);
    expect(again.output).toMatchObject([{ type: 'message', content: [{ text: 'Bye.' }] }]);
    expect(count('echo')).toBe(before);
  });

  it('is superseded by a message sent without a decision', async () => {
    const { asked } = await ask();
    const before = count('echo');
    const done = await followUp(asked, 'Never mind.');
    expect(done.output).toMatchObject([{ type: 'message', content: [{ text: 'Said.' }] }]);
    expect(count('echo')).toBe(before);
  });

  it('is decided together with a message of the same request', async () => {
    const { asked, requests } = await ask();
    const done = await followUp(asked, [
      answer(requests[0], true),
      { role: 'user', content: 'And be quick.' },
    ]);
    expect(typesOf(done.output)).toEqual(['mcp_call', 'message']);
    const listed = await gateway.read<Page>(`/${done.id}/input_items?order=asc`);
    expect(typesOf(listed.data)).toEqual(['mcp_approval_response', 'message']);
  });
});

describe('several calls that need approval', () => {
  it('are requested together and decided separately in one request', async () => {
    const { asked, requests } = await ask('two');
    expect(requests.map(({ name }) => name)).toEqual(['echo', 'pid']);
    const done = await followUp(asked, [answer(requests[1], true), answer(requests[0], false)], 'two');
    expect(done.output).toMatchObject([{ type: 'mcp_call', name: 'pid' }, { type: 'message' }]);
  });

  it('are requested again while one of them is undecided', async () => {
    const { asked, requests } = await ask('two');
    const half = await followUp(asked, [answer(requests[0], true)], 'two');
    expect(typesOf(half.output)).toEqual(['mcp_call', 'mcp_approval_request']);
    expect(half.output[1]).toEqual(requests[1]);
    const done = await followUp(half, [answer(requests[1], true)], 'two');
    expect(typesOf(done.output)).toEqual(['mcp_call', 'message']);
    expect((await gateway.get(half.id)).output).toEqual(half.output);
  });

  it('wait while the calls that need no approval run', async () => {
    const policy = { ...TOOL, require_approval: { never: { tool_names: ['pid'] } } };
    const asked = await gateway.create({ model: 'free', input: 'go', tools: [policy] });
    expect(asked.output.map(({ type, name }) => name ?? type)).toEqual(['mcp_list_tools', 'pid', 'echo']);
    expect(typesOf(asked.output)).toEqual(['mcp_list_tools', 'mcp_call', 'mcp_approval_request']);
  });
});

describe('a decision without previous_response_id', () => {
  it('resumes the run of the approval request that the client sends back with it', async () => {
    const { asked, requests } = await ask();
    const input = [USER, ...asked.output, answer(requests[0], true)];
    const done = await gateway.create({ model: 'one', tools: [TOOL], input });
    expect(typesOf(done.output)).toEqual(['mcp_call', 'message']);
    expect(done.id).toContain(asked.id);
  });

  it('resumes the run of the approval request that an item_reference names', async () => {
    const { asked, requests } = await ask();
    const reference = { type: 'item_reference', id: requests[0]?.id ?? '' };
    const done = await gateway.create({
      model: 'one',
      tools: [TOOL],
      input: [USER, reference, answer(requests[0], true)],
    });
    expect(typesOf(done.output)).toEqual(['mcp_call', 'message']);
    expect(done.id).toContain(asked.id);
  });

  it('is history once later messages follow it', async () => {
    const { asked, requests } = await ask();
    const input = [USER, ...asked.output, answer(requests[0], true)];
    const done = await gateway.create({ model: 'one', tools: [TOOL], input });
    const before = count('echo');
    const next = await gateway.create({
      model: 'one',
      tools: [TOOL],
      input: [...input, ...done.output, { role: 'user', content: 'Thanks.' }],
    });
    expect(next.output).toMatchObject([{ type: 'message', content: [{ text: 'Anything else?' }] }]);
    expect(count('echo')).toBe(before);
  });

  it('is refused as an orphan without the approval request, before anything is streamed', async () => {
    const { requests } = await ask();
    const input = [USER, answer(requests[0], true)];
    const refused = await gateway.refused({ model: 'one', tools: [TOOL], input, stream: true });
    expect(refused).toMatchObject({
      status: 400,
      type: 'invalid_request_error',
      code: 'approval_continuation_invalid',
      param: 'input',
      message: expect.stringContaining("have approval responses but weren't passed as input"),
    });
    const unknown = { type: 'mcp_approval_request', id: 'mcpr_x', server_label: 'desk', name: 'echo' };
    const made = await gateway.refused({
      model: 'one',
      tools: [TOOL],
      input: [USER, { ...unknown, arguments: '{}' }, answer({ ...unknown }, true)],
    });
    expect(made).toMatchObject({ status: 400, code: 'approval_continuation_invalid' });
  });

  it('is refused without the tool that it approves', async () => {
    const { asked, requests } = await ask();
    const refused = await gateway.refused({
      model: 'one',
      previous_response_id: asked.id,
      input: [answer(requests[0], true)],
    });
    expect(refused).toMatchObject({
      status: 400,
      code: 'approval_continuation_invalid_tool',
      param: 'tools',
    });
  });

  it('works for a response that is not stored if the client sends the approval request back', async () => {
    const { asked, requests } = await ask('one', { store: false });
    expect((await gateway.send('GET', `/${asked.id}`)).status).toBe(404);
    const orphan = await gateway.refused({
      model: 'one',
      tools: [TOOL],
      store: false,
      input: [USER, answer(requests[0], true)],
    });
    expect(orphan.code).toBe('approval_continuation_invalid');
    const input = [USER, ...asked.output, answer(requests[0], true)];
    const done = await gateway.create({ model: 'one', tools: [TOOL], store: false, input });
    expect(typesOf(done.output)).toEqual(['mcp_call', 'message']);
  });
});

it('a decision that is sent again with new items after its result is history', async () => {
  const { asked, requests } = await ask();
  const approved = answer(requests[0], true);
  const known = { model: 'one', tools: [TOOL] };
  const done = await gateway.create({ ...known, previous_response_id: asked.id, input: [approved] });
  const before = count('echo');
  const next = await gateway.create({
    ...known,
    previous_response_id: done.id,
    input: [approved, USER],
  });
  expect(next.output).toMatchObject([{ type: 'message', content: [{ text: 'Anything else?' }] }]);
  expect(count('echo')).toBe(before);
});

it('a decision on an approval request of a deleted response is an orphan', async () => {
  const { asked, requests } = await ask();
  await gateway.send('DELETE', `/${asked.id}`);
  const input = [USER, ...asked.output, answer(requests[0], true)];
  const refused = await gateway.refused({ model: 'one', tools: [TOOL], input });
  expect(refused).toMatchObject({ status: 400, code: 'approval_continuation_invalid' });
});

it('calls over the budget are shown as failed calls, next to the approval requests for calls within it', async () => {
  const { asked, requests } = await ask('two', { max_tool_calls: 1 });
  expect(asked).toMatchObject({
    status: 'completed',
    incomplete_details: { reason: 'max_tool_calls' },
  });
  expect(requests).toHaveLength(1);
  const unasked = asked.output.find(({ type }) => type === 'mcp_call');
  expect(unasked).toMatchObject({ name: 'pid', status: 'failed', approval_request_id: null });
  expect(await gateway.get(asked.id)).toEqual(asked);
  const done = await followUp(asked, [answer(requests[0], true)], 'two');
  expect(done.incomplete_details).toBeNull();
  expect(await gateway.get(done.id)).toEqual(done);
});

it('a decision made on the server page counts, and the next request shows its result', async () => {
  const { asked, requests } = await ask();
  expect(await gateway.tell(asked, 'approve', { callId: 'call_0_0' })).toBe(200);
  await expect.poll(async () => (await gateway.run(asked)).status).toBe('finished');
  expect(await gateway.get(asked.id)).toEqual(asked);
  const told = await followUp(asked, [answer(requests[0], true)]);
  expect(typesOf(told.output)).toEqual(['mcp_call', 'message']);
});
