import { describe, expect, test } from 'vitest';
import type { Item } from '../../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';
import { bodyFor } from '../../support/adapters/anthropic-exchange.ts';
import { MarkedCache } from '../../support/adapters/marked-cache.ts';
import { request } from '../../support/adapters/requests.ts';

const MARK = { type: 'ephemeral' };
const auto = { cache_marks: 'auto' };
const tool = (name: string, more: object = {}) => ({
  name,
  description: `Does ${name}.`,
  inputSchema: { type: 'object', properties: {} },
  ...more,
});

function turn(number: number, calls: number): Item[] {
  const ids = Array.from({ length: calls }, (_, at) => `call_${number}_${at}`);
  return [
    ...ids.map((callId): Item => ({ type: 'tool_call', callId, name: 'a', arguments: '{}' })),
    ...ids.map((callId): Item => ({ type: 'tool_result', callId, output: 'found', isError: false })),
  ];
}

const bodyAfter = async (items: readonly Item[], more: Partial<ModelRequest> = {}) =>
  await bodyFor({
    ...request('hi', { providerOptions: auto, ...more }),
    transcript: [userMessage('hi'), ...items],
  });

/** The paths of the marks of a body. */
function marksOf(value: JsonValue, path = ''): string[] {
  const entries = isJsonObject(value) || Array.isArray(value) ? Object.entries(value) : [];
  return entries.flatMap(([name, member]) =>
    name === 'cache_control' ? [path] : marksOf(member, `${path}/${name}`),
  );
}

function withoutMarks(body: JsonObject): JsonObject {
  return JSON.parse(JSON.stringify(body), (name, value) => (name === 'cache_control' ? undefined : value));
}

describe('a request with marks of the adapter', () => {
  test('has marks on the last tool, the system, and the last two messages of the user', async () => {
    const more = { instructions: 'Be brief.', tools: [tool('a'), tool('b')] };
    const body = await bodyAfter([...turn(1, 2), ...turn(2, 2)], more);
    expect(marksOf(body)).toEqual([
      '/system/0',
      '/messages/2/content/1',
      '/messages/4/content/1',
      '/tools/1',
    ]);
    expect(body.system).toEqual([{ type: 'text', text: 'Be brief.', cache_control: MARK }]);
    const plain = await bodyAfter([...turn(1, 2), ...turn(2, 2)], { ...more, providerOptions: {} });
    expect(withoutMarks(body)).toEqual({ ...plain, system: [{ type: 'text', text: 'Be brief.' }] });
  });

  test('has no mark on a tool that is not loaded, and four with those of tools that have their own', async () => {
    const loaded = await bodyAfter([], { tools: [tool('a'), tool('b', { deferred: true })] });
    const tools = loaded.tools as JsonObject[];
    expect(tools.find(({ name }) => name === 'b')).not.toHaveProperty('cache_control');
    expect(tools.filter(one => 'cache_control' in one)).toHaveLength(1);
    const own = { type: 'web_search_20250305', name: 'web_search', cache_control: { type: 'ephemeral' } };
    const body = await bodyAfter([], {
      tools: [tool('a')],
      providerOptions: { ...auto, tools: [own, { ...own, name: 'fetch' }, { ...own, name: 'other' }] },
    });
    expect(marksOf(body)).toEqual(['/messages/0/content/0', '/tools/1', '/tools/2', '/tools/3']);
  });

  test('has no others beside a mark for the whole prompt, and none if nothing asks for them', async () => {
    const whole = await bodyAfter([], { providerOptions: { ...auto, cache_control: MARK } });
    expect(marksOf(whole)).toEqual(['']);
    const none = await bodyAfter([], { providerOptions: { cache_marks: null } });
    expect(marksOf(none)).toEqual([]);
    expect({ ...whole, ...none }).not.toHaveProperty('cache_marks');
  });

  test('reads all that the one before it wrote, also after a turn of 40 calls', async () => {
    const cache = new MarkedCache();
    const tools = [tool('a')];
    let items: Item[] = [];
    let before = cache.use(await bodyAfter(items, { tools }));
    for (const [number, calls] of [40, 1, 40, 40].entries()) {
      items = [...items, ...turn(number, calls)];
      const now = cache.use(await bodyAfter(items, { tools }));
      expect(now.cached).toBe(before.input);
      before = now;
    }
  });
});
