import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { JsonObject } from '../../../../protocol/json.ts';
import { addUp } from '../../../support/responses/add-up.ts';
import {
  ALL,
  BuiltinDesk,
  CODE,
  computes,
  DONE,
  FILES,
  INCLUDE,
  LOOKS,
  OTHER,
  PAGE,
  SEARCHES,
  USER,
  WEB,
} from '../../../support/responses/builtin-desk.ts';
import { DIALECTS } from '../../../support/responses/dialect-provider.ts';
import {
  endOf,
  type Gateway,
  type Item,
  type Resource,
  typesOf,
} from '../../../support/responses/gateway.ts';

let desk: BuiltinDesk;

beforeAll(async () => {
  desk = await BuiltinDesk.open();
});
beforeEach(() => {
  for (const [name, value] of Object.entries(desk.provider.environment)) vi.stubEnv(name, value);
  desk.endpoint.find(PAGE, OTHER);
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await desk.close();
});

function shown(items: readonly Item[]): JsonObject[] {
  return items.map(item =>
    JSON.parse(JSON.stringify(item).replaceAll(/(msg|ws|fs|ci|cntr)_[A-Za-z0-9]+_/g, '$1_')),
  );
}

describe.each(Object.entries(DIALECTS))('built-in tools, with a provider of the dialect %s', (_, model) => {
  it('run here, streamed and not, as the items of OpenAI', async () => {
    const turns = [SEARCHES, LOOKS, computes(), DONE];
    desk.provider.play(...turns, ...turns);
    const body = { model, input: [USER], tools: ALL, include: INCLUDE };
    const whole = await desk.gateway.create(body);
    expect(whole.output).toEqual([
      {
        id: expect.stringMatching(/^ws_/),
        type: 'web_search_call',
        status: 'completed',
        action: {
          type: 'search',
          query: 'cats',
          sources: [
            { type: 'url', url: PAGE.url },
            { type: 'url', url: OTHER.url },
          ],
        },
      },
      {
        id: expect.stringMatching(/^fs_/),
        type: 'file_search_call',
        status: 'completed',
        queries: ['vacation days'],
        results: [
          {
            file_id: expect.stringMatching(/^file-/),
            filename: 'leave.md',
            score: 1,
            text: 'Vacation: thirty days a year.',
            attributes: expect.objectContaining({ path: 'leave.md', extension: 'md' }),
          },
        ],
      },
      {
        id: expect.stringMatching(/^ci_/),
        type: 'code_interpreter_call',
        status: 'completed',
        code: 'console.log(6 * 7)',
        container_id: expect.stringMatching(/^cntr_/),
        outputs: [{ type: 'logs', logs: '42\n' }],
      },
      expect.objectContaining({
        type: 'message',
        content: [expect.objectContaining({ text: 'Found out.' })],
      }),
    ]);
    expect(whole.tools).toEqual(ALL);
    expect(JSON.stringify(desk.provider.requests)).toContain('They purr.');
    expect(JSON.stringify(desk.provider.requests)).toContain('thirty days');
    const events = await desk.gateway.stream(body);
    expect(addUp(events)).toEqual(endOf(events).output);
    expect(shown(endOf(events).output)).toEqual(shown(whole.output));
    expect(events.map(({ type }) => type)).toEqual([
      ...['response.created', 'response.in_progress'],
      ...['response.output_item.added', 'response.web_search_call.in_progress'],
      ...['response.web_search_call.searching', 'response.web_search_call.completed'],
      ...['response.output_item.done', 'response.output_item.added', 'response.file_search_call.in_progress'],
      ...['response.file_search_call.searching', 'response.file_search_call.completed'],
      ...['response.output_item.done', 'response.output_item.added'],
      ...['response.code_interpreter_call.in_progress', 'response.code_interpreter_call_code.delta'],
      ...['response.code_interpreter_call_code.done', 'response.code_interpreter_call.interpreting'],
      ...['response.code_interpreter_call.completed', 'response.output_item.done'],
      ...['response.output_item.added', 'response.content_part.added'],
      ...events.flatMap(({ type }) => (type === 'response.output_text.delta' ? [type] : [])),
      ...['response.output_text.done', 'response.content_part.done'],
      ...['response.output_item.done', 'response.completed'],
    ]);
  });
});

