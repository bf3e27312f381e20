import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isDone, readNdjson, readSse } from '../../../adapters/http/read-sse.ts';
import { collect } from '../../support/adapters/requests.ts';

const encoder = new TextEncoder();

async function* chunked(bytes: Uint8Array, cuts: readonly number[]): AsyncGenerator<Uint8Array> {
  let from = 0;
  for (const cut of [...cuts, bytes.length].toSorted((a, b) => a - b)) {
    yield bytes.slice(from, cut);
    from = Math.max(from, cut);
  }
}

async function events(text: string, cuts: readonly number[] = []) {
  return (await collect(readSse(chunked(encoder.encode(text), cuts)))).flat();
}

test.each(['[DONE]', ' [DONE]', '[DONE]\t', '\u00a0[DONE] '])('%j is the end marker of a stream', data => {
  expect(isDone(data)).toBe(true);
});

test.each(['', ' ', '[DONE]x', '{}', '[done]', '"[DONE]"'])('%j does not end a stream', data => {
  expect(isDone(data)).toBe(false);
});

describe('readSse', () => {
  test('comments, ids and retry hints produce no event', async () => {
    expect(await events(': OPENROUTER PROCESSING\n\n: ping\nid: 4\nretry: 10\n\ndata: x\n\n')).toEqual([
      { event: '', data: 'x' },
    ]);
  });

  test('data lines of one event are joined by a line feed', async () => {
    expect(await events('data: a\ndata:b\ndata\ndata:  c\n\n')).toEqual([{ event: '', data: 'a\nb\n\n c' }]);
  });

  test('an event name applies to its own event only', async () => {
    expect(await events('event: one\ndata: 1\n\ndata: 2\n\n')).toEqual([
      { event: 'one', data: '1' },
      { event: '', data: '2' },
    ]);
  });

  test('an event name without data is dropped with its block', async () => {
    expect(await events('event: lost\n\ndata: 2\n\n')).toEqual([{ event: '', data: '2' }]);
  });

  test.each(['\n', '\r\n', '\r'])('lines may end with %j', async end => {
    expect(await events(['event: e', 'data: 1', 'data: 2', '', 'data: 3', '', ''].join(end))).toEqual([
      { event: 'e', data: '1\n2' },
      { event: '', data: '3' },
    ]);
  });

  test('the last event needs neither a blank line nor a line ending', async () => {
    expect(await events('data: 1\n\ndata: 2')).toEqual([
      { event: '', data: '1' },
      { event: '', data: '2' },
    ]);
  });

  test('[DONE] is passed on as data', async () => {
    expect(await events('data: [DONE]\n\n')).toEqual([{ event: '', data: '[DONE]' }]);
  });

  test('a byte order mark is not part of the first line', async () => {
    expect(await events('\uFEFFdata: 1\n\n')).toEqual([{ event: '', data: '1' }]);
  });

  test('events are the same however the bytes are split', async () => {
    const data = fc.stringMatching(/^[a-z{}":é€🙂 ]{0,12}$/u);
    const line = fc.oneof(
      data.map(text => `data: ${text}`),
      data.map(text => `: ${text}`),
      fc.constantFrom('event: e', 'data', 'id: 1', ''),
    );
    const stream = fc
      .array(fc.tuple(line, fc.constantFrom('\n', '\r\n', '\r')), { maxLength: 20 })
      .map(lines => lines.flat().join(''));
    await fc.assert(
      fc.asyncProperty(stream, fc.array(fc.nat(200), { maxLength: 30 }), async (text, cuts) => {
        const length = encoder.encode(text).length;
        const cut = cuts.filter(at => at <= length);
        expect(await events(text, cut)).toEqual(await events(text));
        expect(await events(text, [...Array(length).keys()])).toEqual(await events(text));
      }),
      { numRuns: 200 },
    );
  });

  test('the cost of an event delivered byte by byte is linear in its length', async () => {
    const cost = async (length: number) => {
      const bytes = encoder.encode(`data: ${'x'.repeat(length)}\n\n`);
      const before = process.cpuUsage();
      const [event] = (await collect(readSse(chunked(bytes, [...bytes.keys()])))).flat();
      expect(event?.data.length).toBe(length);
      const { user, system } = process.cpuUsage(before);
      return (user + system) / 1_000;
    };
    await cost(20_000);
    const small = await cost(20_000);
    const large = await cost(160_000);
    expect(large).toBeLessThan(small * 8 * 5 + 50);
  });
});

describe('readNdjson', () => {
  test('lines are complete however the bytes are split, and blank lines are skipped', async () => {
    const text = '{"a":"é🙂"}\n\n{"b":2}\r\n  \n{"c":3}';
    const whole = ['{"a":"é🙂"}', '{"b":2}', '{"c":3}'].map(data => ({ event: '', data }));
    const bytes = encoder.encode(text);
    expect((await collect(readNdjson(chunked(bytes, [])))).flat()).toEqual(whole);
    expect((await collect(readNdjson(chunked(bytes, [...bytes.keys()])))).flat()).toEqual(whole);
  });
});
