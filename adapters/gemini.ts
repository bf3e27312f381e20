import type { ModelAdapter } from '../protocol/adapter.ts';
import type { JsonObject } from '../protocol/json.ts';
import { type NamesOf, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import { geminiBody } from './gemini/request.ts';
import { TurnReader } from './gemini/turn.ts';
import {
  CONNECTION_NAMES,
  type ConnectionOptions,
  connector,
  type Endpoint,
  usageFrom,
} from './http/connection.ts';
import { trimSlashes } from './http/transport.ts';
import { singleTurnAdapter } from './turn/single-turn.ts';

/** Options of `gemini`. */
export type GeminiOptions = ConnectionOptions & {
  /** Merged into the body of every request, before the request's own options. Objects are merged, `tools` appended. */
  providerOptions?: JsonObject;
};

const NAMES: NamesOf<GeminiOptions> = { ...CONNECTION_NAMES, providerOptions: true };

/**
 * Creates an adapter for Google's Gemini API (`generateContent`). The base URL is the root, or a URL with an
 * API version, which is used unchanged. Default for the key, which is sent in a header: `GEMINI_API_KEY`,
 * `GOOGLE_API_KEY` or `GOOGLE_GENERATIVE_AI_API_KEY`; for the URL: `GEMINI_BASE_URL`.
 *
 * @example
 * const model = gemini({ model: 'gemini-2.5-flash' });
 */
export function gemini(options: GeminiOptions): ModelAdapter {
  refuseUnknownOptions('gemini', options, NAMES);
  const { model, providerOptions } = options;
  const bodyOf = geminiBody(model, providerOptions);
  return singleTurnAdapter({
    provider: ENDPOINT.provider,
    model,
    capabilities: { serverTools: true, usage: usageFrom(ENDPOINT, options) },
    connect: connector(ENDPOINT, options),
    send: (connection, request, { stream, signal }) =>
      connection.post(
        `${pathOf(model)}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
        bodyOf(request),
        signal,
      ),
    count: {
      send(connection, request, signal) {
        const path = pathOf(model);
        const counted = { model: path.slice(1), ...bodyOf(request) };
        return connection.post(`${path}:countTokens`, { generateContentRequest: counted }, signal);
      },
      read: body => body.totalTokens,
    },
    reader: (request, context) => new TurnReader(request, context),
    ending: 'a finish reason or a block reason',
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

/** Returns the base URL with an API version: its own, such as that of a Vertex location, else `v1beta`. */
function rootOf(baseURL: string): string {
  const root = trimSlashes(baseURL);
  if (!URL.canParse(root)) return root;
  return /\/v\d+(?:(?:alpha|beta)\d*)?(?:\/|$)/.test(new URL(root).pathname) ? root : `${root}/v1beta`;
}

function pathOf(model: string): string {
  const name = (model.includes('/') ? model : `models/${model}`).split('/').map(encodeURIComponent).join('/');
  return `/${name}`;
}
