import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { countTurns } from '../../adapters/scripted/scripted-turns.ts';
import { type ScriptedTurn, scripted, type Wait } from '../../adapters/scripted.ts';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import { EngineError } from '../../protocol/error.ts';
import type { Item } from '../../protocol/item.ts';
import { userMessage } from '../../protocol/message.ts';
import type { ModelRequest } from '../../protocol/turn.ts';
import { calling, collect, rejection, request, result, sumOf } from '../support/adapters/requests.ts';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'agentchart-script-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

function file(content: string, name = 'turns.json'): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

function ask(model: ModelAdapter, transcript: readonly Item[], more: Partial<ModelRequest> = {}) {
  return model.generate(request(transcript, more), calling());
}

const hi = [userMessage('hi')];

function thrownBy(act: () => unknown): unknown {
  try {
    act();
  } catch (error) {
    return error;
  }
  throw new Error('Expected it to throw.');
}

describe('a scripted turn', () => {
  test('has the content of the script', async () => {
    const model = scripted([
      {
        text: 'Looking.',
        reasoning: 'hm',
        toolCalls: [
          { name: 'lookup', arguments: { id: 0 } },
          { name: 'note', arguments: 'not json' },
          { name: 'now' },
        ],
        usage: { inputTokens: 3, outputTokens: 4 },
      },
    ]);
    const turn = await ask(model, hi);
    expect(turn).toMatchObject({
      text: 'Looking.',
      reasoning: 'hm',
      finishReason: 'tool_calls',
      model: 'script',
      usage: { inputTokens: 3, outputTokens: 4, cachedInputTokens: null },
      toolCalls: [
        { name: 'lookup', arguments: '{"id":0}', input: { id: 0 }, executedBy: 'engine' },
        { name: 'note', arguments: 'not json', error: expect.any(String) },
        { name: 'now', arguments: '{}', input: {} },
      ],
    });
    expect(turn.items.map(item => item.type)).toEqual([
      'reasoning',
      'message',
      'tool_call',
      'tool_call',
      'tool_call',
    ]);
    expect(turn.items.slice(2)).toMatchObject(turn.toolCalls.map(({ callId }) => ({ callId })));
    expect((await ask(model, hi)).toolCalls).toEqual(turn.toolCalls);
  });

  test('is streamed in small pieces that add up to it', async () => {
    const text = 'Grüße 🙂🙂, a longer   text\n\nwith everything. ';
    const model = scripted({
      turns: [{ text, toolCalls: [{ name: 'a', arguments: { x: 'some words here' } }] }],
    });
    const deltas = await collect(model.stream(request(hi), calling()));
    const turn = await ask(model, hi);
    expect(deltas.at(-1)).toEqual({ type: 'turn', turn });
    expect(sumOf(deltas)).toEqual({ text, reasoning: '', calls: [['a', '{"x":"some words here"}']] });
    expect(deltas.filter(delta => delta.type === 'text').length).toBeGreaterThan(4);
  });

  test('with toolChoice none loses its calls and keeps its text', async () => {
    const model = scripted([{ text: 'done', toolCalls: [{ name: 'a' }] }]);
    expect(await ask(model, hi, { toolChoice: 'none' })).toMatchObject({
      text: 'done',
      toolCalls: [],
      finishReason: 'stop',
    });
  });

  test('with toolChoice none and only calls has a text that says so', async () => {
    const turn = await ask(scripted([{ toolCalls: [{ name: 'a' }] }]), hi, { toolChoice: 'none' });
    expect(turn).toMatchObject({ toolCalls: [], finishReason: 'stop' });
    expect(turn.text).toContain('only tool calls');
  });

  test('may have another finish reason', async () => {
    expect(await ask(scripted([{ text: 'a', finishReason: 'length' }]), hi)).toMatchObject({
      finishReason: 'length',
    });
  });
});

