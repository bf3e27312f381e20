/** What the providers receive of a mixed turn with an approval, in histories that clients keep. */
import { afterAll, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { isJsonObject, type JsonObject } from '../../../../protocol/json.ts';
import { UPSTREAMS, Upstream } from '../../../support/messages/upstream.ts';
import { Gateway, type Item, type Resource } from '../../../support/responses/gateway.ts';
import { ASK, server } from '../../../support/responses/obedient-gateway.ts';

let upstream: Upstream;
let gateway: Gateway;
beforeAll(async () => {
  upstream = await Upstream.listen();
  gateway = new Gateway({}, { config: folder => ({ mcp_servers: { desk: folder.server() } }) });
});
beforeEach(() => {
  for (const [name, value] of Object.entries(upstream.environment)) vi.stubEnv(name, value);
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await gateway.close();
  await upstream.close();
});

const tools = [server('desk', { require_approval: { never: { tool_names: ['pid'] } } }), ASK];
const USER = { role: 'user', content: 'Ask, look and echo.' };
const CALLS = [
  { id: 'call_1', name: 'ask', arguments: '{"what":"x"}' },
  { id: 'call_2', name: 'pid', arguments: '{}' },
  { id: 'call_3', name: 'echo', arguments: '{"text":"hi"}' },
];

function answersTo({ output }: Resource): JsonObject[] {
  return output.flatMap((item): JsonObject[] => {
    if (item.type === 'function_call')
      return [{ type: 'function_call_output', call_id: item.call_id ?? '', output: 'answered' }];
    if (item.type !== 'mcp_approval_request') return [];
    return [{ type: 'mcp_approval_response', approval_request_id: item.id, approve: true }];
  });
}

/** As session stores keep items: without the ids of function calls. */
function kept({ id, ...item }: Item): JsonObject {
  return item.type === 'function_call' ? item : { ...item, id };
}

/** The blocks of the first message of the model in a request, each by what a provider checks. */
function firstTurn(body: JsonObject | undefined): string[] {
  const { messages, contents, input } = body ?? {};
  const turns = (messages ?? contents ?? []) as JsonObject[];
  const own = turns.find(({ role }) => role === 'assistant' || role === 'model');
  const blocks = (own?.content ?? own?.parts ?? input ?? []) as JsonObject[];
  const calls = own?.tool_calls as { function: { name: string } }[] | undefined;
  if (calls !== undefined) return calls.map(call => call.function.name);
  return blocks.flatMap((block): string[] => {
    const call = isJsonObject(block.functionCall) ? block.functionCall : undefined;
    if (call) return [`${block.thoughtSignature === undefined ? '' : 'signed '}${String(call.name)}`];
    if (block.type === 'thinking' || block.type === 'reasoning') return ['reasoning'];
    return block.type === 'tool_use' || block.type === 'function_call' ? [String(block.name)] : [];
  });
}

it.each([
  ['anthropic', ['reasoning', 'ask', 'pid', 'echo']],
  ['gemini', ['signed ask', 'pid', 'echo']],
  ['responses', ['reasoning', 'ask', 'pid', 'echo']],
  ['chat', ['ask', 'pid', 'echo']],
] as const)('%s receives the turn as it was made, with what it signed', async (dialect, turn) => {
  upstream.play(
    { reasoning: 'They want three.', calls: CALLS },
    { text: 'Done.' },
    { text: 'You are welcome.' },
  );
  const ask = async (input: JsonObject[]) =>
    await gateway.create({ model: UPSTREAMS[dialect], tools, input: [USER, ...input] });
  const asked = await ask([]);
  const history = [...asked.output.map(kept), ...answersTo(asked)];
  const done = await ask(history);
  await ask([...history, ...done.output.map(kept), { role: 'user', content: 'Thanks.' }]);
  expect(upstream.requests.slice(1).map(firstTurn)).toEqual([turn, turn]);
});
