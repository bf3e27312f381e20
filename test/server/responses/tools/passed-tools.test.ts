import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { JsonObject } from '../../../../protocol/json.ts';
import { addUp } from '../../../support/responses/add-up.ts';
import { DIALECTS, DialectProvider, type PlayedTurn } from '../../../support/responses/dialect-provider.ts';
import { endOf, Gateway, type Page, type Resource, typesOf } from '../../../support/responses/gateway.ts';
import { SearchEndpoint } from '../../../support/responses/search-endpoint.ts';

const USER = { role: 'user', content: 'Find out.' };
const WEB = { type: 'web_search', search_context_size: 'high' };
const CODE = { type: 'code_interpreter', container: { type: 'auto', memory_limit: '4g' } };
const ASK = { type: 'function', name: 'ask' };
const SEARCHED = {
  type: 'web_search_call',
  id: 'ws_upstream',
  status: 'completed',
  action: { type: 'search', query: 'cats', sources: [{ type: 'url', url: 'https://cats.example/' }] },
};
const COMPUTED = {
  type: 'code_interpreter_call',
  id: 'ci_upstream',
  status: 'completed',
  code: '6*7',
  container_id: 'cntr_1',
  outputs: [{ type: 'logs', logs: '42' }],
};

let provider: DialectProvider;
let endpoint: SearchEndpoint;
let gateway: Gateway;

beforeAll(async () => {
  provider = await DialectProvider.listen();
  endpoint = await SearchEndpoint.listen();
  gateway = new Gateway(
    {},
    {
      config: () => ({
        builtin_tools: { web_search: { pass: true, url: endpoint.url }, code_interpreter: { pass: true } },
      }),
    },
  );
});
beforeEach(() => {
  for (const [name, value] of Object.entries(provider.environment)) vi.stubEnv(name, value);
  endpoint.find();
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await gateway.close();
  await endpoint.close();
  await provider.close();
});

const TURN: PlayedTurn = { items: [SEARCHED, COMPUTED], text: 'Cats, and 42.' };

async function ask(more: JsonObject = {}): Promise<Resource> {
  return await gateway.create({ model: DIALECTS.responses, input: [USER], tools: [WEB, CODE, ASK], ...more });
}

describe('a built-in tool that is passed on', () => {
  it("runs at the provider, and its items are the provider's with ids of this server", async () => {
    provider.play(TURN, TURN);
    const include = ['web_search_call.action.sources'];
    const whole = await ask({ include });
    expect(provider.requests[0]).toMatchObject({
      tools: [{ type: 'function', name: 'ask' }, WEB, CODE],
      include,
    });
    expect(whole.output).toMatchObject([
      { ...SEARCHED, id: expect.stringMatching(/^ws_(?!upstream)/) },
      { ...COMPUTED, id: expect.stringMatching(/^ci_(?!upstream)/) },
      { type: 'message', content: [{ text: 'Cats, and 42.' }] },
    ]);
    const events = await gateway.stream({ model: DIALECTS.responses, input: [USER], tools: [WEB, CODE] });
    expect(addUp(events)).toEqual(endOf(events).output);
    expect(typesOf(endOf(events).output)).toEqual(typesOf(whole.output));
    const types = events.map(({ type }) => type);
    expect(types).toContain('response.web_search_call.searching');
    expect(types).toContain('response.code_interpreter_call_code.done');
    expect(endpoint.asked).toEqual([]);
  });

  it.each(['after the response', 'from its items', 'by references'])('continues %s', async way => {
    provider.play(TURN, { text: 'More.' });
    const first = await ask();
    const items =
      way === 'by references' ? first.output.map(({ id }) => ({ id, type: 'item_reference' })) : first.output;
    const second = await ask(
      way === 'after the response'
        ? { previous_response_id: first.id, input: [USER] }
        : { input: [USER, ...items, USER] },
    );
    expect(typesOf(second.output)).toEqual(['message']);
    if (way === 'after the response') return;
    expect(JSON.stringify(provider.requests[1]?.input)).toContain('"ws_upstream"');
    const { data } = await gateway.read<Page>(`/${second.id}/input_items?order=asc`);
    expect(typesOf(data)).toEqual([
      ...['message', 'web_search_call', 'code_interpreter_call', 'message', 'message'],
    ]);
  });

  it('can be chosen and left out', async () => {
    provider.play(TURN, TURN);
    await ask({ tool_choice: { type: 'web_search' } });
    expect(provider.requests[0]).toMatchObject({ tool_choice: 'required', tools: [WEB, CODE] });
    await ask({
      tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'code_interpreter' }] },
    });
    expect(provider.requests[1]?.tools).toEqual([CODE]);
  });

  it('runs here with another provider, if the configuration says how', async () => {
    provider.play({ calls: [{ name: 'web_search', arguments: { query: 'cats' } }] }, { text: 'Done.' });
    const { output } = await ask({ model: DIALECTS.chat, tools: [WEB] });
    expect(typesOf(output)).toEqual(['web_search_call', 'message']);
    expect(endpoint.asked).toHaveLength(1);
    const refused = await gateway.refused({ model: DIALECTS.chat, input: [USER], tools: [CODE] });
    expect(refused).toMatchObject({ code: 'unsupported_tool', param: 'tools[0].type' });
  });
});
