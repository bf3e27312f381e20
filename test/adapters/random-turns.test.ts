import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { anthropic } from '../../adapters/anthropic.ts';
import { azure } from '../../adapters/azure.ts';
import { cerebras } from '../../adapters/cerebras.ts';
import { deepseek } from '../../adapters/deepseek.ts';
import { gemini } from '../../adapters/gemini.ts';
import { groq } from '../../adapters/groq.ts';
import { mistral } from '../../adapters/mistral.ts';
import { ollama } from '../../adapters/ollama.ts';
import { openaiChat } from '../../adapters/openai-chat.ts';
import { openaiResponses } from '../../adapters/openai-responses.ts';
import { openrouter } from '../../adapters/openrouter.ts';
import { xai } from '../../adapters/xai.ts';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { ModelTurn, Usage } from '../../protocol/turn.ts';
import { anthropicMessages } from './encode/anthropic.ts';
import { type ChatStyle, chat } from './encode/chat.ts';
import { geminiContent } from './encode/gemini.ts';
import { ollamaChat } from './encode/ollama.ts';
import { responses } from './encode/responses.ts';
import { type Encoder, finishReasonOf, type Random, seeded, type WrittenTurn } from './encode/turn.ts';
import { distort, dressed, flipBits, inPieces, shuffleBlocks } from './mutations.ts';
import { calling, collect, request, sumOf } from './requests.ts';
import { expectReadFrom, expectSound, turnIn, turnOrError } from './sound-turn.ts';
import { type Sayable, writtenTurn } from './written-turns.ts';

type Connect = (options: {
  fetch: typeof fetch;
  model: string;
  apiKey: string;
  baseURL: string;
}) => ModelAdapter;

type Dialect = {
  connect: Connect;
  says: Sayable;
  /** How its provider writes, which may differ from turn to turn. */
  encoder: fc.Arbitrary<Encoder>;
  /** What of the usage it does not say. */
  silent?: readonly (keyof Usage)[];
  /** Whether a call whose block comes twice is two calls, because nothing tells them apart. */
  doubles?: boolean;
};

/** Every style of Chat Completions in which its calls can be told apart. */
const anyChat = inStyles(
  fc.record({
    indexes: fc.constantFrom('from-0', 'from-1', 'all-0', 'none'),
    ids: fc.constantFrom('first', 'each'),
    wholeCalls: fc.boolean(),
    reasoning: fc.constantFrom('reasoning_content', 'reasoning'),
    stopWithCalls: fc.boolean(),
    usage: fc.constantFrom('beside', 'behind'),
    done: fc.boolean(),
  }),
  chat,
);

/** One provider of each dialect. */
const DIALECTS: [name: string, dialect: Dialect][] = [
  [
    'openai-responses',
    {
      connect: openaiResponses,
      says: { ids: 'always', filter: true, search: true },
      encoder: inStyles(
        fc.record({
          correlation: fc.constantFrom('index', 'item', 'rotating'),
          output: fc.boolean(),
          finished: fc.boolean(),
        }),
        responses,
      ),
      silent: ['cacheWriteTokens'],
    },
  ],
  [
    'openai-chat',
    {
      connect: openaiChat,
      says: { ids: 'always', filter: true },
      encoder: anyChat,
      silent: ['cacheWriteTokens'],
    },
  ],
  [
    'anthropic',
    {
      connect: anthropic,
      says: { ids: 'always', filter: true, search: true },
      encoder: fc.constant(anthropicMessages),
      silent: ['reasoningTokens'],
    },
  ],
  [
    'gemini',
    {
      connect: gemini,
      says: { ids: 'perhaps', filter: true },
      encoder: fc.constant(geminiContent),
      silent: ['cacheWriteTokens'],
      doubles: true,
    },
  ],
  [
    'ollama',
    {
      connect: ollama,
      says: { ids: 'never' },
      encoder: fc.constant(ollamaChat),
      silent: ['cachedInputTokens', 'cacheWriteTokens', 'reasoningTokens'],
      doubles: true,
    },
  ],
];

/** How a provider of Chat Completions writes. */
function chatting(connect: Connect, style: Partial<ChatStyle>, ids: Sayable['ids'] = 'always'): Dialect {
  return {
    connect,
    says: { ids, filter: true },
    encoder: fc.constant(chat(style)),
    silent: ['cacheWriteTokens'],
  };
}

