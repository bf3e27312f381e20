import { describe, expect, test } from 'vitest';
import { anthropic } from '../../../adapters/anthropic.ts';
import { gemini } from '../../../adapters/gemini.ts';
import { openaiResponses } from '../../../adapters/openai-responses.ts';
import { editTurn } from '../../../engine/run/edits.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { Item } from '../../../protocol/item.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { EditTurnOptions } from '../../../protocol/run-command.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { makeTool } from '../../support/engine/agents.ts';
import { answering, begin, calling, makeCall } from '../../support/machines/builders.ts';

/** The provider data of an edited turn: what precedes the first change goes back unchanged, what follows it does not. */

type Make = (options: { model: string; apiKey: string; fetch: typeof fetch }) => ModelAdapter;

/** The request of the turn after `items`, as the provider gets it. */
async function requestAfter(make: Make, model: string, items: readonly Item[]): Promise<string> {
  let body = '';
  const adapter = make({
    model,
    apiKey: 'unused',
    fetch: async (_, init) => {
      body = String(init?.body);
      return new Response('{}', { status: 400 });
    },
  });
  const results = items.flatMap(({ type, ...item }): Item[] =>
    type === 'tool_call' && 'callId' in item
      ? [{ type: 'tool_result', callId: item.callId, output: 'found', isError: false }]
      : [],
  );
  const transcript = [userMessage('go'), ...items, ...results];
  const request = { transcript, tools: [], toolChoice: 'auto', settings: {} } as const;
  await adapter.generate(request, { signal: new AbortController().signal }).catch(() => {});
  expect(body).not.toBe('');
  return body;
}

/** The items of a turn after an edit of it. */
async function edited(items: readonly Item[], edit: EditTurnOptions): Promise<Item[]> {
  const made = calling(makeCall('call_1', { input: { id: 1 } }));
  const run = begin().send({ type: 'pause.requested' }, { ...made, items: [...items] });
  const tools = new Map([['look', makeTool('look')]]);
  const command = await editTurn(edit, {
    context: run.context,
    host: new ManualHost(),
    connectTools: async () => tools,
    rules: [],
    loadPast: async () => [],
  });
  if (!('type' in command) || command.type !== 'turn.edited') throw new Error(JSON.stringify(command));
  return command.items;
}

function turnOf(provider: string, data: { thought: JsonValue; text: JsonValue; call: JsonValue }): Item[] {
  const kept = (value: JsonValue) => ({ opaque: { provider, data: value } });
  return [
    { type: 'reasoning', text: 'I think', ...kept(data.thought) },
    {
      type: 'message',
      role: 'assistant',
      content: [{ type: 'text', text: 'Looking.' }],
      ...kept(data.text),
    },
    { type: 'tool_call', callId: 'call_1', name: 'look', arguments: '{"id":1}', ...kept(data.call) },
  ];
}

const SAYING = { text: 'Changed.' };
const CALLING = { calls: [{ callId: 'call_1', name: 'look', input: { id: 2 } }] };

describe('an edited turn', () => {
  test('of Anthropic keeps its signed thinking, which precedes the change', async () => {
    const items = turnOf('anthropic', {
      thought: { block: { type: 'thinking', thinking: 'I think', signature: 'SIGNED' } },
      text: { block: { type: 'text', text: 'Looking.', citations: [] } },
      call: { block: { type: 'tool_use', id: 'call_1', name: 'look', input: { id: 1 } } },
    });
    for (const edit of [SAYING, CALLING]) {
      const body = await requestAfter(anthropic, 'claude-sonnet-4-5', await edited(items, edit));
      expect(body).toContain('SIGNED');
    }
    const said = await requestAfter(anthropic, 'claude-sonnet-4-5', await edited(items, SAYING));
    expect([said.includes('Changed.'), said.includes('Looking.')]).toEqual([true, false]);
    const called = await requestAfter(anthropic, 'claude-sonnet-4-5', await edited(items, CALLING));
    expect([called.includes('"input":{"id":2}'), called.includes('"input":{"id":1}')]).toEqual([true, false]);
  });

  test('of Gemini sends no signature of the changed part or of what follows it', async () => {
    const items = turnOf('gemini', {
      thought: {},
      text: { spans: [{ length: 8, thoughtSignature: 'OF-TEXT' }] },
      call: { thoughtSignature: 'OF-CALL' },
    });
    const ask = (of: readonly Item[]) => requestAfter(gemini, 'gemini-3-pro', of);
    const signatures = (body: string) => ['OF-TEXT', 'OF-CALL'].filter(one => body.includes(one));
    expect(signatures(await ask(items))).toEqual(['OF-TEXT', 'OF-CALL']);
    const said = await ask(await edited(items, SAYING));
    expect(signatures(said)).toEqual([]);
    expect(said).toContain('skip_thought_signature_validator');
    expect(signatures(await ask(await edited(items, CALLING)))).toEqual(['OF-TEXT']);
  });

  test('of OpenAI sends no reasoning whose item has changed', async () => {
    const reasoning = { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'ENCRYPTED' };
    const items = turnOf('openai-responses', {
      thought: { item: reasoning, before: 'msg_1' },
      text: { id: 'msg_1', after: 'rs_1' },
      call: { id: 'fc_1', after: 'rs_1' },
    });
    const ask = (of: readonly Item[]) => requestAfter(openaiResponses, 'gpt-5', of);
    expect(await ask(items)).toContain('ENCRYPTED');
    expect(await ask(await edited(items, SAYING))).not.toContain('ENCRYPTED');
    const called = await ask(await edited(items, CALLING));
    expect([called.includes('ENCRYPTED'), called.includes('fc_1')]).toEqual([true, false]);
  });

  test('drops what the provider ran itself after the change, and keeps it before', async () => {
    const searched: Item = {
      type: 'provider_item',
      kind: 'search',
      opaque: { provider: 'test', data: { found: 1 } },
    };
    const [text] = answering('Looking.').items;
    const call: Item = { type: 'tool_call', callId: 'call_1', name: 'look', arguments: '{"id":1}' };
    if (text === undefined) throw new Error('expected a message');
    expect((await edited([searched, text, call], SAYING))[0]).toMatchObject({ kind: 'search' });
    const types = (await edited([text, searched, call], SAYING)).map(({ type }) => type);
    expect(types).toEqual(['message', 'tool_call']);
  });
});
