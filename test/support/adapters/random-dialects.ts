import fc from 'fast-check';
import { anthropic } from '../../../adapters/anthropic.ts';
import { azure } from '../../../adapters/azure.ts';
import { cerebras } from '../../../adapters/cerebras.ts';
import { deepseek } from '../../../adapters/deepseek.ts';
import { gemini } from '../../../adapters/gemini.ts';
import { groq } from '../../../adapters/groq.ts';
import { harmony } from '../../../adapters/harmony.ts';
import { mistral } from '../../../adapters/mistral.ts';
import { ollama } from '../../../adapters/ollama.ts';
import { openaiChat } from '../../../adapters/openai-chat.ts';
import { openaiResponses } from '../../../adapters/openai-responses.ts';
import { openrouter } from '../../../adapters/openrouter.ts';
import { xai } from '../../../adapters/xai.ts';
import { anthropicMessages } from '../../../examples/stand-in/wire/anthropic.ts';
import { type ChatStyle, chat } from '../../../examples/stand-in/wire/chat.ts';
import { geminiContent } from '../../../examples/stand-in/wire/gemini.ts';
import { harmonyCompletions } from '../../../examples/stand-in/wire/harmony.ts';
import { interactions } from '../../../examples/stand-in/wire/interactions.ts';
import { ollamaChat } from '../../../examples/stand-in/wire/ollama.ts';
import { responses } from '../../../examples/stand-in/wire/responses.ts';
import type { Encoder } from '../../../examples/stand-in/wire/turn.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { Usage } from '../../../protocol/turn.ts';
import type { Sayable } from './written-turns.ts';

type Connect = (options: {
  fetch: typeof fetch;
  model: string;
  apiKey: string;
  baseURL: string;
}) => ModelAdapter;

export type Dialect = {
  connect: Connect;
  says: Sayable;
  /** The wire format of its provider, which may vary from turn to turn. */
  encoder: fc.Arbitrary<Encoder>;
  /** The usage counts that it omits. */
  silent?: readonly (keyof Usage)[];
  /** Whether a duplicated call block is two calls, because nothing tells them apart. */
  doubles?: boolean;
  /** Whether calls are written in the text of the reply, so that reordered pieces of it are another text. */
  inText?: boolean;
};

/** Every style of Chat Completions in which calls can be told apart. */
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
export const DIALECTS: [name: string, dialect: Dialect][] = [
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
    'gemini-interactions',
    {
      connect: options => gemini({ ...options, api: 'interactions' }),
      says: { ids: 'always', filter: true, search: true },
      encoder: fc.constant(interactions),
      silent: ['cacheWriteTokens'],
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
  [
    'harmony',
    {
      connect: harmony,
      says: { ids: 'never' },
      encoder: fc.constant(harmonyCompletions),
      silent: ['cacheWriteTokens', 'reasoningTokens'],
      doubles: true,
      inText: true,
    },
  ],
];

/** A wire format of Chat Completions. */
function chatting(connect: Connect, style: Partial<ChatStyle>, ids: Sayable['ids'] = 'always'): Dialect {
  return {
    connect,
    says: { ids, filter: true },
    encoder: fc.constant(chat(style)),
    silent: ['cacheWriteTokens'],
  };
}

/** A provider of the Responses API with OpenAI's wire format. */
function asking(connect: Connect): Dialect {
  return {
    connect,
    says: { ids: 'always', filter: true },
    encoder: fc.constant(responses()),
    silent: ['cacheWriteTokens'],
  };
}

/** Other providers, each with its own wire format. */
export const PROVIDERS: [name: string, dialect: Dialect][] = [
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

/** The encoders of a style, printed as that style when a property fails. */
function inStyles<Style>(
  styles: fc.Arbitrary<Style>,
  encode: (style: Style) => Encoder,
): fc.Arbitrary<Encoder> {
  return styles.map(style => ({ ...encode(style), [fc.toStringMethod]: () => fc.stringify(style) }));
}