/** A provider of the Responses API, which writes as OpenAI does. */
function asking(connect: Connect): Dialect {
  return {
    connect,
    says: { ids: 'always', filter: true },
    encoder: fc.constant(responses()),
    silent: ['cacheWriteTokens'],
  };
}

/** Other providers, each as it writes. */
const PROVIDERS: [name: string, dialect: Dialect][] = [
  ['openai-chat without ids', chatting(openaiChat, { indexes: 'from-0' }, 'never')],
  ['groq', chatting(groq, { reasoning: 'reasoning', wholeCalls: true, usage: 'x_groq' })],
  ['mistral', chatting(mistral, { reasoning: 'content', indexes: 'none', usage: 'beside' }, 'short')],
  ['deepseek', chatting(deepseek, {})],
  ['openrouter', chatting(openrouter, { reasoning: 'reasoning_details' })],
  ['cerebras', chatting(cerebras, { reasoning: 'reasoning', wholeCalls: true })],
  [
    'xai chat',
    chatting(options => xai({ ...options, api: 'chat' }), { wholeCalls: true, outputWithoutReasoning: true }),
  ],
  ['azure chat', chatting(options => azure({ ...options, api: 'chat' }), { ids: 'each' })],
  ['xai', asking(xai)],
  ['azure', asking(azure)],
  ['deepseek responses', asking(options => deepseek({ ...options, api: 'responses' }))],
  [
    'ollama chat',
    chatting(options => ollama({ ...options, api: 'chat' }), { reasoning: 'reasoning', indexes: 'all-0' }),
  ],
];

/** The encoders of a style, shown by their style where a property fails. */
function inStyles<Style>(
  styles: fc.Arbitrary<Style>,
  encode: (style: Style) => Encoder,
): fc.Arbitrary<Encoder> {
  return styles.map(style => ({ ...encode(style), [fc.toStringMethod]: () => fc.stringify(style) }));
}

/** Of each property for the first of a dialect; a third of them for the others. */
const RUNS = 30;
const seed = fc.integer();

