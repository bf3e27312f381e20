import { describe, expect, test } from 'vitest';
import { errorFromBody, errorFromResponse, HttpFailure } from '../../../adapters/http/provider-errors.ts';
import { redactText } from '../../../adapters/http/redact-secrets.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import { readRecording, recordedTurns, recordingsArePresent } from '../../support/adapters/recordings.ts';
import { context, fromHttp, NOW, SECRET } from '../../support/adapters/wire/provider-errors.ts';

describe('an error response', () => {
  const rows: [string, number, JsonValue, string, boolean][] = [
    [
      'OpenAI bad key',
      401,
      { error: { message: 'no', type: 'invalid_request_error', code: 'invalid_api_key' } },
      'authentication',
      false,
    ],
    [
      'Azure bad key as a string code',
      401,
      { error: { code: '401', message: 'Access denied' } },
      'authentication',
      false,
    ],
    [
      'Anthropic bad key',
      401,
      { type: 'error', error: { type: 'authentication_error', message: 'invalid x-api-key' } },
      'authentication',
      false,
    ],
    [
      'xAI bad key in a 400',
      400,
      { code: 'invalid-argument', error: 'Incorrect API key provided.' },
      'authentication',
      false,
    ],
    [
      'Gemini bad key in a 400',
      400,
      {
        error: {
          code: 400,
          status: 'INVALID_ARGUMENT',
          message: 'API key not valid.',
          details: [{ reason: 'API_KEY_INVALID' }],
        },
      },
      'authentication',
      false,
    ],
    ['Mistral detail', 401, { detail: 'Invalid API Key' }, 'authentication', false],
    ['Mistral validation', 422, { detail: [{ msg: 'field required' }] }, 'invalid-request', false],
    [
      'Mistral top level',
      400,
      { object: 'error', message: 'bad id', type: 'invalid_request_error', code: '3280' },
      'invalid-request',
      false,
    ],
    ['Ollama text', 404, { error: 'model "x" not found' }, 'not-found', false],
    [
      'a forbidden model',
      403,
      { error: { type: 'permission_error', message: 'no access' } },
      'permission',
      false,
    ],
    [
      'an unknown model in a 400',
      400,
      { error: { code: 'model_not_found', message: 'no such model' } },
      'not-found',
      false,
    ],
    [
      'OpenAI quota in a 429',
      429,
      {
        error: {
          type: 'insufficient_quota',
          code: 'insufficient_quota',
          message: 'You exceeded your current quota',
        },
      },
      'quota',
      false,
    ],
    ['payment required', 402, { error: { message: 'Insufficient Balance' } }, 'quota', false],
    [
      'Anthropic credit in a 400',
      400,
      { type: 'error', error: { type: 'invalid_request_error', message: 'Your credit balance is too low' } },
      'quota',
      false,
    ],
    ['a rate limit', 429, { error: { code: 'rate_limit_exceeded', message: 'slow' } }, 'rate-limit', true],
    [
      'Gemini quota per minute',
      429,
      { error: { code: 429, status: 'RESOURCE_EXHAUSTED', message: 'You exceeded your current quota' } },
      'rate-limit',
      true,
    ],
    [
      'Anthropic overload',
      529,
      { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } },
      'overloaded',
      true,
    ],
    ['unavailable', 503, 'upstream connect error', 'overloaded', true],
    ['a server error', 500, '<html>oops</html>', 'server', true],
    ['a bad gateway', 502, '', 'server', true],
    ['a gateway timeout', 504, '', 'timeout', true],
    ['a request timeout', 408, '', 'timeout', true],
    ['a conflict', 409, { error: { message: 'busy' } }, 'server', true],
    [
      'OpenAI context',
      400,
      { error: { code: 'context_length_exceeded', message: 'too long' } },
      'context-too-long',
      false,
    ],
    [
      'Anthropic context',
      400,
      { type: 'error', error: { type: 'invalid_request_error', message: 'prompt is too long: 9 > 8' } },
      'context-too-long',
      false,
    ],
    [
      'Gemini context',
      400,
      {
        error: {
          code: 400,
          status: 'INVALID_ARGUMENT',
          message: 'The input token count (9) exceeds the maximum number of tokens allowed (8).',
        },
      },
      'context-too-long',
      false,
    ],
    ...(
      [
        ['xAI', "This model's maximum prompt length is 131072 but the request contains 136973 tokens."],
        [
          'vLLM',
          "You passed 4097 input tokens and requested 32 output tokens. However, the model's context length is only 4096 tokens, resulting in a maximum input length of 4064 tokens.",
        ],
        [
          'llama.cpp',
          'request (9412 tokens) exceeds the available context size (8192 tokens), try increasing it',
        ],
        ['Ollama', 'prompt too long; exceeded max context length by 1119046 tokens (ref: 96164522)'],
      ] as const
    ).map(([provider, message]): (typeof rows)[number] => [
      `${provider} context`,
      400,
      { error: message },
      'context-too-long',
      false,
    ]),
    ['a body that is too large', 413, '', 'context-too-long', false],
    [
      'Azure content filter',
      400,
      { error: { code: 'content_filter', message: 'filtered' } },
      'content-filter',
      false,
    ],
    [
      'Anthropic content filter',
      400,
      {
        type: 'error',
        error: { type: 'invalid_request_error', message: 'Output blocked by content filtering policy' },
      },
      'content-filter',
      false,
    ],
    [
      'DeepSeek content filter',
      400,
      { error: { message: 'Content Exists Risk', type: 'invalid_request_error' } },
      'content-filter',
      false,
    ],
    [
      'xAI content filter',
      403,
      {
        code: 'The caller does not have permission to execute the specified operation',
        error: 'Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO',
      },
      'content-filter',
      false,
    ],
    [
      'OpenRouter moderation',
      403,
      {
        error: {
          code: 403,
          message:
            'anthropic/claude-3-opus requires moderation on Anthropic. Your input was flagged for "violence".',
        },
      },
      'content-filter',
      false,
    ],
    ['Groq flex capacity', 498, { error: { type: 'capacity_exceeded' } }, 'overloaded', true],
    ['any other error', 400, { error: { message: 'bad temperature' } }, 'invalid-request', false],
  ];

  test.each(rows)('%s (%i) maps to its code', (_, status, body, code, retryable) => {
    const error = fromHttp(status, body);
    expect([error.code, error.retryable, error.status]).toEqual([code, retryable, status]);
  });

  test.each<[Record<string, string>, number | null]>([
    [{ 'retry-after': '7' }, 7_000],
    [{ 'retry-after': '1', 'retry-after-ms': '250' }, 250],
    [{ 'retry-after': '1', 'retry-after-ms': '0' }, 0],
    [{ 'retry-after': 'Thu, 01 Jan 2026 00:00:30 GMT' }, 30_000],
    [{ 'retry-after': 'Wed, 31 Dec 2025 00:00:00 GMT' }, 0],
    [{ 'retry-after': 'soon' }, null],
    [{}, null],
  ])('headers %j ask to wait %s ms', (headers, ms) => {
    expect(fromHttp(429, {}, headers).retryAfterMs).toBe(ms);
  });

  test("Gemini's retry delay is read from the body", () => {
    const details = [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '34.4s' }];
    const error = fromHttp(429, [{ error: { code: 429, message: 'x', details } }]);
    expect(error.retryAfterMs).toBe(34_400);
    expect(error.message).toContain('Try again in 34.4 s.');
  });

  test('a rejected key names the variable to set', () => {
    expect(fromHttp(401, {}).message).toContain('Set OPENAI_API_KEY');
  });

  test("Mistral's complaints about members of the request are in the message", () => {
    const detail = [
      { type: 'extra_forbidden', loc: ['body', 'store'], msg: 'Extra inputs are not permitted' },
    ];
    const error = fromHttp(422, { object: 'error', message: { detail }, type: 'invalid_request_error' });
    expect(error.message).toContain('Extra inputs are not permitted');
  });

  test('the request id is in the message', () => {
    expect(fromHttp(500, {}, { 'x-request-id': 'req_7' }).message).toContain('request req_7');
  });

  test("OpenRouter's upstream reason is in the message", () => {
    const raw = {
      error: { code: 429, message: 'Provider returned error', metadata: { raw: 'rate-limited upstream' } },
    };
    expect(fromHttp(429, raw).message).toContain('rate-limited upstream');
  });
});