describe('the choice of the turn', () => {
  const model = () =>
    scripted([
      { text: 'zero', toolCalls: [{ name: 'a' }] },
      { text: 'one', finishReason: 'pause' },
      { text: 'two' },
    ]);

  test('follows from the transcript, in any process, also for adjacent turns', async () => {
    const first = await ask(model(), hi);
    const second = await ask(model(), [
      ...hi,
      ...first.items,
      result(first.toolCalls[0]?.callId ?? '', 'ok'),
    ]);
    expect(second.text).toBe('one');
    const third = await ask(model(), [...hi, ...first.items, ...second.items]);
    expect(third.text).toBe('two');
  });

  test('still works for a trimmed transcript', async () => {
    const first = await ask(model(), hi);
    const second = await ask(model(), [...hi, ...first.items]);
    expect((await ask(model(), [...hi, ...second.items])).text).toBe('two');
  });

  test('has unique call ids across turns', async () => {
    const calls = scripted([1, 2, 3].map(() => ({ toolCalls: [{ name: 'a' }, { name: 'a' }] })));
    const transcript: Item[] = [...hi];
    const ids: string[] = [];
    for (let turn = 0; turn < 3; turn += 1) {
      const { items, toolCalls } = await ask(calls, transcript);
      transcript.push(...items);
      for (const { callId } of toolCalls) {
        ids.push(callId);
        transcript.push(result(callId, 'ok'));
      }
    }
    expect(new Set(ids).size).toBe(6);
  });

  test('counts an empty turn', async () => {
    const empty = scripted([{}, { text: 'one' }]);
    const first = await ask(empty, hi);
    expect(first).toMatchObject({ text: '', finishReason: 'stop' });
    expect((await ask(empty, [...hi, ...first.items])).text).toBe('one');
  });

  test.each<[number, string, Item[]]>([
    [0, 'only user messages', [userMessage('a'), userMessage('b')]],
    [
      1,
      'reasoning, text and calls in a row',
      [plain('reasoning'), plain('message'), plain('call'), plain('call')],
    ],
    [2, 'calls, results, calls', [plain('call'), result('c', ''), result('c', ''), plain('call')]],
    [2, 'turns separated by a message', [plain('message'), userMessage('and?'), plain('message')]],
    [1, 'a turn that contains control items', [plain('call'), plain('control'), plain('call')]],
    [1, 'two adjacent turns of another model', [plain('message'), plain('message')]],
  ])('counts %i turns in a transcript: %s', (count, _, transcript) => {
    expect(countTurns(transcript, 'scripted')).toBe(count);
  });

  test('accepts an error written as its message alone', async () => {
    const error = await rejection(ask(scripted([{ error: 'the model is on fire' }]), hi));
    expect(error).toMatchObject({ name: 'ProviderError', message: 'the model is on fire', code: 'unknown' });
  });

  test('past the end is an error that gives the number of turns and is not retried', async () => {
    const only = scripted([{ text: 'bye' }]);
    const { items } = await ask(only, hi);
    const error = await rejection(ask(only, [...hi, ...items]));
    expect(error).toMatchObject({ name: 'ProviderError', code: 'script-exhausted', retryable: false });
    expect(error).toMatchObject({
      message: 'The script has 1 turn, and the transcript already has 1. Add a turn to the script.',
    });
    const none: readonly ScriptedTurn[] = [];
    const empty = await rejection(ask(scripted(none), hi));
    expect(empty).toMatchObject({ message: 'The script has no turns. Add one.' });
    const failing = await rejection(ask(scripted([{ error: { code: 'quota' } }]), hi));
    expect(failing).toMatchObject({ message: 'The script says: quota.' });
  });
});

function plain(kind: 'reasoning' | 'message' | 'call' | 'control'): Item {
  switch (kind) {
    case 'reasoning':
      return { type: 'reasoning', text: '' };
    case 'message':
      return { type: 'message', role: 'assistant', content: [] };
    case 'call':
      return { type: 'tool_call', callId: 'c', name: 'a', arguments: '{}' };
    case 'control':
      return { type: 'approval_response', callId: 'c', approve: true };
  }
}

