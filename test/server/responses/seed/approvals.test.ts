/** The invariants of approvals, of the gateway that this one was built after. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../../protocol/json.ts';
import { endOf, type Item, type Resource, typesOf } from '../../../support/responses/gateway.ts';
import {
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
const tools = [server('desk', { require_approval: 'always' })];
const TWO = `${ECHO} and ${ECHO}`;

async function ask(input = ECHO): Promise<{ asked: Resource; requests: Item[] }> {
  const asked = await gateway.create({ model, input, tools });
  return { asked, requests: asked.output.filter(({ type }) => type === 'mcp_approval_request') };
}

function decide(request: Item | undefined, approve: boolean, more: JsonObject = {}): JsonObject {
  return { type: 'mcp_approval_response', approval_request_id: request?.id ?? '', approve, ...more };
}

function calls({ output }: Resource): Item[] {
  return output.filter(({ type }) => type === 'mcp_call');
}

describe('when approval is needed', () => {
  it.each<[string, JsonObject, boolean]>([
    ['always asks', { require_approval: 'always' }, true],
    ['never does not ask', { require_approval: 'never' }, false],
    ['differs: without a policy a call asks, as at OpenAI', {}, true],
    [
      'the object form asks for the named tools',
      { require_approval: { always: { tool_names: ['echo'] } } },
      true,
    ],
    [
      'the object form lets the named tools run',
      { require_approval: { never: { tool_names: ['echo'] } } },
      false,
    ],
  ])('%s', async (_, policy, asks) => {
    const { output } = await gateway.create({ model, input: ECHO, tools: [server('desk', policy)] });
    expect(output[1]?.type).toBe(asks ? 'mcp_approval_request' : 'mcp_call');
  });
});

describe('the approval request', () => {
  it('has an id, a server, a name and arguments, and no status', async () => {
    const { requests } = await ask();
    expect(requests).toEqual([
      {
        type: 'mcp_approval_request',
        id: expect.stringMatching(/^mcpr_/),
        server_label: 'desk',
        name: 'echo',
        arguments: '{"text":"hi"}',
      },
    ]);
  });

  it('ends a completed response without any mcp_call or function_call, also when it is streamed', async () => {
    const events = await gateway.stream({ model, input: ECHO, tools });
    const response = endOf(events);
    expect(response.status).toBe('completed');
    expect(typesOf(response.output)).toEqual(['mcp_list_tools', 'mcp_approval_request']);
    expect(JSON.stringify(events)).not.toMatch(/mcp_call|function_call/);
  });
});

describe('a continuation', () => {
  it('may consist of approval responses alone', async () => {
    const { asked, requests } = await ask();
    const input = [decide(requests[0], true)];
    const done = await gateway.create({ model, tools, previous_response_id: asked.id, input });
    expect(typesOf(done.output)).toEqual(['mcp_call', 'message']);
  });

  it('finds its request in the input, if the history is sent by hand', async () => {
    const { asked, requests } = await ask();
    const input = [{ role: 'user', content: ECHO }, ...asked.output, decide(requests[0], true)];
    const done = await gateway.create({ model, tools, input });
    expect(typesOf(done.output)).toEqual(['mcp_call', 'message']);
  });

  it('approved, runs the call before any model call, with its name and arguments, and names the request', async () => {
    const { asked, requests } = await ask();
    const input = [decide(requests[0], true)];
    let done = asked;
    const sent = await gateway.sentDuring(async () => {
      done = await gateway.create({ model, tools, previous_response_id: asked.id, input });
    });
    expect(calls(done)).toMatchObject([
      { name: 'echo', arguments: '{"text":"hi"}', approval_request_id: requests[0]?.id, status: 'completed' },
    ]);
    expect(sent).toHaveLength(1);
    expect(messagesOf(sent[0])).toEqual(['user', 'assistant(echo)', 'tool']);
  });

  it('approved, tells the model nothing of the approval', async () => {
    const { asked, requests } = await ask();
    const input = [decide(requests[0], true, { reason: 'looks fine to me' })];
    const sent = await gateway.sentDuring(() =>
      gateway.create({ model, tools, previous_response_id: asked.id, input }),
    );
    expect(JSON.stringify(sent)).not.toMatch(/approv|looks fine/i);
  });

  it('denied, gives the model the call and a result with the reason, and calls it', async () => {
    const { asked, requests } = await ask();
    const input = [decide(requests[0], false, { reason: 'not today' })];
    let done = asked;
    const sent = await gateway.sentDuring(async () => {
      done = await gateway.create({ model, tools, previous_response_id: asked.id, input });
    });
    expect(calls(done)).toEqual([]);
    expect(messagesOf(sent[0])).toEqual(['user', 'assistant(echo)', 'tool']);
    expect(messageList(sent[0]).at(-1)?.content).toMatch(/rejected.*not today/);
  });

  it('denied without a reason, gives the model a result that says so', async () => {
    const { asked, requests } = await ask();
    const input = [decide(requests[0], false)];
    const [sent] = await gateway.sentDuring(() =>
      gateway.create({ model, tools, previous_response_id: asked.id, input }),
    );
    expect(messageList(sent).at(-1)?.content).toMatch(/rejected\.$/);
  });

  it('may approve one call and deny another', async () => {
    const { asked, requests } = await ask(TWO);
    const input = [decide(requests[0], true), decide(requests[1], false)];
    const done = await gateway.create({ model, tools, previous_response_id: asked.id, input });
    expect(calls(done)).toMatchObject([{ approval_request_id: requests[0]?.id }]);
  });

  it('takes the first response for a request', async () => {
    const { asked, requests } = await ask();
    const input = [decide(requests[0], false), decide(requests[0], true)];
    const done = await gateway.create({ model, tools, previous_response_id: asked.id, input });
    expect(calls(done)).toEqual([]);
  });

  it('without its request is refused: approval_continuation_invalid', async () => {
    const input = [{ type: 'mcp_approval_response', approval_request_id: 'mcpr_x', approve: true }];
    expect(await gateway.refused({ model, tools, input })).toMatchObject({
      status: 400,
      type: 'invalid_request_error',
      code: 'approval_continuation_invalid',
      message: expect.stringContaining("have approval responses but weren't passed as input"),
    });
  });

  it.each<[string, JsonObject[]]>([
    ['the server is missing', []],
    ['the tool is not allowed', [server('desk', { allowed_tools: ['pid'] })]],
  ])('in a request where %s is refused: approval_continuation_invalid_tool', async (_, other) => {
    const { asked, requests } = await ask();
    const refused = await gateway.refused({
      model,
      tools: other,
      previous_response_id: asked.id,
      input: [decide(requests[0], true)],
    });
    expect(refused).toMatchObject({ status: 400, code: 'approval_continuation_invalid_tool' });
  });

  it('that was settled does not run again in later turns, by reference or by hand', async () => {
    const { asked, requests } = await ask();
    const approval = decide(requests[0], true);
    const done = await gateway.create({ model, tools, previous_response_id: asked.id, input: [approval] });
    const next = { role: 'user', content: 'hello' };
    const chained = await gateway.create({ model, tools, previous_response_id: done.id, input: [next] });
    const byHand = [{ role: 'user', content: ECHO }, ...asked.output, approval, ...done.output, next];
    const stitched = await gateway.create({ model, tools, input: byHand });
    expect([...calls(chained), ...calls(stitched)]).toEqual([]);
  });

  it('denied and settled is not asked again in later turns', async () => {
    const { asked, requests } = await ask();
    const denied = decide(requests[0], false);
    const done = await gateway.create({ model, tools, previous_response_id: asked.id, input: [denied] });
    const next = { role: 'user', content: 'hello' };
    const byHand = [{ role: 'user', content: ECHO }, ...asked.output, denied, ...done.output, next];
    const stitched = await gateway.create({ model, tools, input: byHand });
    expect(typesOf(stitched.output)).toEqual(['message']);
  });
});
