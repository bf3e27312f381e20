import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4FinishReason,
  LanguageModelV4StreamPart,
  LanguageModelV4Usage,
} from '@ai-sdk/provider';
import { aiSdk } from '../../../../adapters/ai-sdk.ts';
import type { ModelRequest, ModelTurn, TurnDelta } from '../../../../protocol/turn.ts';
import { calling, collect, request } from '../requests.ts';

/** A scripted model of the AI SDK. */

export type Part = LanguageModelV4StreamPart;

export const STOP: LanguageModelV4FinishReason = { unified: 'stop', raw: 'stop' };
export const CALLS: LanguageModelV4FinishReason = { unified: 'tool-calls', raw: 'tool_use' };
const USAGE: LanguageModelV4Usage = {
  inputTokens: { total: 9, noCache: 5, cacheRead: 3, cacheWrite: 1 },
  outputTokens: { total: 7, text: 5, reasoning: 2 },
};
export const OWN = 'ai-sdk:acme.chat';
export const tool = { name: 'weather', description: 'The weather.', inputSchema: { type: 'object' } };

type Script = {
  content?: LanguageModelV4Content[];
  parts?: Part[];
  finishReason?: LanguageModelV4FinishReason;
  usage?: LanguageModelV4Usage;
  thrown?: unknown;
};

/** A model of the current specification that plays the script, and the options of its calls. */
export function scripted(script: Script): { model: LanguageModelV4; calls: LanguageModelV4CallOptions[] } {
  const calls: LanguageModelV4CallOptions[] = [];
  const finish = { finishReason: script.finishReason ?? STOP, usage: script.usage ?? USAGE };
  const answer = (options: LanguageModelV4CallOptions) => {
    calls.push(options);
    if (script.thrown !== undefined) throw script.thrown;
  };
  return {
    calls,
    model: {
      specificationVersion: 'v4',
      provider: 'acme.chat',
      modelId: 'acme-1',
      supportedUrls: {},
      doGenerate: async options => {
        answer(options);
        return {
          content: script.content ?? [],
          ...finish,
          response: { modelId: 'acme-1-0815' },
          warnings: [],
        };
      },
      doStream: async options => {
        answer(options);
        return { stream: streamOf(script.parts ?? []) };
      },
    },
  };
}

export function streamOf<Value>(values: readonly Value[]): ReadableStream<Value> {
  return new ReadableStream({
    start(controller) {
      for (const value of values) controller.enqueue(value);
      controller.close();
    },
  });
}

export const finished = (finishReason: LanguageModelV4FinishReason = STOP): Part => ({
  type: 'finish',
  finishReason,
  usage: USAGE,
});

export async function generated(script: Script, of: ModelRequest = request('hi')): Promise<ModelTurn> {
  return aiSdk(scripted(script).model).generate(of, calling());
}

export async function streamed(parts: Part[], of: ModelRequest = request('hi')) {
  const deltas = await collect(aiSdk(scripted({ parts }).model).stream(of, calling()));
  return { deltas, turn: turnIn(deltas) };
}

export function turnIn(deltas: readonly TurnDelta[]): ModelTurn {
  const last = deltas.at(-1);
  if (last?.type !== 'turn') throw new Error('The stream did not end with a turn.');
  return last.turn;
}

export const CONTENT: LanguageModelV4Content[] = [
  { type: 'reasoning', text: 'hm', providerMetadata: { acme: { signature: 'c2ln' } } },
  { type: 'reasoning', text: '', providerMetadata: { acme: { redactedData: 'cmVk' } } },
  { type: 'text', text: 'Looking.' },
  { type: 'tool-call', toolCallId: 'srv_1', toolName: 'search', input: '{"q":"a"}', providerExecuted: true },
  { type: 'tool-result', toolCallId: 'srv_1', toolName: 'search', result: [{ url: 'https://x.test' }] },
  { type: 'source', sourceType: 'url', id: 's1', url: 'https://x.test' },
  {
    type: 'tool-call',
    toolCallId: 'c1',
    toolName: 'weather',
    input: '{"city":"Oslo"}',
    providerMetadata: { acme: { thoughtSignature: 'dGhvdWdodA' } },
  },
  { type: 'tool-call', toolCallId: 'c2', toolName: 'now', input: '' },
];