const recordedErrors = recordedTurns('').filter(turn => turn.expect.outcome === 'http_error');

test("a provider's statement that a retry is useless is respected", () => {
  const busy = { error: { message: 'busy' } };
  expect(fromHttp(503, busy, { 'x-should-retry': 'false' })).toMatchObject({
    code: 'overloaded',
    retryable: false,
  });
  expect(fromHttp(503, busy, { 'x-should-retry': 'true' }).retryable).toBe(true);
});

describe('every recorded error response', () => {
  test.skipIf(!recordingsArePresent)('is mapped here', () => {
    expect(recordedErrors.length).toBeGreaterThan(10);
  });

  const codes: Record<number, readonly string[]> = {
    400: ['invalid-request', 'authentication'],
    401: ['authentication'],
    404: ['not-found'],
    429: ['rate-limit'],
  };
  test.each(recordedErrors)('$name', turn => {
    const body = readRecording(turn.response).toString('utf8');
    const error = errorFromResponse(
      new HttpFailure(turn.status, new Headers(turn.headers), body),
      context,
      NOW,
    );
    expect(codes[turn.status]).toContain(error.code);
    expect(error.code === 'authentication').toBe(
      /key|Unauthorized|Authentication/i.test(turn.expect.error?.message ?? ''),
    );
    expect(error.message).toContain(redactText(turn.expect.error?.message ?? '', [SECRET]).slice(0, 60));
  });
});