describe('what a request does not ask to see', () => {
  it('is not shown', async () => {
    desk.provider.play(SEARCHES, LOOKS, computes(), DONE);
    const { output } = await desk.ask({});
    expect(output).toMatchObject([
      { action: { type: 'search', query: 'cats' } },
      { queries: ['vacation days'], results: null },
      { outputs: null },
      { type: 'message' },
    ]);
    expect(output[0]?.action).not.toHaveProperty('sources');
    expect(JSON.stringify(output)).not.toContain('hidden-key');
  });
});

describe('the calls of built-in tools continue', () => {
  const withoutIds = (items: readonly Item[]) => items.map(({ id: _, ...item }) => item);
  const ways: Record<string, (first: Resource) => JsonObject> = {
    'after the response': first => ({ previous_response_id: first.id, input: [USER] }),
    'from its items': first => ({ input: [USER, ...first.output, USER] }),
    'by references': first => ({
      input: [USER, ...first.output.map(({ id }) => ({ type: 'item_reference', id })), USER],
    }),
  };

  it.each(Object.keys(ways))('%s, with their results', async way => {
    desk.provider.play(SEARCHES, LOOKS, computes(), DONE, DONE);
    const first = await desk.ask({});
    expect(typesOf((await desk.ask(ways[way]?.(first) ?? {})).output)).toEqual(['message']);
    expect(desk.sent()).toContain('They purr.');
    expect(desk.sent()).toContain('thirty days');
    expect(desk.sent()).toContain('"logs":"42');
  });

  it('from their items as text, where they are not stored', async () => {
    desk.provider.play(SEARCHES, LOOKS, computes(), DONE, DONE);
    const first = await desk.ask({ store: false, include: INCLUDE });
    await desk.ask({ store: false, input: [USER, ...withoutIds(first.output), USER] });
    expect(desk.sent()).toContain(`Web search: cats\\n${PAGE.url}`.replaceAll('\\', ''));
    expect(desk.sent()).toContain('leave.md: Vacation: thirty days a year.');
    expect(desk.sent()).toContain('Output: 42');
  });
});

describe('a built-in tool', () => {
  it.each([
    [{ type: 'web_search_preview' }, 'web_search_call'],
    [{ type: 'web_search_2025_08_26' }, 'web_search_call'],
    [{ type: 'web_search_preview_2025_03_11' }, 'web_search_call'],
  ])('has several types: %s', async (tool, type) => {
    desk.provider.play(SEARCHES, DONE);
    const { output, tools } = await desk.ask({ tools: [tool] });
    expect(typesOf(output)).toEqual([type, 'message']);
    expect(tools).toEqual([tool]);
  });

  it('stays apart from a function of the client with its name', async () => {
    desk.provider.play({
      calls: [...(SEARCHES.calls ?? []), { name: 'gateway_web_search', arguments: { query: 'x' } }],
    });
    const { output } = await desk.ask({ tools: [{ type: 'function', name: 'web_search' }, WEB] });
    expect(output).toMatchObject([
      { type: 'web_search_call', action: { query: 'x' } },
      { type: 'function_call', name: 'web_search' },
    ]);
  });

  it('can be chosen, alone and among others', async () => {
    desk.provider.play(SEARCHES, DONE, DONE);
    await desk.ask({ tool_choice: { type: 'web_search_preview' } });
    expect(desk.provider.requests[0]?.tool_choice).toMatchObject({ function: { name: 'web_search' } });
    expect(desk.provider.requests[1]?.tool_choice ?? 'auto').toBe('auto');
    await desk.ask({
      tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'file_search' }] },
    });
    expect(desk.provider.requests[2]?.tools).toMatchObject([{ function: { name: 'file_search' } }]);
    const refused = await desk.gateway.refused({
      model: DIALECTS.chat,
      input: 'go',
      tools: [WEB],
      tool_choice: { type: 'file_search' },
    });
    expect(refused).toMatchObject({ status: 400, code: 'tool_choice_tool_not_found' });
  });

  it('counts for max_tool_calls', async () => {
    desk.provider.play({ calls: [...(SEARCHES.calls ?? []), ...(LOOKS.calls ?? [])] }, DONE);
    const response = await desk.ask({ max_tool_calls: 1 });
    const calls = response.output.filter(({ type }) => type !== 'message');
    expect(calls.map(({ status }) => status).sort()).toEqual(['completed', 'failed']);
    expect(response.incomplete_details).toEqual({ reason: 'max_tool_calls' });
  });

  it('that fails is shown as failed, and the model reads why', async () => {
    desk.endpoint.answer = { status: 503, body: 'busy hidden-body' };
    desk.provider.play(SEARCHES, DONE);
    const { output } = await desk.ask({ include: INCLUDE });
    expect(output[0]).toMatchObject({ type: 'web_search_call', status: 'failed', action: { query: 'cats' } });
    expect(desk.sent()).toContain('The web search failed: it answered with the status 503');
    expect(desk.sent()).not.toContain('hidden');
  });
});

