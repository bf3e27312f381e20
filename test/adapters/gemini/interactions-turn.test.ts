import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import { calling, rejection, request, sumOf } from '../../support/adapters/requests.ts';
import {
  answering,
  bodyOf,
  call,
  events,
  generate,
  interaction,
  pieces,
  SEARCH,
  says,
  stream,
  thought,
} from '../../support/adapters/wire/interaction-stream.ts';

describe('the steps of an interaction', () => {
  test('are the same turn, whole or streamed in pieces', async () => {
    const whole = interaction([
      thought('sig-0', 'Hm, let me see.'),
      ...SEARCH,
      says({ type: 'text', text: 'Both of them.', annotations: [{ type: 'url_citation', url: 'u' }] }),
      call('c1', 'look', { signature: 'sig-3' }),
    ]);
    const { steps: _, ...rest } = whole;
    const [searched, found] = SEARCH;
    const { turn, deltas } = await stream(
      events(
        rest,
        ...pieces(
          0,
          { type: 'thought', signature: '', summary: [{ type: 'text', text: 'Hm, ' }] },
          { type: 'thought_summary', content: { type: 'text', text: 'let me see.' } },
          { type: 'thought_signature', signature: 'sig-0' },
        ),
        ...pieces(1, { type: 'google_search_call', id: 's1', signature: '' }, { ...searched }),
        ...pieces(2, { type: 'google_search_result', call_id: 's1' }, { ...found }),
        ...pieces(
          3,
          { type: 'model_output', content: [{ type: 'text', text: 'Both' }] },
          { type: 'text', text: ' of them.' },
          { type: 'text_annotation_delta', annotations: [{ type: 'url_citation', url: 'u' }] },
        ),
        ...pieces(
          4,
          { type: 'function_call', id: 'c1', name: 'look', arguments: {}, signature: '' },
          { type: 'arguments_delta', arguments: '{"a"' },
          { type: 'arguments_delta', arguments: ':1}', signature: 'sig-3' },
        ),
      ),
    );
    expect(turn).toEqual(await generate(whole));
    expect(turn).toMatchObject({
      text: 'Both of them.',
      reasoning: 'Hm, let me see.',
      finishReason: 'tool_calls',
      continuation: 'v1_1',
    });
    expect(turn.items.map(item => ('kind' in item ? item.kind : item.type))).toEqual([
      ...['reasoning', 'google_search_call', 'google_search_result', 'message', 'tool_call'],
    ]);
    expect(sumOf(deltas)).toEqual({
      text: turn.text,
      reasoning: turn.reasoning,
      calls: [['look', '{"a":1}']],
    });
  });

  test('that repeat the input are not part of the turn', async () => {
    const echoed = { type: 'user_input', content: [{ type: 'text', text: 'hi' }] };
    expect((await generate(interaction([echoed, says('hello')]))).items).toHaveLength(1);
  });

  test('have images and files as parts of the message, and sounds in one piece', async () => {
    const image = { type: 'image', mime_type: 'image/jpeg', data: 'AAAA' };
    const sound = (data: string) => ({ type: 'audio', mime_type: 'audio/l16', data, sample_rate: 24_000 });
    const whole = interaction([says('See:', image, sound(btoa('one, two')))]);
    const turn = await generate(whole);
    expect(turn.items).toMatchObject([
      {
        content: [
          { type: 'text', text: 'See:' },
          { type: 'image', url: 'data:image/jpeg;base64,AAAA' },
          { type: 'file', url: `data:audio/l16;base64,${btoa('one, two')}`, mediaType: 'audio/l16' },
        ],
      },
    ]);
    const { steps: _, ...rest } = whole;
    const deltas = [{ type: 'text', text: 'See:' }, image, sound(btoa('one')), sound(btoa(', two'))];
    const streamed = await stream(events(rest, ...pieces(0, { type: 'model_output' }, ...deltas)));
    expect(streamed.turn).toEqual(turn);
  });

  test('of a new kind are kept, in a stream too', async () => {
    const whole = interaction([says('See:', { type: 'hologram', frames: [1] })]);
    const turn = await generate(whole);
    expect(turn.items.map(item => ('kind' in item ? item.kind : item.type))).toEqual(['message', 'hologram']);
    const { steps: _, ...rest } = whole;
    const deltas = [
      { type: 'text', text: 'See:' },
      { type: 'hologram', frames: [1] },
    ];
    expect((await stream(events(rest, ...pieces(0, { type: 'model_output' }, ...deltas)))).turn).toEqual(
      turn,
    );
  });

  test('have annotations by UTF-16 code units, and go back with bytes of UTF-8', async () => {
    const cited = { type: 'url_citation', url: 'u', start_index: 6, end_index: 10 };
    const step = says({ type: 'text', text: 'Köln 🌦!', annotations: [cited] });
    const { items } = await generate(interaction([step]));
    expect(items).toMatchObject([
      { content: [{ annotations: [{ ...cited, start_index: 5, end_index: 7 }] }] },
    ]);
    const { input } = await bodyOf([userMessage('hi'), ...items, userMessage('and?')]);
    expect(input).toMatchObject([{}, step, {}]);
  });

  test('with calls that have no id, or one that was used, are named here, and cannot be continued', async () => {
    for (const steps of [[call('')], [call('c'), call('c')]]) {
      const turn = await generate(interaction(steps));
      expect(new Set(turn.toolCalls.map(({ callId }) => callId)).size).toBe(steps.length);
      expect(turn.continuation).toBeUndefined();
    }
  });

  test('with a call that has no name are malformed', async () => {
    const nameless = interaction([call('c1', '')]);
    for (const turn of [generate(nameless), stream(events(nameless))])
      expect(await rejection(turn)).toMatchObject({ code: 'malformed-stream', retryable: true });
  });
});