describe('an error in a 200', () => {
  test.each<[string, JsonValue, string, boolean]>([
    [
      'Anthropic',
      { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } },
      'overloaded',
      true,
    ],
    ['OpenAI flat', { type: 'error', code: 'server_error', message: 'sorry', param: null }, 'server', true],
    [
      'OpenAI nested',
      { type: 'error', error: { code: 'insufficient_quota', message: 'no' } },
      'quota',
      false,
    ],
    ['OpenAI rate', { error: { code: 'rate_limit_exceeded', message: 'wait' } }, 'rate-limit', true],
    ['Open Responses', { type: 'error', error: { type: 'model_error', message: 'm' } }, 'server', true],
    ['OpenRouter', { error: { code: 502, message: 'upstream' }, choices: [] }, 'server', true],
    [
      'Groq',
      { error: { code: 'tool_use_failed', status_code: 400, message: 'bad' } },
      'invalid-request',
      false,
    ],
    ...['bio_policy', 'misalignment_policy_violation', 'image_content_policy_violation'].map(
      (code): [string, JsonValue, string, boolean] => [
        `OpenAI ${code}`,
        { status: 'failed', error: { code, message: 'no' } },
        'content-filter',
        false,
      ],
    ),
    [
      'OpenAI overload',
      {
        status: 'failed',
        error: { code: 'server_is_overloaded', message: 'Selected model is at capacity.' },
      },
      'overloaded',
      true,
    ],
    ['Anthropic billing', { type: 'error', error: { type: 'billing_error', message: 'no' } }, 'quota', false],
    [
      'Mistral',
      { object: 'error', type: 'unreachable_backend', message: 'Service unavailable.', raw_status_code: 503 },
      'overloaded',
      true,
    ],
    [
      'xAI',
      { code: 'The service is currently unavailable', error: 'Timed out waiting for first token' },
      'overloaded',
      true,
    ],
    ['xAI rate', { code: 'Some resource has been exhausted', error: 'wait' }, 'rate-limit', true],
    ['Ollama', { error: 'something odd' }, 'unknown', false],
  ])('%s maps to its code', (_, body, code, retryable) => {
    const error = errorFromBody(body, context);
    expect([error.code, error.retryable]).toEqual([code, retryable]);
  });

  test.each<[string, number | null]>([
    ['Rate limit reached for gpt-5 on tokens per min (TPM). Please try again in 11.054s. Visit', 11_054],
    ['Please try again in 20ms.', 20],
    ['Please try again in 7m54.5s.', 474_500],
    ['Please try again in 1h2m3s.', 3_723_000],
    ['Please retry after 21 seconds.', 21_000],
    ['Please try again in 5 minutes.', null],
    ['Please try again later.', null],
    ['Limit 2, used 3. Try again in a minute.', null],
  ])('may say when to try again: %s', (message, expected) => {
    const error = errorFromBody({ error: { code: 'rate_limit_exceeded', message } }, context);
    expect(error.retryAfterMs).toBe(expected);
  });
});
