import type { ModelAdapter } from '../protocol/adapter.ts';
import type { JsonObject } from '../protocol/json.ts';
import { pathOf, rootOf } from './gemini/address.ts';
import { growingContents } from './gemini/contents.ts';
import { bodyOf } from './gemini/request.ts';
import { readBody, readEvents } from './gemini/response.ts';
import { type ConnectionOptions, connector, type Endpoint } from './http/connection.ts';
import { readSse } from './http/read-sse.ts';
import { singleTurnAdapter } from './turn/single-turn.ts';

export type GeminiOptions = ConnectionOptions & {
  /** Laid over every request's body, under the request's own: objects are merged, `tools` appended. */
  providerOptions?: JsonObject;
};

/**
 * Google's Gemini API (`generateContent`). The base URL is the root; one that names an API
 * version already is taken as it is. The key is that of `GEMINI_API_KEY`, `GOOGLE_API_KEY` or
 * `GOOGLE_GENERATIVE_AI_API_KEY` where the options do not say, and goes in a header.
 */
export function gemini(options: GeminiOptions): ModelAdapter {
  const { model, providerOptions } = options;
  const contentsOf = growingContents(model);
  return singleTurnAdapter({
    provider: ENDPOINT.provider,
    model,
    capabilities: {
      streaming: true,
      parallelToolCalls: true,
      reasoningReplay: true,
      serverTools: true,
      structuredOutput: 'native',
      continuation: false,
    },
    connect: connector(ENDPOINT, options),
    send: (connection, request, { stream, signal }) =>
      connection.post(pathOf(model, stream), bodyOf(request, { model, contentsOf, providerOptions }), signal),
    read: (body, request, context) => readBody(body, request, context),
    readStream: (chunks, request, context) => readEvents(readSse(chunks), request, context),
    now: options.now,
  });
}

const ENDPOINT: Endpoint = {
  provider: 'gemini',
  keyVariables: ['GEMINI_API_KEY', 'GOOGLE_API_KEY', 'GOOGLE_GENERATIVE_AI_API_KEY'],
  baseURLVariable: 'GEMINI_BASE_URL',
  defaultBaseURL: 'https://generativelanguage.googleapis.com',
  resolveURL: rootOf,
  keyHeader: 'x-goog-api-key',
};
