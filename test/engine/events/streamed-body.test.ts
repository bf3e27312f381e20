import { describe, expect, test, vi } from 'vitest';
import { type BodyFormat, frameOnce, streamedBody } from '../../../engine/events/streamed-body.ts';

const decoder = new TextDecoder();

/** Values that a test gives one by one. `asked` is the number of values that were requested. */
function makeValues() {
  const steps: PromiseWithResolvers<IteratorResult<string, void>>[] = [];
  const step = (place: number) => {
    while (steps.length <= place) steps.push(Promise.withResolvers());
    return steps[place] ?? Promise.withResolvers<IteratorResult<string, void>>();
  };
  const state = { asked: 0, given: 0, isEnded: false };
  async function* values(): AsyncGenerator<string, void> {
    try {
      for (;;) {
        state.asked += 1;
        const { done, value } = await step(state.asked - 1).promise;
        if (done === true) return;
        yield value;
      }
    } finally {
      state.isEnded = true;
    }
  }
  return {
    state,
    values: values(),
    give: (value: string) => step(state.given++).resolve({ done: false, value }),
    end: () => step(state.given++).resolve({ done: true, value: undefined }),
    fail: (error: Error) => step(state.given++).reject(error),
  };
}

/** Timers that a test fires. */
function makeTimers() {
  const waiting = new Set<() => void>();
  const host: NonNullable<BodyFormat<string>['keepAlive']>['host'] = {
    setTimer(_ms, fire) {
      waiting.add(fire);
      return () => waiting.delete(fire);
    },
  };
  const fireAll = () => {
    const due = [...waiting];
    waiting.clear();
    for (const fire of due) fire();
  };
  return { host, waiting, fireAll };
}

function open(format: Partial<BodyFormat<string>> = {}) {
  const source = makeValues();
  const body = streamedBody(source.values, { frame: value => value, ...format });
  const reader = body.getReader();
  const read = async () => {
    const { done, value } = await reader.read();
    return done ? null : decoder.decode(value);
  };
  return { ...source, reader, read };
}

describe('a streamed body', () => {
  test('asks for a value only when its reader asks for bytes', async () => {
    const { state, give, read } = open({ begin: 'begin ' });
    give('a');
    give('b');
    await new Promise(setImmediate);
    expect(state.asked).toBe(0);
    expect(await read()).toBe('begin ');
    expect(await read()).toBe('a');
    expect(state.asked).toBe(1);
  });

  test('sends each value in one chunk, leaves out empty ones, and ends with its end', async () => {
    const { give, end, read } = open({ end: '.' });
    give('one');
    give('');
    give('two');
    end();
    expect([await read(), await read(), await read(), await read()]).toEqual(['one', 'two', '.', null]);
  });

  test('sends its keep-alive after each silence, and loses no value that comes meanwhile', async () => {
    const { host, waiting, fireAll } = makeTimers();
    const { give, read } = open({ keepAlive: { text: '\n', host } });
    for (let silences = 0; silences < 2; silences += 1) {
      const silent = read();
      await new Promise(setImmediate);
      fireAll();
      expect(await silent).toBe('\n');
    }
    const reading = read();
    give('late');
    expect(await reading).toBe('late');
    expect(waiting.size).toBe(0);
  });

  test('piles up no keep-alives for a reader that stalls', async () => {
    const { host, fireAll } = makeTimers();
    const { give, read } = open({ keepAlive: { text: '\n', host } });
    const silent = read();
    await new Promise(setImmediate);
    for (let silences = 0; silences < 5; silences += 1) fireAll();
    expect([await silent, await read()]).toEqual(['\n', '\n']);
    give('a');
    expect(await read()).toBe('a');
  });

  test('ends with what failed() makes of an error, and its end', async () => {
    const { give, fail, read } = open({
      failed: error => `failed: ${(error as Error).message}`,
      end: '.',
    });
    give('a');
    fail(new Error('gone'));
    expect([await read(), await read(), await read(), await read()]).toEqual([
      'a',
      'failed: gone',
      '.',
      null,
    ]);
  });

  test('ends the values if one cannot be framed', async () => {
    const { state, give, read } = open({
      frame: () => {
        throw new Error('no JSON');
      },
      failed: () => 'failed',
    });
    give('a');
    expect([await read(), await read()]).toEqual(['failed', null]);
    expect(state.isEnded).toBe(true);
  });

  test('breaks off with the error without failed()', async () => {
    const { fail, read } = open({ end: '.' });
    fail(new Error('gone'));
    await expect(read()).rejects.toThrow('gone');
  });

  test('ends its values and its timer when its reader leaves', async () => {
    const { host, waiting } = makeTimers();
    const leave = vi.fn(() => end());
    const { state, end, read, reader } = open({ keepAlive: { text: '\n', host }, leave: () => leave() });
    const reading = read();
    await new Promise(setImmediate);
    expect(waiting.size).toBe(1);
    await reader.cancel();
    expect(await reading).toBe(null);
    expect(leave).toHaveBeenCalledOnce();
    expect(waiting.size).toBe(0);
    await vi.waitFor(() => expect(state.isEnded).toBe(true));
  });

  test('that is never read asks for nothing, and still calls leave', async () => {
    const leave = vi.fn();
    const { state, reader } = open({ leave });
    await reader.cancel();
    expect(leave).toHaveBeenCalledOnce();
    expect(state.asked).toBe(0);
  });
});

test('bodies that share a value share its bytes', () => {
  let written = 0;
  const frame = frameOnce((batch: readonly string[]) => {
    written += 1;
    return batch.join('');
  });
  const batch = ['a', 'b'];
  expect(frame(batch)).toBe(frame(batch));
  expect(decoder.decode(frame(['a', 'b']))).toBe('ab');
  expect(written).toBe(2);
});