describe('the end of an interaction', () => {
  const ends: [status: string, more: JsonObject, expected: string][] = [
    ['completed', {}, 'stop'],
    ['requires_action', {}, 'unknown'],
    ['incomplete', {}, 'length'],
    ['incomplete', { errors: [{ code: 'safety', message: 'no' }] }, 'content_filter'],
    ['incomplete', { errors: [{ code: 'https://x.test/errors/prohibited_content' }] }, 'content_filter'],
    ['budget_exceeded', {}, 'length'],
    ['requires_continuation', { continuation_token: 't' }, 'pause'],
    ['requires_continuation', { continuation_token: 't', id: '' }, 'pause'],
    ['requires_continuation', {}, 'length'],
    ['requires_continuation', { continuation_token: 't', steps: [call('c1')] }, 'length'],
    ['something_new', {}, 'unknown'],
  ];
  test.each(ends)('with the status %s and %j is %s', async (status, more, expected) => {
    const body = interaction([says('hi')], { status, ...more });
    const turn = await generate(body);
    expect(turn.finishReason).toBe(expected);
    expect((await stream(events(body))).turn).toEqual(turn);
  });

  test.each(['completed', 'requires_action'])('with calls and the status %s is tool_calls', async status => {
    expect((await generate(interaction([call('c1')], { status }))).finishReason).toBe('tool_calls');
  });

  test('a call does not change another status', async () => {
    const turn = await generate(interaction([call('c1')], { status: 'incomplete' }));
    expect(turn).toMatchObject({ finishReason: 'length' });
    expect(turn.continuation).toBeUndefined();
  });

  test.each([
    ['failed', [{ code: 'safety', message: 'Blocked.' }], 'content-filter', false],
    ['failed', [{ code: 'rate_limit_exceeded', message: 'Slow down.' }], 'rate-limit', true],
    ['failed', undefined, 'unknown', false],
    ['cancelled', undefined, 'unknown', false],
  ])('with the status %s and the errors %j is an error', async (status, errors, code, retryable) => {
    const body = interaction([], { status, ...(errors && { errors }) });
    for (const turn of [generate(body), stream(events(body))])
      expect(await rejection(turn)).toMatchObject({ code, retryable });
  });

  test.each(['queued', 'in_progress'])('with the status %s names the option background', async status => {
    const error = await rejection(generate(interaction([], { status })));
    expect(error).toMatchObject({ code: 'invalid-request', retryable: false });
    expect(String(error)).toContain('remove the option background');
  });

  test('that never comes is a truncated stream, even after a call', async () => {
    const cut = events(interaction([says('hi'), call('c1')])).replace(/event: interaction\.completed.*/s, '');
    for (const text of [cut, `${cut}data: [DONE]\n\n`, '']) {
      const error = await rejection(stream(text));
      expect(error).toMatchObject({ code: 'malformed-stream', retryable: true });
      expect(String(error)).toContain('without interaction.completed or an error');
    }
  });

  test.each([
    ['requires_action', 'tool_calls'],
    ['incomplete', 'length'],
  ])('ends the stream with an update to %s, if nothing follows', async (status, expected) => {
    const body = interaction([says('hi'), call('c1')], { status });
    const update = { event_type: 'interaction.status_update', interaction_id: 'v1_1', status };
    const cut = events(body, update).replace(/event: interaction\.completed.*/s, '');
    expect((await stream(cut)).turn).toMatchObject({ finishReason: expected, text: 'hi' });
  });

  test('of a body without a status is malformed', async () => {
    expect(await rejection(generate({ steps: [] }))).toMatchObject({ code: 'malformed-stream' });
  });
});

