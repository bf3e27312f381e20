/** A turn that calls an ungated MCP tool, functions of the client and a gated MCP tool, continued in every way. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { JsonObject } from '../../../../protocol/json.ts';
import { endOf, type Item, type Resource, typesOf } from '../../../support/responses/gateway.ts';
import { ASK, messagesOf, ObedientGateway, server } from '../../../support/responses/obedient-gateway.ts';

let gateway: ObedientGateway;
beforeAll(async () => {
  gateway = await ObedientGateway.start();
});
afterAll(() => gateway.close());

const model = 'obedient';
const TURN =
  'pid with the arguments {} and ask with the arguments {"what":"x"} and echo with the arguments {"text":"hi"}';
const USER = { role: 'user', content: `${TURN} then ask with the arguments {"what":"y"}` };
const NEXT = { role: 'user', content: 'hello' };
const tools = [server('desk', { require_approval: { never: { tool_names: ['pid'] } } }), ASK];

/** The outputs and approvals that a response asks for, in the order of its items. */
function answersTo({ output }: Resource): JsonObject[] {
  return output.flatMap((item): JsonObject[] => {
    if (item.type === 'function_call')
      return [{ type: 'function_call_output', call_id: item.call_id ?? '', output: 'answered' }];
    if (item.type !== 'mcp_approval_request') return [];
    return [{ type: 'mcp_approval_response', approval_request_id: item.id, approve: true }];
  });
}

const withoutId = ({ id: _, ...item }: Item): JsonObject => item;
const asReference = ({ id }: Item) => ({ type: 'item_reference', id });
const isCall = ({ type }: Item) => type === 'function_call';
/** As session stores keep them. */
const withoutCallIds = (items: Item[]) => items.map(item => (isCall(item) ? withoutId(item) : item));

/** How the next request has the items of those before it. */
const WAYS: Record<string, { store?: boolean; show(items: Item[]): JsonObject[] }> = {
  previous_response_id: { show: () => [] },
  'its items': { show: items => items },
  'its items, which are not stored': { store: false, show: items => items },
  'references to its items': { show: items => items.map(asReference) },
  'its items, whose function calls have no ids': { show: withoutCallIds },
  'its items, which are not stored, and whose function calls have no ids': {
    store: false,
    show: withoutCallIds,
  },
  'references to its items, and then its function calls without ids': {
    show: items => [
      ...items.filter(item => !isCall(item)).map(asReference),
      ...items.filter(isCall).map(withoutId),
    ],
  },
};

it.each(Object.keys(WAYS).flatMap(way => [false, true].map(stream => ({ way, stream }))))(
  'is continued with $way, streamed: $stream',
  async ({ way, stream }) => {
    const { store = true, show } = WAYS[way] ?? { show: () => [] };
    const ask = async (body: JsonObject): Promise<Resource> => {
      const request = { model, tools, store, ...body };
      return stream ? endOf(await gateway.stream(request)) : await gateway.create(request);
    };
    let history: JsonObject[] = [USER];
    let last = await ask({ input: history });
    const seen = [typesOf(last.output)];
    const sent = await gateway.sentDuring(async () => {
      for (let answers = answersTo(last); answers.length > 0; answers = answersTo(last)) {
        const shown = show(last.output);
        history = shown.length === 0 ? answers : [...history, ...shown, ...answers];
        const previous_response_id = shown.length === 0 ? last.id : null;
        last = await ask({ input: history, previous_response_id });
        seen.push(typesOf(last.output));
      }
      const shown = show(last.output);
      const previous_response_id = shown.length === 0 ? last.id : null;
      history = shown.length === 0 ? [NEXT] : [...history, ...shown, NEXT];
      await ask({ input: history, previous_response_id });
    });
    expect(seen).toEqual([
      ['mcp_list_tools', 'mcp_call', 'function_call', 'mcp_approval_request'],
      ['mcp_call', 'function_call'],
      ['message'],
    ]);
    const round = ['assistant(pid,ask,echo)', 'tool', 'tool', 'tool'];
    expect(sent.map(messagesOf)).toEqual([
      ['user', ...round],
      ['user', ...round, 'assistant(ask)', 'tool'],
      ['user', ...round, 'assistant(ask)', 'tool', 'assistant', 'user'],
    ]);
  },
);

it('is continued by a client that first sends the outputs of its functions, and decides the approvals later', async () => {
  const before = gateway.folder.calls().length;
  const first = await gateway.create({ model, tools, input: TURN });
  const calls = answersTo(first);
  const isDecision = ({ type }: JsonObject) => type === 'mcp_approval_response';
  const shown = first.output.filter(({ type }) => type !== 'mcp_approval_request').map(asReference);
  const history: JsonObject[] = [{ role: 'user', content: TURN }, ...shown];
  history.push(...calls.filter(call => !isDecision(call)));
  const second = await gateway.create({ model, tools, input: history });
  expect(typesOf(second.output)).toEqual(['message']);
  const request = first.output.filter(({ type }) => type === 'mcp_approval_request').map(asReference);
  history.push(...second.output.map(asReference), ...request, ...calls.filter(isDecision));
  const third = await gateway.create({ model, tools, input: history });
  expect(typesOf(third.output)).toEqual(['mcp_call', 'message']);
  history.push(...third.output.map(asReference), NEXT);
  const [sent] = await gateway.sentDuring(() => gateway.create({ model, tools, input: history }));
  expect(messagesOf(sent)).toEqual([
    ...['user', 'assistant(pid,ask,echo)', 'tool', 'tool', 'tool', 'assistant', 'user'],
  ]);
  expect(gateway.folder.calls().slice(before)).toEqual(['pid', 'echo']);
});
