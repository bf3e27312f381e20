import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { anthropic } from '../../../adapters/anthropic.ts';
import { openaiResponses } from '../../../adapters/openai-responses.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { type McpToolSource, mcp } from '../../../tools/mcp.ts';
import { subjects } from '../../support/adapters/fixtures/subjects.ts';
import { resultsIn } from '../../support/engine/agents.ts';
import { answerWith, recordRequests } from '../../support/engine/models.ts';
import { HttpMcpServer } from '../../support/tools/http-mcp-server.ts';

/** A rule of thumb for English and JSON, in bytes. */
const BYTES_PER_TOKEN = 4;

let server: HttpMcpServer;
let crm: McpToolSource;
beforeAll(async () => {
  server = await HttpMcpServer.start({ more: 496 });
  crm = mcp({ name: 'crm', url: server.url, deferred: true });
});
afterAll(async () => {
  await crm.close();
  await server.close();
});

type Sent = { path: string; body: JsonObject };

/** What the adapter sends in the first turn of an agent with 500 tools of a server, to a provider that refuses it. */
async function firstRequest(open: (fetch: typeof globalThis.fetch) => ModelAdapter): Promise<Sent> {
  const sent: Sent[] = [];
  const model = open(async (url, init) => {
    const body = init?.body ?? (url instanceof Request ? await url.text() : '{}');
    sent.push({ path: String(url), body: JSON.parse(String(body)) });
    return Response.json({ error: { message: 'no' } }, { status: 400 });
  });
  const agent = createAgent({ name: 'clerk', model, tools: [crm], retry: { attempts: 1 } });
  await agent.run('Hi.');
  return sent.at(-1) as Sent;
}

/** The body as the model gets it: of a deferred tool nothing, of a namespace its name and description. */
function seenOf(body: JsonObject): JsonObject {
  if (!Array.isArray(body.tools)) return body;
  const tools = body.tools.flatMap(tool => {
    const { defer_loading, tools: members, ...seen } = tool as JsonObject;
    const others = Array.isArray(members)
      ? members.filter(member => (member as JsonObject).defer_loading !== true)
      : undefined;
    return defer_loading === true ? [] : [others === undefined ? seen : { ...seen, tools: others }];
  });
  return { ...body, tools };
}

const LIMITS = { maxResponseBytes: 1_000_000, idleTimeoutMs: 10_000 };
const opened = Object.entries(subjects).map(
  ([name, { open }]) =>
    [
      name,
      (fetch: typeof globalThis.fetch) =>
        open({ baseURL: 'https://provider.test/v1', apiKey: 'key-of-the-test', fetch, ...LIMITS }),
    ] as const,
);
const searching = [
  [
    'anthropic, whose provider searches',
    (fetch: typeof globalThis.fetch) => anthropic({ model: 'claude-opus-5-5', apiKey: 'k', fetch }),
  ],
  [
    'openaiResponses, whose provider searches',
    (fetch: typeof globalThis.fetch) => openaiResponses({ model: 'gpt-5.4', apiKey: 'k', fetch }),
  ],
] as const;

describe('500 deferred tools of a server', () => {
  test.each([...opened, ...searching])('cost at most 500 tokens with %s', async (_, open) => {
    const { body } = await firstRequest(open);
    expect(JSON.stringify(seenOf(body)).length / BYTES_PER_TOKEN).toBeLessThan(500);
  });

  test('are found by name or purpose, and called', async () => {
    const model = answerWith((_, before) => {
      if (before === 0)
        return { toolCalls: [{ callId: 'a', name: 'search_tools', input: { query: 'Does task 317' } }] };
      if (before > 1) return { text: 'Done.' };
      return { toolCalls: [{ callId: 'b', name: 'task_317_of_crm', input: { text: 'hi' } }] };
    });
    const { model: recorded, requests } = recordRequests(model);
    const agent = createAgent({ name: 'clerk', model: recorded, tools: [crm] });
    await agent.run('Hi.');
    expect(requests[1]?.tools.map(({ name }) => name).slice(0, 2)).toEqual([
      'search_tools',
      'task_317_of_crm',
    ]);
    expect(resultsIn(requests[2]?.transcript ?? []).b).toBe('task_317_of_crm: hi');
  });

  test.each(searching)('are all declared with %s', async (_, open) => {
    const { body } = await firstRequest(open);
    const text = JSON.stringify(body.tools);
    expect(text.match(/"defer_loading":true/g)).toHaveLength(500);
    expect(text).toContain('"task_496_of_crm"');
  });
});
