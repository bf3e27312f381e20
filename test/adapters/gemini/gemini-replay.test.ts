import { describe, expect, test } from 'vitest';
import { gemini } from '../../../adapters/gemini.ts';
import type { Item } from '../../../protocol/item.ts';
import type { JsonObject, JsonValue } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { ModelTurn } from '../../../protocol/turn.ts';
import { calling, request, result } from '../../support/adapters/requests.ts';
import {
  answer,
  body,
  call,
  called,
  contents,
  model,
  responded,
  user,
} from '../../support/adapters/wire/gemini-request.ts';

const mine = (data: JsonValue) => ({ opaque: { provider: 'gemini', data } });
const foreign = { opaque: { provider: 'anthropic', data: { thoughtSignature: 'bad', hasId: true } } };

/** The messages sent for a turn of the provider whose items were stored as JSON, with a result for each call. */
async function replayed(parts: JsonObject[], name = 'gemini-3-flash'): Promise<JsonValue | undefined> {
  const response = { candidates: [{ content: { role: 'model', parts }, finishReason: 'STOP' }] };
  const fetch = async () => Response.json(response);
  const adapter = gemini({ model: name, apiKey: 'test', baseURL: 'http://provider.test', fetch });
  const turn: ModelTurn = await adapter.generate(request('hi'), calling());
  const items: Item[] = JSON.parse(JSON.stringify(turn.items));
  const results = turn.toolCalls.map(({ callId }) => result(callId, 'sunny'));
  return body(request([userMessage('hi'), ...items, ...results, userMessage('on')]), name).contents;
}

describe('a turn that is sent back', () => {
  test('has its original parts: signatures, order and boundaries', async () => {
    const parts = [
      { text: 'Let me ', thoughtSignature: 'czE=' },
      { text: 'see.' },
      { executableCode: { language: 'PYTHON', code: '1' }, thoughtSignature: 'czI=' },
      { codeExecutionResult: { outcome: 'OUTCOME_OK', output: '1' } },
      { functionCall: { name: 'weather', args: { city: 'Rome', n: 0 } }, thoughtSignature: 'a+/b_-==' },
      { functionCall: { name: 'weather', args: {} } },
      { text: '', thoughtSignature: 'czM=' },
    ];
    expect(await replayed(parts)).toEqual([
      user({ text: 'hi' }),
      model(...parts),
      user(responded({ result: 'sunny' }), responded({ result: 'sunny' })),
      user({ text: 'on' }),
    ]);
  });

  test('has an image with its signature', async () => {
    const parts = [
      { text: 'Look:' },
      { inlineData: { mimeType: 'image/png', data: 'aGk=' }, thoughtSignature: 'cw==' },
    ];
    expect(await replayed(parts)).toEqual([user({ text: 'hi' }), model(...parts), user({ text: 'on' })]);
  });

  test('repeats only ids that the provider assigned', async () => {
    const given = { functionCall: { name: 'weather', args: {}, id: 'their' }, thoughtSignature: 'cw==' };
    const ours = { functionCall: { name: 'weather', args: {} } };
    expect(await replayed([given, ours])).toEqual([
      user({ text: 'hi' }),
      model(given, ours),
      user(responded({ result: 'sunny' }, { id: 'their' }), responded({ result: 'sunny' })),
      user({ text: 'on' }),
    ]);
  });

  test('repeats an id as renamed by the run, in call and response alike', () => {
    const renamed = call('their_2', mine({ hasId: true, thoughtSignature: 'cw==' }));
    expect(contents([userMessage('hi'), renamed, result('their_2', 'sunny')])).toEqual([
      user({ text: 'hi' }),
      model({
        functionCall: { name: 'weather', args: { city: 'Rome' }, id: 'their_2' },
        thoughtSignature: 'cw==',
      }),
      user(responded({ result: 'sunny' }, { id: 'their_2' })),
    ]);
  });

  test('has thoughts only with a signature, and never as text', async () => {
    const signed = { text: 'hm', thought: true, thoughtSignature: 'cw==' };
    expect(await replayed([{ text: 'aha', thought: true }, { text: 'Yes.' }])).toEqual([
      user({ text: 'hi' }),
      model({ text: 'Yes.' }),
      user({ text: 'on' }),
    ]);
    expect(await replayed([signed, { text: 'Yes.' }])).toEqual([
      user({ text: 'hi' }),
      model(signed, { text: 'Yes.' }),
      user({ text: 'on' }),
    ]);
  });

  test('leaves out search results', () => {
    const found: Item = { type: 'provider_item', kind: 'groundingMetadata', ...mine({ queries: [] }) };
    expect(contents([userMessage('hi'), answer('Sunny.'), found])).toEqual([
      user({ text: 'hi' }),
      model({ text: 'Sunny.' }),
    ]);
  });

  test('has text without a signature once the text was edited', () => {
    const edited = answer('Sunny!', mine({ spans: [{ length: 3, thoughtSignature: 'cw==' }] }));
    expect(contents([userMessage('hi'), edited])).toEqual([user({ text: 'hi' }), model({ text: 'Sunny!' })]);
  });
});

describe('a turn of another provider', () => {
  const turn: Item[] = [
    { type: 'reasoning', text: 'secret', ...foreign },
    answer('Let me see.', foreign),
    call('a', foreign),
    call('b', foreign),
    result('a', 'sunny'),
    result('b', 'rainy'),
  ];
  const responses = user(responded({ result: 'sunny' }), responded({ result: 'rainy' }));

  test.each(['gemini-2.5-pro', 'gemini-3-pro-preview', 'gemini-flash-latest'])(
    'loses its opaque data, and its first call is marked as unsigned (%s)',
    name => {
      expect(contents([userMessage('hi'), ...turn], name)).toEqual([
        user({ text: 'hi' }),
        model(
          { text: 'Let me see.' },
          called({ thoughtSignature: 'skip_thought_signature_validator' }),
          called(),
        ),
        responses,
      ]);
    },
  );

  test.each(['gemini-2.0-flash', 'gemini-1.5-pro', 'tunedModels/mine', 'gemma-3-27b-it', 'gemini-exp-1206'])(
    'has no mark if calls are not signed (%s)',
    name => {
      expect(contents([userMessage('hi'), ...turn], name)).toEqual([
        user({ text: 'hi' }),
        model({ text: 'Let me see.' }, called(), called()),
        responses,
      ]);
    },
  );

  test('with an unsigned call of an older Gemini is marked for Gemini 3 only', () => {
    const own = [userMessage('hi'), call('a', mine({ hasId: true })), result('a', 'sunny')];
    expect(JSON.stringify(contents(own, 'gemini-2.5-flash'))).not.toContain('thoughtSignature');
    expect(JSON.stringify(contents(own, 'gemini-3.1-pro-preview'))).toContain('skip_thought');
  });

  test('with arguments that are not an object is sent with empty arguments', () => {
    const broken = [call('a', { arguments: '{"city":' }), call('b', { arguments: '[]' })];
    expect(contents([userMessage('hi'), ...broken], 'gemini-2.0-flash')).toMatchObject([
      {},
      model({ functionCall: { name: 'weather', args: {} } }, { functionCall: { name: 'weather', args: {} } }),
      {},
    ]);
  });

  test('loses its images, and its empty messages', () => {
    const picture: Item = {
      type: 'message',
      role: 'assistant',
      content: [{ type: 'image', url: 'data:image/png;base64,aGk=' }],
    };
    expect(contents([userMessage('hi'), picture, answer(''), userMessage('on')])).toEqual([
      user({ text: 'hi' }, { text: 'on' }),
    ]);
  });
});
