import { describe, expect, test } from 'vitest';
import { openaiChat } from '../../../adapters/openai-chat.ts';
import { batchIn, piecesOf } from '../../../protocol/delta-batches.ts';
import type { TurnDelta } from '../../../protocol/turn.ts';
import { request } from '../../support/adapters/requests.ts';

const textOf = (content: string) => `data: {"choices":[{"delta":{"content":"${content}"}}]}\n\n`;
const END = 'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';

/** The stream of a provider that sends these chunks of bytes. */
function streamOf(chunks: readonly string[]): AsyncIterable<TurnDelta> {
  const encoder = new TextEncoder();
  const answer = async () => {
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const chunk of chunks) controller.enqueue(encoder.encode(chunk));
        controller.close();
      },
    });
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  };
  const adapter = openaiChat({ model: 'm', apiKey: 'k', fetch: answer });
  return adapter.stream(request('hi'), { signal: new AbortController().signal });
}

async function readAll(stream: AsyncIterable<TurnDelta>) {
  const read: TurnDelta[] = [];
  const failed = await (async () => {
    for await (const delta of stream) read.push(delta);
  })().catch((thrown: unknown) => thrown);
  return { read, failed };
}

async function readBatches(stream: AsyncIterable<TurnDelta>) {
  const batches: (readonly TurnDelta[])[] = [];
  const failed = await (async () => {
    for await (const piece of piecesOf(stream)) batches.push(batchIn(piece));
  })().catch((thrown: unknown) => thrown);
  return { batches, failed };
}

const FAILED = 'data: {"error":{"message":"out of order","code":500}}\n\n';

describe('a stream in batches', () => {
  test.each([
    ['one chunk', [textOf('a') + textOf('b') + END]],
    ['a chunk for each event', [textOf('a'), textOf('b'), END]],
    ['an event in two chunks', [textOf('a').slice(0, 20), textOf('a').slice(20) + textOf('b'), END]],
    ['a failure after texts of the same chunk', [textOf('a'), textOf('b') + FAILED + textOf('c')]],
  ])('has the deltas of the stream: %s', async (_, chunks) => {
    const { batches, failed } = await readBatches(streamOf(chunks));
    expect({ read: batches.flat(), failed }).toEqual(await readAll(streamOf(chunks)));
    expect(batches.flat().filter(({ type }) => type === 'text')).toEqual([
      { type: 'text', text: 'a' },
      { type: 'text', text: 'b' },
    ]);
  });

  test('has what came together in one batch', async () => {
    const { batches } = await readBatches(streamOf([textOf('a') + textOf('b'), textOf('c') + END]));
    const shown = batches.map(batch => batch.map(delta => (delta.type === 'text' ? delta.text : delta.type)));
    expect(shown).toEqual([['a', 'b'], ['c'], ['turn']]);
  });

  const shout = (delta: TurnDelta) =>
    delta.type === 'text' ? { ...delta, text: delta.text.toUpperCase() } : delta;

  async function* shouted(stream: AsyncIterable<TurnDelta>): AsyncGenerator<TurnDelta> {
    for await (const delta of stream) yield shout(delta);
  }

  const withIterator = (stream: AsyncIterable<TurnDelta>) => ({
    [Symbol.asyncIterator]: () => shouted({ [Symbol.asyncIterator]: () => stream[Symbol.asyncIterator]() }),
  });

  test.each<[string, (stream: AsyncIterable<TurnDelta>) => AsyncIterable<TurnDelta>]>([
    ['a generator', shouted],
    ['a copy with another iterator', stream => ({ ...stream, ...withIterator(stream) })],
    [
      'a proxy',
      stream =>
        new Proxy(stream, {
          get: (target, name) =>
            Reflect.get(name === Symbol.asyncIterator ? withIterator(target) : target, name),
        }),
    ],
    [
      'the stream itself, with another `next`',
      stream => {
        const iterator = stream[Symbol.asyncIterator]();
        const next = iterator.next.bind(iterator);
        return Object.assign(stream, {
          async next() {
            const step = await next();
            return step.done === true ? step : { ...step, value: shout(step.value) };
          },
        });
      },
    ],
  ])('is not what a wrapper of the stream hides: %s', async (_, wrap) => {
    const { batches } = await readBatches(wrap(streamOf([textOf('a') + END])));
    expect(batches.flat()[0]).toEqual({ type: 'text', text: 'A' });
  });

  test('is not what comes after a first delta that was read alone', async () => {
    const stream = streamOf([textOf('a') + textOf('b') + END]);
    await stream[Symbol.asyncIterator]().next();
    const { batches } = await readBatches(stream);
    expect(batches.flat().map(shout)).toMatchObject([{ text: 'B' }, { type: 'turn' }]);
  });
});
