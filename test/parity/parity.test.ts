import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { type Serving, serveRuns } from '../../server/serve.ts';
import { Gateway } from '../support/responses/gateway.ts';
import { ObedientModel } from '../support/responses/obedient-model.ts';
import { HttpMcpServer } from '../support/tools/http-mcp-server.ts';
import { compareServers } from './compare.ts';
import { WrongServer } from './wrong-server.ts';

let model: ObedientModel;
let tools: HttpMcpServer;
let gateway: Gateway;
let serving: Serving;
let wrong: WrongServer;

beforeAll(async () => {
  [model, tools] = await Promise.all([ObedientModel.listen(), HttpMcpServer.start()]);
  gateway = new Gateway(
    {},
    {
      config: () => ({ allowed_server_urls: [tools.url] }),
      model: 'openai-chat:obedient',
    },
  );
  serving = await serveRuns(gateway.app, { host: '127.0.0.1', port: 0 });
  wrong = await WrongServer.listen(`${serving.url}/v1`);
});
beforeEach(() => {
  vi.stubEnv('OPENAI_BASE_URL', model.url);
  vi.stubEnv('OPENAI_API_KEY', 'unused');
});
afterAll(async () => {
  await serving.close();
  await Promise.all([wrong.close(), gateway.close(), model.close(), tools.close()]);
});

async function compare(only?: readonly string[], except: readonly string[] = []) {
  const model = 'obedient';
  return await compareServers({
    ours: { url: `${serving.url}/v1`, model, apiKey: 'unused' },
    theirs: { url: wrong.url, model, apiKey: 'unused' },
    mcpUrl: tools.url,
    except,
    ...omitUndefined({ only }),
  });
}

/** Changes every object of an answer or event that has this type. */
function changeItems(type: string, change: (item: JsonObject) => JsonValue) {
  const visit = (value: JsonValue): JsonValue => {
    if (Array.isArray(value)) return value.map(visit);
    if (!isJsonObject(value)) return value;
    const visited = Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, visit(inner)]));
    return visited.type === type ? change(visited) : visited;
  };
  return visit;
}

describe('parity with another Responses server', () => {
  it('finds no difference between equal servers, in every scenario', async () => {
    wrong.change = null;
    const { scenarios, skipped, differences } = await compare();
    expect(differences).toEqual([]);
    expect(skipped).toEqual([]);
    expect(scenarios).toBe(21);
  });

  it.each<[string, string, (value: JsonValue) => JsonValue, string]>([
    [
      'another item type',
      'mcp',
      changeItems('mcp_call', item => ({ ...item, type: 'tool_call' })),
      'mcp/first/items',
    ],
    [
      'a missing field',
      'mcp',
      changeItems('mcp_call', ({ server_label: _, ...item }) => item),
      'mcp/first/fields',
    ],
    [
      'another status',
      'text',
      changeItems('message', item => ({ ...item, status: 'done' })),
      'text/first/items',
    ],
    [
      'another kind of id',
      'function',
      changeItems('function_call', item => ({ ...item, id: 'call_1' })),
      'function/call/ids',
    ],
    [
      'an item that changes its id while it streams',
      'text',
      changeItems('response.output_item.done', ({ item, ...event }) => ({
        ...event,
        item: isJsonObject(item ?? null) ? { ...(item as JsonObject), id: 'msg_other' } : null,
      })),
      'text/streamed/first/ids',
    ],
    [
      'deltas that are not the text',
      'text',
      changeItems('response.output_text.delta', event => ({ ...event, delta: 'x' })),
      'text/streamed/first/ids',
    ],
    [
      'an event with another name',
      'denied',
      changeItems('response.output_item.added', event => ({ ...event, type: 'response.item.added' })),
      'denied/streamed/ask/events',
    ],
    [
      'numbers that do not count from 0',
      'text',
      changeItems('response.created', event => ({ ...event, sequence_number: 1 })),
      'text/streamed/first/ids',
    ],
    [
      'an interrupt that continues instead',
      'approved',
      changeItems('mcp_approval_request', item => ({ ...item, type: 'mcp_call', status: 'completed' })),
      'approved/ask/items',
    ],
    [
      'another error code',
      'errors',
      value =>
        isJsonObject(value) && isJsonObject(value.error ?? null)
          ? { error: { ...(value.error as JsonObject), code: 'bad' } }
          : value,
      'errors/unknown-previous/error',
    ],
  ])('finds %s', async (_, scenario, change, name) => {
    wrong.change = change;
    const { differences } = await compare([scenario]);
    expect(differences.map(difference => difference.name)).toContain(name);
  });

  it('finds another order of events, and another status of an error', async () => {
    wrong.change = null;
    wrong.reorder = events => events.toReversed();
    const { differences } = await compare(['text']);
    wrong.reorder = null;
    expect(differences.map(({ name }) => name)).toContain('text/streamed/first/events');
    wrong.status = 422;
    const errors = await compare(['errors']);
    wrong.status = null;
    expect(errors.differences.map(({ name }) => name)).toContain('errors/no-json/status');
  });

  it('accepts the differences that are named, and only those', async () => {
    wrong.change = changeItems('message', item => ({ ...item, status: 'done' }));
    const { differences, accepted } = await compare(['text'], ['text/first/items', 'text/streamed']);
    expect(accepted).toContain('text/first/items');
    expect(differences.map(({ name }) => name)).not.toContain('text/streamed/first/items');
    expect(differences.map(({ name }) => name)).toContain('text/second/items');
  });

  it('says that a server cannot be reached', async () => {
    const broken = await compareServers({
      ours: { url: `${serving.url}/v1`, model: 'obedient', apiKey: 'unused' },
      theirs: { url: 'http://127.0.0.1:9/v1', model: 'obedient', apiKey: 'unused' },
      only: ['text'],
    });
    expect(broken.differences.map(({ name }) => name)).toContain('text/broken');
  });
});
