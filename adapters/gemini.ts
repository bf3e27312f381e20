import type { Capabilities, ModelAdapter } from '../protocol/adapter.ts';
import { EngineError, type ProviderError } from '../protocol/error.ts';
import type { JsonObject } from '../protocol/json.ts';
import { type NamesOf, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import { InteractionReader } from './gemini/interaction.ts';
import { geminiBody, generationOf } from './gemini/request.ts';
import { continuationIn, INTERACTIONS, interactionBody } from './gemini/steps.ts';
import { TurnReader } from './gemini/turn.ts';
import {
  CONNECTION_NAMES,
  type ConnectionOptions,
  connector,
  type Endpoint,
  usageFrom,
} from './http/connection.ts';
import { readErrorBody } from './http/provider-errors.ts';
import { trimSlashes } from './http/transport.ts';
import { singleTurnAdapter } from './turn/single-turn.ts';

/** Options of `gemini`. */
export type GeminiOptions = ConnectionOptions & {
  /** `interactions`: the Interactions API, which stores conversations. Default: `generateContent`. */
  api?: 'generateContent' | 'interactions';
  /** Merged into the body of every request, before the request's own options. Objects are merged, `tools` appended. */
  providerOptions?: JsonObject;
  /** Of `interactions`: whether Google stores them, so that later turns can continue from them. Default: `true`. */
  store?: boolean;
};

const NAMES: NamesOf<GeminiOptions> = { ...CONNECTION_NAMES, api: true, providerOptions: true, store: true };

/**
 * Creates an adapter for Google's Gemini API. The base URL is the root, or a URL with an API version, which is used
 * unchanged. Default for the key, which is sent in a header: `GEMINI_API_KEY`, `GOOGLE_API_KEY` or
 * `GOOGLE_GENERATIVE_AI_API_KEY`; for the URL: `GEMINI_BASE_URL`. The provider of `interactions` is named
 * `gemini-interactions`: what one API must get back unchanged is not sent to the other.
 *
 * @example
 * const model = gemini({ model: 'gemini-3.8-flash', api: 'interactions' });
 */
export function gemini(options: GeminiOptions): ModelAdapter {
  refuseUnknownOptions('gemini', options, NAMES);
  const { api = 'generateContent', store } = options;
  if (api === 'interactions') return interactionsAdapter(options);
  if (api !== 'generateContent')
    throw new EngineError(
      'agent-invalid',
      `expected api of gemini to be "generateContent" or "interactions", got ${JSON.stringify(api)}.`,
    );
  if (store !== undefined)
    throw new EngineError('agent-invalid', 'store of gemini is an option of api: "interactions".');
  return contentAdapter(options);
}

function interactionsAdapter(options: GeminiOptions): ModelAdapter {
  const { model, providerOptions, store = true } = options;
  const bodyOf = interactionBody(model, { store, providerOptions });
  return singleTurnAdapter({
    provider: INTERACTIONS,
    model,
    capabilities: {
      serverTools: true,
      structuredOutput: schemaFor(model),
      continuation: true,
      usage: usageFrom(ENDPOINT, options),
    },
    connect: connector({ ...ENDPOINT, provider: INTERACTIONS }, options),
    send: (connection, request, { stream, signal }) =>
      connection.post('/interactions', bodyOf(request, { stream }), signal),
    again(error, { continuation, ...full }) {
      return isPreviousMissing(error, continuationIn(continuation).id) ? full : undefined;
    },
    reader: (request, context) => new InteractionReader(request, context),
    ending: 'interaction.completed or an error',
    now: options.now,
  });
}

/** Whether the interaction to continue from is not stored, or no longer. A stream reports it in an event. */
function isPreviousMissing({ code, status, raw }: ProviderError, previous: string | undefined): boolean {
  if (previous === undefined) return false;
  const { message } = readErrorBody(raw);
  const isNamed = message.includes(previous) || /previous.interaction/i.test(message);
  if (status === 400) return isNamed;
  return (code === 'not-found' || status === 403) && (isNamed || /\binteraction\b/i.test(message));
}

function contentAdapter(options: GeminiOptions): ModelAdapter {
  const { model, providerOptions } = options;
  const bodyOf = geminiBody(model, providerOptions);
  return singleTurnAdapter({
    provider: ENDPOINT.provider,
    model,
    capabilities: {
      serverTools: true,
      structuredOutput: schemaFor(model),
      usage: usageFrom(ENDPOINT, options),
    },
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

/** An older model has the schema among its instructions if it has tools. */
function schemaFor(model: string): Capabilities['structuredOutput'] {
  return generationOf(model) < 3 ? 'instructions' : 'native';
}
