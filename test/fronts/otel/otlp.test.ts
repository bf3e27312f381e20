import { afterEach, describe, expect, test } from 'vitest';
import { type OtlpOptions, postSpans, toOtlp, tracesUrl } from '../../../fronts/otel/otlp.ts';
import type { RunSpan } from '../../../fronts/otel/run-span.ts';
import { receiveOtlp } from '../../support/fronts/otel/otlp-receiver.ts';

const SPAN: RunSpan = {
  traceId: 'a'.repeat(32),
  spanId: 'b'.repeat(16),
  name: 'chat m',
  kind: 'client',
  start: 1_700_000_000_000.25,
  end: 1_700_000_000_001,
  attributes: { text: 'x', yes: true, whole: 7, part: 0.5, list: ['stop'] },
  error: 'overloaded',
};

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

async function receiver(...answers: NonNullable<Parameters<typeof receiveOtlp>[0]>) {
  const opened = await receiveOtlp(answers);
  closing.push(opened.close);
  return opened;
}

async function* spansOf(count: number) {
  for (let index = 0; index < count; index += 1) yield { ...SPAN, spanId: String(index).padStart(16, '0') };
}

function options(url: string, pauses: number[] = []): OtlpOptions {
  return { url, service: 'shop', version: '1', sleep: async ms => void pauses.push(ms) };
}

describe('a span over OTLP', () => {
  test('has hex ids, times in nanoseconds as text, and typed attributes', () => {
    expect(toOtlp([SPAN], { service: 'shop', version: '1' })).toEqual({
      resourceSpans: [
        {
          resource: { attributes: [{ key: 'service.name', value: { stringValue: 'shop' } }] },
          scopeSpans: [
            {
              scope: { name: 'agentchart', version: '1' },
              spans: [
                {
                  traceId: 'a'.repeat(32),
                  spanId: 'b'.repeat(16),
                  name: 'chat m',
                  kind: 3,
                  flags: 1,
                  startTimeUnixNano: '1700000000000250000',
                  endTimeUnixNano: '1700000000001000000',
                  attributes: [
                    { key: 'text', value: { stringValue: 'x' } },
                    { key: 'yes', value: { boolValue: true } },
                    { key: 'whole', value: { intValue: '7' } },
                    { key: 'part', value: { doubleValue: 0.5 } },
                    { key: 'list', value: { arrayValue: { values: [{ stringValue: 'stop' }] } } },
                  ],
                  status: { code: 2, message: 'overloaded' },
                },
              ],
            },
          ],
        },
      ],
    });
  });

  test('is posted below the address of the receiver, with its path kept', () => {
    expect(tracesUrl('http://h:4318')).toBe('http://h:4318/v1/traces');
    expect(tracesUrl('http://h:4318/otlp/')).toBe('http://h:4318/otlp/v1/traces');
    expect(tracesUrl('http://h:4318/v1/traces')).toBe('http://h:4318/v1/traces');
  });
});

describe('posting spans', () => {
  test('sends all of them in requests of bounded size', async () => {
    const { url, received } = await receiver();
    expect(await postSpans(spansOf(450), options(url))).toBe(450);
    expect(received.map(({ path }) => path)).toEqual(['/v1/traces', '/v1/traces', '/v1/traces']);
    expect(received[0]?.headers['content-type']).toBe('application/json');
  });

  test('tries again after the pause that the receiver asks for', async () => {
    const { url, received } = await receiver(
      { status: 503, headers: { 'retry-after': '2' } },
      { status: 429 },
    );
    const pauses: number[] = [];
    expect(await postSpans(spansOf(1), options(url, pauses))).toBe(1);
    expect(received).toHaveLength(3);
    expect(pauses).toEqual([2_000, 1_000]);
  });

  test('fails with what the receiver says: a refusal, rejected spans, a redirect, no answer', async () => {
    const refusing = await receiver({ status: 400, body: 'bad spans' });
    await expect(postSpans(spansOf(1), options(refusing.url))).rejects.toThrow(/answered 400: bad spans/);
    const partial = JSON.stringify({ partialSuccess: { rejectedSpans: '1', errorMessage: 'too old' } });
    const rejecting = await receiver({ status: 200, body: partial });
    await expect(postSpans(spansOf(1), options(rejecting.url))).rejects.toThrow(/rejected 1 spans: too old/);
    const moving = await receiver({ status: 307, headers: { location: 'http://127.0.0.1:9/' } });
    await expect(postSpans(spansOf(1), options(moving.url))).rejects.toThrow(/answered 307/);
    const pauses: number[] = [];
    refusing.close();
    await expect(postSpans(spansOf(1), options(refusing.url, pauses))).rejects.toThrow(/No answer/);
    expect(pauses).toEqual([500, 1_000, 2_000]);
  });
});