describe('a request is refused by name, before anything runs, for', () => {
  it.each<[string, () => Gateway, JsonObject, JsonObject]>([
    [
      'files that are not configured',
      () => desk.bare,
      FILES,
      { code: 'unsupported_tool', param: 'tools[0].type' },
    ],
    [
      'code that is not configured',
      () => desk.bare,
      CODE,
      { code: 'unsupported_tool', param: 'tools[0].type' },
    ],
    [
      'a tool there is not',
      () => desk.gateway,
      { type: 'computer' },
      { code: 'unsupported_tool', param: 'tools[0].type' },
    ],
    [
      'an unknown store',
      () => desk.gateway,
      { ...FILES, vector_store_ids: ['handbook', 'vs_1'] },
      { code: 'vector_store_not_found', param: 'tools[0].vector_store_ids[1]' },
    ],
    [
      'a store of the prototype',
      () => desk.gateway,
      { ...FILES, vector_store_ids: ['constructor'] },
      { code: 'vector_store_not_found' },
    ],
    [
      'a filter of attributes that files do not have',
      () => desk.gateway,
      { ...FILES, filters: { type: 'and', filters: [{ type: 'eq', key: 'author', value: 'x' }] } },
      { code: 'unsupported_parameter', param: 'tools[0].filters.filters[0].key' },
    ],
    [
      'hybrid search',
      () => desk.gateway,
      { ...FILES, ranking_options: { hybrid_search: { embedding_weight: 1, text_weight: 1 } } },
      { param: 'tools[0].ranking_options.hybrid_search' },
    ],
    [
      'a container by id',
      () => desk.gateway,
      { ...CODE, container: 'cntr_1' },
      { param: 'tools[0].container' },
    ],
    [
      'files in a container',
      () => desk.gateway,
      { ...CODE, container: { type: 'auto', file_ids: ['file-1'] } },
      { param: 'tools[0].container.file_ids' },
    ],
    [
      'blocked domains',
      () => desk.gateway,
      { ...WEB, filters: { blocked_domains: ['a'] } },
      { param: 'tools[0].filters' },
    ],
  ])('%s', async (_, of, tool, failure) => {
    desk.provider.play();
    const refused = await of().refused({ model: DIALECTS.chat, input: [USER], tools: [tool] });
    expect(refused).toMatchObject({ status: 400, ...failure });
    expect(desk.provider.requests).toEqual([]);
  });

  it('two tools of one kind', async () => {
    const tools = [WEB, { type: 'web_search_preview' }];
    const refused = await desk.gateway.refused({ model: DIALECTS.chat, input: [USER], tools });
    expect(refused).toMatchObject({ code: 'duplicate_tool', param: 'tools[1].type' });
  });
});
