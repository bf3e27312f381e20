import { describe, expect, test } from 'vitest';
import type { Item } from '../../../protocol/item.ts';
import type { JsonObject, JsonValue } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import { request, result } from '../../support/adapters/requests.ts';
import { answer, body, call, input, mine, reasoning } from '../../support/adapters/wire/responses-request.ts';

const foreign = { provider: 'anthropic', data: { signature: 'abc' } };

describe('the transcript as input', () => {
  test('roles, images and files are mapped', () => {
    const content: Extract<Item, { type: 'message' }>['content'] = [
      { type: 'text', text: 'look' },
      { type: 'image', url: 'https://x.test/a.png' },
      { type: 'file', url: 'data:application/pdf;base64,AA', name: 'a.pdf' },
      { type: 'file', url: 'https://x.test/b.pdf' },
    ];
    expect(
      input([
        { type: 'message', role: 'system', content: [{ type: 'text', text: 's' }] },
        { type: 'message', role: 'developer', content: [{ type: 'text', text: 'd' }] },
        { type: 'message', role: 'user', content },
      ]),
    ).toEqual([
      { role: 'system', content: 's' },
      { role: 'developer', content: 'd' },
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'look' },
          { type: 'input_image', image_url: 'https://x.test/a.png', detail: 'auto' },
          { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,AA' },
          { type: 'input_file', file_url: 'https://x.test/b.pdf' },
        ],
      },
    ]);
  });

  test('results are text: strings unchanged, other values as JSON, display text before output, failures marked', () => {
    const results: Partial<Extract<Item, { type: 'tool_result' }>>[] = [
      {},
      { output: { a: 0 } },
      { shown: 'short' },
      { isError: true },
    ];
    const sent = input([
      ...results.map((_, at) => call(`c${at}`)),
      ...results.map(
        (more, at): Item => ({
          type: 'tool_result',
          callId: `c${at}`,
          output: 'plain',
          isError: false,
          ...more,
        }),
      ),
    ]);
    expect(Array.isArray(sent) && sent.slice(4)).toEqual(
      ['plain', '{"a":0}', 'short', 'Error: plain'].map((output, at) => ({
        type: 'function_call_output',
        call_id: `c${at}`,
        output,
      })),
    );
  });

  test('control items are never sent', () => {
    expect(
      input([
        { type: 'approval_request', callId: 'c', name: 'a', arguments: '{}' },
        { type: 'approval_response', callId: 'c', approve: true },
        { type: 'tool_list', label: 'mcp', tools: [] },
      ]),
    ).toEqual([]);
  });

  test("another provider's opaque data is dropped and the portable part kept", () => {
    expect(
      input([
        { type: 'reasoning', text: 'hm', opaque: foreign },
        { ...answer('hi'), opaque: foreign } as Item,
        { type: 'tool_call', callId: 'toolu_1', name: 'a', arguments: '', opaque: foreign },
        result('toolu_1', 'ok'),
        { type: 'provider_item', kind: 'server_tool_use', opaque: foreign },
      ]),
    ).toEqual([
      { role: 'assistant', content: [{ type: 'output_text', text: 'hi' }] },
      { type: 'function_call', call_id: 'toolu_1', name: 'a', arguments: '{}' },
      { type: 'function_call_output', call_id: 'toolu_1', output: 'ok' },
    ]);
  });

  test('reasoning goes directly before its call, with ids if the provider keeps items', () => {
    const transcript = [
      reasoning('rs_1', 'fc_1'),
      call('c1', { id: 'fc_1', after: 'rs_1' }),
      result('c1', 'ok'),
    ];
    expect(input(transcript)).toMatchObject([
      { type: 'reasoning', id: 'rs_1' },
      { id: 'fc_1', call_id: 'c1' },
      {},
    ]);
    const stateless = input(transcript, { store: false });
    expect(stateless).toMatchObject([
      { type: 'reasoning', encrypted_content: 'secret' },
      { call_id: 'c1' },
      {},
    ]);
    expect(JSON.stringify(stateless)).not.toMatch(/rs_1|fc_1/);
  });

  test.each<[string, Item[]]>([
    [
      'without encrypted content',
      [reasoning('rs_1', 'fc_1', null), call('c1', { id: 'fc_1', after: 'rs_1' })],
    ],
    [
      'without the item it belongs to',
      [reasoning('rs_1', 'msg_9'), call('c1', { id: 'fc_1', after: 'rs_1' })],
    ],
    ['whose item was replaced by another', [reasoning('rs_1', 'msg_1'), answer('The meaning of life is 42')]],
    ['at the end', [answer('hi'), reasoning('rs_1', 'fc_1')]],
    ['followed by another item', [reasoning('rs_1', 'fc_1'), userMessage('hm'), call('c1', { id: 'fc_1' })]],
  ])('reasoning %s is an orphan and not sent', (_, transcript) => {
    const sent = input(transcript);
    expect(JSON.stringify(sent)).not.toContain('reasoning');
    expect(JSON.stringify(sent)).not.toContain('rs_1');
  });

  test('items after unsent reasoning are sent without their id, or not at all if the provider ran them', () => {
    const sent = input([
      reasoning('rs_1', 'ws_1', null),
      {
        type: 'provider_item',
        kind: 'web_search_call',
        opaque: mine({ item: { type: 'web_search_call', id: 'ws_1' }, after: 'rs_1' }),
      },
      call('c1', { id: 'fc_1', after: 'rs_1' }),
      result('c1', 'ok'),
    ]);
    expect(sent).toEqual([
      { type: 'function_call', call_id: 'c1', name: 'get_weather', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c1', output: 'ok' },
    ]);
  });

  test('calls and results match one to one', () => {
    const transcript = [
      result('never called', 'x'),
      call('c1'),
      call('c2'),
      result('c2', 'first'),
      result('c2', 'second'),
      userMessage('go on'),
      call('c3'),
    ];
    const short = (items: JsonValue | undefined) =>
      (items as JsonObject[]).map(item => [item.call_id ?? item.role, item.output]);
    const unknown = 'Error: The result of this call is not known.';
    expect(short(input(transcript))).toEqual([
      ['c1', undefined],
      ['c2', undefined],
      ['c1', unknown],
      ['c2', 'first'],
      ['user', undefined],
      ['c3', undefined],
      ['c3', unknown],
    ]);
    const continued = body(request([...transcript, userMessage('and?')], { continuation: 'resp_1' }));
    expect(short(continued.input)).toEqual([
      ['c3', unknown],
      ['user', undefined],
    ]);
  });

  test('ids of other providers that are too long are replaced, in call and result alike', () => {
    const long = 'x'.repeat(65);
    const [made, answered, kept] = input([
      call(long),
      result(long, 'a'),
      call('y'.repeat(64)),
      result('y'.repeat(64), 'b'),
    ]) as JsonObject[];
    expect(made?.call_id).toMatch(/^call_[0-9a-f]{32}$/);
    expect(answered?.call_id).toBe(made?.call_id);
    expect(kept?.call_id).toBe('y'.repeat(64));
  });

  test('a refusal and a phase go back unchanged', () => {
    const refused: Item = {
      type: 'message',
      role: 'assistant',
      content: [],
      opaque: mine({ refusal: 'no' }),
    };
    expect(input([refused, answer('soon', { phase: 'commentary' })])).toEqual([
      { role: 'assistant', content: [{ type: 'refusal', refusal: 'no' }] },
      { role: 'assistant', content: [{ type: 'output_text', text: 'soon' }], phase: 'commentary' },
    ]);
  });

  test('a custom call has its own form, as has its result, also after a continuation', () => {
    const custom = { ...call('c1', { as: 'custom_tool_call' }), arguments: '{"input":"print(1)"}' } as Item;
    const transcript = [userMessage('go'), custom, result('c1', '1')];
    const outputItem = { type: 'custom_tool_call_output', call_id: 'c1', output: '1' };
    expect(input(transcript)).toEqual([
      { role: 'user', content: 'go' },
      { type: 'custom_tool_call', call_id: 'c1', name: 'get_weather', input: 'print(1)' },
      outputItem,
    ]);
    expect(body(request(transcript, { continuation: 'resp_1' })).input).toEqual([outputItem]);
  });

  test('a call is sent back with its namespace and the program that made it, and so is its result', () => {
    const caller = { type: 'program', caller_id: 'call_p' };
    const made = { id: 'fc_1', namespace: 'shop', caller };
    const program = { type: 'program', id: 'cm_1', call_id: 'call_p', code: 'tools.buy()', fingerprint: 'f' };
    const ran: Item = { type: 'provider_item', kind: 'program', opaque: mine({ item: program }) };
    const transcript = [userMessage('go'), ran, call('c1', made), result('c1', '1')];
    const output = { type: 'function_call_output', call_id: 'c1', caller, output: '1' };
    const sent = { type: 'function_call', ...made, call_id: 'c1', name: 'get_weather', arguments: '{}' };
    expect(input(transcript)).toEqual([{ role: 'user', content: 'go' }, program, sent, output]);
    expect(body(request(transcript, { continuation: 'resp_1' })).input).toEqual([output]);
  });

  test('a program whose reasoning is not sent is not named by its calls', () => {
    const caller = { type: 'program', caller_id: 'call_p' };
    const program = { type: 'program', id: 'cm_1', call_id: 'call_p', code: 'tools.buy()' };
    const transcript: Item[] = [
      userMessage('go'),
      reasoning('rs_1', 'cm_1', null),
      { type: 'provider_item', kind: 'program', opaque: mine({ item: program, after: 'rs_1' }) },
      call('c1', { id: 'fc_1', caller, after: 'rs_1' }),
      result('c1', '1'),
    ];
    expect(input(transcript)).toEqual([
      { role: 'user', content: 'go' },
      { type: 'function_call', call_id: 'c1', name: 'get_weather', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c1', output: '1' },
    ]);
  });

  test('a continuation is not used without a model turn to continue from', () => {
    const sent = body(request('hi', { continuation: 'resp_1' }));
    expect(sent).toEqual({ model: 'gpt-4.1', input: [{ role: 'user', content: 'hi' }] });
  });
});
