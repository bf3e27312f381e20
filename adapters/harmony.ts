import type { ModelAdapter } from '../protocol/adapter.ts';
import type { JsonObject } from '../protocol/json.ts';
import { completionsBody, readCompletion, readCompletionStream } from './harmony/completions.ts';
import { PROVIDER } from './harmony/kept.ts';
import { promptText } from './harmony/prompt-text.ts';
import { renderPrompt } from './harmony/render.ts';
import { type ConnectionOptions, connector } from './http/connection.ts';
import { readSse } from './http/read-sse.ts';
import { singleTurnAdapter } from './turn/single-turn.ts';

/** Options of `harmony`. */
export type HarmonyOptions = ConnectionOptions & {
  /** The date that the model is told, as `YYYY-MM-DD`. Default: the current date in UTC. */
  today?: string;
  /** The end of the model's knowledge, as the model is told. Default: `2024-06`. */
  knowledgeCutoff?: string;
  /** Merged into the body of every request; the request's own options take precedence. */
  providerOptions?: JsonObject;
};

/**
 * Creates an adapter for a gpt-oss model whose server has no chat layer: the Harmony format is rendered and
 * parsed here. The base URL is that of a server with `/completions`, such as `http://localhost:8000/v1`;
 * default: `HARMONY_BASE_URL`. A key is optional: `HARMONY_API_KEY`, if set, is sent as a bearer token.
 *
 * The format has no tool choice: `required` is treated as `auto`, a named tool is the only one shown to the
 * model, and `none` shows no tools. An output schema is part of the prompt. Messages may contain only text
 * and text files in `data:` URLs.
 *
 * @example
 * const model = harmony({ model: 'openai/gpt-oss-20b', baseURL: 'http://localhost:8000/v1' });
 */
export function harmony(options: HarmonyOptions): ModelAdapter {
  const { model, providerOptions, knowledgeCutoff = '2024-06' } = options;
  const now = options.now ?? Date.now;
  return singleTurnAdapter({
    provider: PROVIDER,
    model,
    capabilities: {
      streaming: true,
      parallelToolCalls: false,
      reasoningReplay: true,
      serverTools: false,
      structuredOutput: 'instructions',
      continuation: false,
    },
    connect: connector(
      {
        provider: PROVIDER,
        keyVariables: ['HARMONY_API_KEY'],
        keyOptional: true,
        baseURLVariable: 'HARMONY_BASE_URL',
        baseURLExample: 'http://localhost:8000/v1',
      },
      options,
    ),
    send(connection, request, { stream, signal }) {
      const today = options.today ?? new Date(now()).toISOString().slice(0, 10);
      const prompt = promptText(
        renderPrompt(request, { knowledgeCutoff, today, context: connection.context }),
      );
      return connection.post(
        '/completions',
        completionsBody(request, { model, prompt, stream, providerOptions }),
        signal,
      );
    },
    read: (body, request, context) => readCompletion(body, request, model, context),
    readStream: (chunks, request, context) => readCompletionStream(readSse(chunks), request, model, context),
    now,
  });
}