describe('a scripted error', () => {
  test('is thrown every time by default', async () => {
    const model = scripted([{ error: { status: 529, message: 'busy', retryAfterMs: 5 } }, { text: 'never' }]);
    for (let attempt = 0; attempt < 3; attempt += 1) {
      expect(await rejection(ask(model, hi))).toMatchObject({
        code: 'overloaded',
        status: 529,
        retryable: true,
        retryAfterMs: 5,
        message: 'busy',
      });
    }
  });

  test('with times disappears, and the turn after it or in the same entry follows', async () => {
    for (const turns of [
      [{ error: { code: 'rate-limit', times: 2 } as const }, { text: 'ok' }],
      [{ error: { code: 'rate-limit', times: 2 } as const, text: 'ok' }],
    ]) {
      const model = scripted(turns);
      expect(await rejection(ask(model, hi))).toMatchObject({ code: 'rate-limit', retryable: true });
      expect(await rejection(collect(model.stream(request(hi), calling())))).toMatchObject({
        code: 'rate-limit',
      });
      expect((await ask(model, hi)).text).toBe('ok');
    }
  });

  test('may be retryable or not', async () => {
    const model = scripted([{ error: { code: 'server', retryable: false } }]);
    expect(await rejection(ask(model, hi))).toMatchObject({ code: 'server', retryable: false });
  });
});

describe('delays', () => {
  const recorded = () => {
    const waits: number[] = [];
    const wait: Wait = async ms => {
      waits.push(ms);
    };
    return { waits, wait };
  };

  test('are spread over the deltas and scaled', async () => {
    const { waits, wait } = recorded();
    const turns = [{ text: 'one two three four', delayMs: 1_000 }];
    await collect(scripted({ turns, delayScale: 0.1, wait }).stream(request(hi), calling()));
    expect(waits.length).toBeGreaterThan(1);
    expect(waits.reduce((sum, ms) => sum + ms, 0)).toBeCloseTo(100);
  });

  test('of zero do not wait', async () => {
    const { waits, wait } = recorded();
    await ask(scripted({ turns: [{ text: 'one two' }], wait }), hi);
    expect(waits).toEqual([]);
  });

  test('end immediately when the call is aborted', async () => {
    const controller = new AbortController();
    const model = scripted([{ text: 'late', delayMs: 60_000 }]);
    const answer = rejection(model.generate(request(hi), controller));
    setImmediate(() => controller.abort());
    expect(await answer).toMatchObject({ name: 'ProviderError', code: 'aborted', retryable: false });
    expect(await rejection(model.generate(request(hi), controller))).toMatchObject({ code: 'aborted' });
  });
});

describe('a script file', () => {
  test('contains the turns, or an object with them, and names the model', async () => {
    for (const content of ['[{"text":"hello"}]', '{"turns":[{"text":"hello"}],"delayScale":0}']) {
      const path = file(content);
      for (const model of [scripted({ file: path }), scripted({ file: relative(process.cwd(), path) })]) {
        expect(model).toMatchObject({ provider: 'scripted', model: 'turns.json' });
        expect((await ask(model, hi)).text).toBe('hello');
      }
    }
  });

  test.each([
    ['[{"text": 3}]', 'turns[0].text'],
    ['[{"text":"a"},{"toolCalls":[{"arguments":{}}]}]', 'turns[1].toolCalls[0].name'],
    ['[{"tekst":"a"}]', 'tekst'],
    ['{"turns":[{"error":{"code":"odd"}}]}', 'turns[0].error.code'],
    ['{"turn":[]}', 'turns'],
    ['"text"', 'top level'],
    ['[{"text":', 'not valid JSON'],
  ])('that is %s is rejected with its path and the place', (content, place) => {
    const path = file(content, 'broken.json');
    const error = thrownBy(() => scripted({ file: path }));
    expect(error).toBeInstanceOf(EngineError);
    expect(error).toMatchObject({ code: 'script-invalid' });
    expect(String(error)).toContain(path);
    expect(String(error)).toContain(place);
  });

  test('that is missing is rejected', () => {
    const error = thrownBy(() => scripted({ file: join(folder, 'missing.json') }));
    expect(error).toMatchObject({ code: 'script-invalid' });
    expect(String(error)).toContain('missing.json');
  });
});