describe('usage', () => {
  test('counts the tokens of provider tools as input and thoughts as output', async () => {
    const usage = {
      total_input_tokens: 12,
      total_tool_use_tokens: 50,
      total_cached_tokens: 8,
      total_output_tokens: 200,
      total_thought_tokens: 58,
      total_tokens: 320,
    };
    expect((await generate(interaction([says('hi')], { usage }))).usage).toEqual({
      inputTokens: 62,
      outputTokens: 258,
      cachedInputTokens: 8,
      cacheWriteTokens: null,
      reasoningTokens: 58,
    });
  });

  test.each([
    [
      'of its last event',
      [],
      { metadata: { total_usage: { total_input_tokens: 3, total_output_tokens: 2 } } },
    ],
    [
      'of an update of its status',
      [
        {
          event_type: 'interaction.status_update',
          status: 'completed',
          usage: { total_input_tokens: 3, total_output_tokens: 2 },
        },
      ],
      {},
    ],
  ])('of a stream whose interaction has none is that %s', async (_, between, more) => {
    const last = '"event_type":"interaction.completed"';
    const text = events(interaction([says('hi')]), ...between).replace(
      last,
      `${last},${JSON.stringify({ ...more, event_id: 'e' }).slice(1, -1)}`,
    );
    expect((await stream(text)).turn.usage).toMatchObject({ inputTokens: 3, outputTokens: 2 });
  });

  test('that is missing is unknown', async () => {
    expect((await generate(interaction([says('hi')]))).usage).toBeNull();
  });
});

describe('an error', () => {
  test.each([
    ['safety', 'content-filter', false],
    ['malformed_function_call', 'server', true],
    ['gateway_timeout', 'timeout', true],
    ['authentication', 'authentication', false],
    ['payment_required', 'quota', false],
    ['parameter_unknown', 'invalid-request', false],
    ['api_error', 'server', true],
  ])('in a stream with the code %s is %s', async (code, expected, retryable) => {
    const body = interaction([says('hi')]);
    const failing = events(body, { event_type: 'error', error: { code, message: 'No.' } });
    expect(await rejection(stream(failing))).toMatchObject({ code: expected, retryable });
  });

  test('event without a reason is an error too', async () => {
    expect(await rejection(stream(events(interaction([]), { event_type: 'error' })))).toMatchObject({
      code: 'unknown',
    });
  });

  test('of a request names what the provider said', async () => {
    const { adapter } = answering([{ error: { code: 'model_not_found', message: 'No model m.' } }]);
    const error = await rejection(adapter.generate(request('hi'), calling()));
    expect(error).toMatchObject({ code: 'not-found', provider: 'gemini-interactions' });
    expect(String(error)).toContain('No model m.');
  });
});