describe.each([...DIALECTS, ...PROVIDERS])(
  '%s',
  (name, { connect, says, encoder, silent = [], doubles = false }) => {
    const numRuns = DIALECTS.some(([first]) => first === name) ? RUNS : RUNS / 3;
    const open = (bytes: Uint8Array, type: string, random: Random) =>
      connect({
        fetch: async () => new Response(inPieces(bytes, random), { headers: { 'content-type': type } }),
        model: 'model-1',
        apiKey: 'test',
        baseURL: 'http://provider.test',
      });
    const stream = (bytes: Uint8Array, type: string, random: Random) =>
      collect(open(bytes, type, random).stream(request('hi'), calling()));
    const generate = (bytes: Uint8Array, random: Random) =>
      open(bytes, 'application/json', random).generate(request('hi'), calling());

    test('a random turn is decoded as it was written, streamed in any pieces and whole', async () => {
      await fc.assert(
        fc.asyncProperty(writtenTurn(says), encoder, seed, async (written, wire, start) => {
          const random = seeded(start);
          const blocks = dressed(wire.stream(written, random), wire.contentType, random);
          const bytes = bytesOf(blocks);
          const deltas = await stream(bytes, wire.contentType, random);
          const streamed = turnIn(deltas);
          expectWritten(streamed, written, silent);
          expect(sumOf(deltas)).toEqual({
            text: streamed.text,
            reasoning: streamed.reasoning,
            calls: streamed.toolCalls.map(call => [call.name, call.arguments]),
          });
          expect(await generate(bytesOf(wire.whole(written)), random)).toEqual(streamed);
        }),
        { numRuns },
      );
    });

    test('a stream cut anywhere is an error, or has lost nothing but its usage', async () => {
      await fc.assert(
        fc.asyncProperty(writtenTurn(says), encoder, seed, async (written, wire, start) => {
          const random = seeded(start);
          const bytes = bytesOf(wire.stream(written, random).join(''));
          const cutOff = bytes.slice(0, Math.floor(random() * bytes.length));
          const turn = await turnOrError(stream(cutOff, wire.contentType, random).then(turnIn));
          if (turn !== null) expectWritten({ ...turn, usage: null }, { ...written, usage: null }, silent);
          const whole = bytesOf(wire.whole(written));
          const half = whole.slice(0, Math.floor(random() * whole.length));
          expect(await turnOrError(generate(half, random))).toBeNull();
        }),
        { numRuns },
      );
    });

    test('blocks lost, doubled and out of order give no call that was not written', async () => {
      await fc.assert(
        fc.asyncProperty(writtenTurn(says), encoder, seed, async (written, wire, start) => {
          const random = seeded(start);
          const blocks = shuffleBlocks(wire.stream(written, random), random);
          const turn = await turnOrError(
            stream(bytesOf(blocks.join('')), wire.contentType, random).then(turnIn),
          );
          if (turn === null) return;
          expectSound(turn);
          const names = written.calls.map(call => call.name);
          for (const { name } of turn.toolCalls) if (name !== '') expect(names).toContain(name);
          if (!doubles) expect(turn.toolCalls.length).toBeLessThanOrEqual(names.length);
        }),
        { numRuns },
      );
    });

    test('bits flipped and values of the wrong shape give an error or a sound turn', async () => {
      await fc.assert(
        fc.asyncProperty(writtenTurn(says), encoder, seed, async (written, wire, start) => {
          const random = seeded(start);
          const blocks = wire.stream(written, random);
          const whole = wire.whole(written);
          const bodies: [type: string, bytes: Uint8Array][] = [
            [wire.contentType, flipBits(bytesOf(blocks.join('')), random)],
            [wire.contentType, bytesOf(blocks.map(block => distort(block, random)).join(''))],
            ['application/json', flipBits(bytesOf(whole), random)],
            ['application/json', bytesOf(distort(JSON.stringify(whole), random))],
          ];
          for (const [type, bytes] of bodies) {
            const turn = await turnOrError(stream(bytes, type, random).then(turnIn));
            if (turn !== null) expectReadFrom(bytes, turn);
          }
        }),
        { numRuns },
      );
    });

    test('random bytes are an error, or a turn without calls', async () => {
      const lines = fc.array(
        fc.oneof(
          fc.jsonValue().map(value => JSON.stringify(value)),
          fc.string(),
        ),
        {
          maxLength: 6,
        },
      );
      const noise = fc.oneof(
        fc.uint8Array({ maxLength: 200 }),
        lines.map(list => bytesOf(list.map(line => `data: ${line}\n\n`).join(''))),
        lines.map(list => bytesOf(list.join('\n'))),
      );
      const type = fc.constantFrom('text/event-stream', 'application/x-ndjson', 'application/json', '');
      await fc.assert(
        fc.asyncProperty(noise, type, seed, async (bytes, contentType, start) => {
          const turn = await turnOrError(stream(bytes, contentType, seeded(start)).then(turnIn));
          expect(turn?.toolCalls ?? []).toEqual([]);
        }),
        { numRuns },
      );
    });
  },
);

function bytesOf(body: string | JsonObject): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(typeof body === 'string' ? body : JSON.stringify(body));
}

function expectWritten(turn: ModelTurn, written: WrittenTurn, silent: readonly (keyof Usage)[]): void {
  expectSound(turn);
  expect({
    text: turn.text,
    reasoning: turn.reasoning,
    calls: turn.toolCalls.map(({ name, input, executedBy }) => ({ name, input, executedBy })),
    finishReason: turn.finishReason,
    usage: turn.usage,
  }).toEqual({
    text: written.text,
    reasoning: written.reasoning,
    calls: written.calls.map(call => ({
      name: call.name,
      input: JSON.parse(call.arguments),
      executedBy: 'engine',
    })),
    finishReason: finishReasonOf(written),
    usage: usageOf(written, silent),
  });
  for (const [index, { id }] of written.calls.entries()) {
    if (id !== undefined) expect(turn.toolCalls[index]?.callId).toBe(id);
  }
}

function usageOf({ usage }: WrittenTurn, silent: readonly (keyof Usage)[]): Usage | null {
  if (usage === null) return null;
  const said: Usage = {
    inputTokens: usage.input,
    outputTokens: usage.output,
    cachedInputTokens: usage.cached,
    cacheWriteTokens: 0,
    reasoningTokens: usage.reasoning,
  };
  return { ...said, ...Object.fromEntries(silent.map(count => [count, null])) };
}
