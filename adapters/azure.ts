import type { ModelAdapter } from '../protocol/adapter.ts';
import { chatAdapter } from './chat/adapter.ts';
import type { ChatDialect } from './chat/dialect.ts';
import type { Endpoint } from './http/connection.ts';
import { isOpenaiModel, isReasoningModel, OPENAI_CALL_IDS } from './http/openai.ts';
import { type ResponsesOptions, responsesAdapter } from './responses/adapter.ts';

export type AzureOptions = ResponsesOptions & {
  /** `responses` (default) or `chat`; a base URL that has only Chat Completions is taken as `chat`. */
  api?: 'responses' | 'chat';
  /** Sent as `api-version`. Default: `AZURE_API_VERSION`; else the one that `/models` and `/deployments/…` need. */
  apiVersion?: string;
};

/**
 * Azure OpenAI and Foundry; `model` is the deployment's name. Key and URL come from `AZURE_API_KEY` (or
 * `AZURE_OPENAI_API_KEY`) and `AZURE_BASE_URL` where the options do not say. The URL is
 * `https://NAME.openai.azure.com/openai/v1`, for other makers' models also
 * `https://NAME.services.ai.azure.com/models`, for old resources `…/openai/deployments/DEPLOYMENT`. A token
 * of Entra ID goes as an `authorization` header of your own, or through `client: new AzureOpenAI(…)`.
 */
export function azure({ api, apiVersion, ...options }: AzureOptions): ModelAdapter {
  const baseURL = options.client?.baseURL ?? options.baseURL ?? process.env[AZURE.baseURLVariable] ?? '';
  const endpoint: Endpoint = {
    ...AZURE,
    ...(hasAuthorization(options.headers) ? {} : { keyHeader: 'api-key' }),
    resolveURL: url => withApiVersion(url, apiVersion),
  };
  return (api ?? (hasOnlyChat(baseURL) ? 'chat' : 'responses')) === 'chat'
    ? chatAdapter({ ...AZURE_CHAT, ...endpoint }, options)
    : responsesAdapter(
        { ...endpoint, remembers: true, customTools: 'client', reasons: isReasoningModel },
        options,
      );
}

const AZURE: Endpoint = {
  provider: 'azure',
  keyVariables: ['AZURE_API_KEY', 'AZURE_OPENAI_API_KEY'],
  baseURLVariable: 'AZURE_BASE_URL',
  baseURLExample: 'https://NAME.openai.azure.com/openai/v1',
};

/** A token of Entra ID, which goes instead of the key. */
function hasAuthorization(headers: Record<string, string> = {}): boolean {
  return Object.keys(headers).some(name => name.toLowerCase() === 'authorization');
}

function hasOnlyChat(url: string): boolean {
  return /\/models\/?(?:\?|$)|\/deployments\//.test(url);
}

/** A version that was asked for goes before the one in the URL, and that before what the address needs. */
function withApiVersion(baseURL: string, apiVersion?: string): string {
  if (!URL.canParse(baseURL)) return baseURL;
  const url = new URL(baseURL);
  const asked = apiVersion ?? process.env.AZURE_API_VERSION?.trim() ?? '';
  const version = asked || (url.searchParams.get('api-version') ?? neededVersion(url));
  if (version !== '') url.searchParams.set('api-version', version);
  return url.href;
}

function neededVersion({ pathname }: URL): string {
  if (/\/models\/?$/.test(pathname)) return '2024-05-01-preview';
  return pathname.includes('/deployments/') ? '2024-10-21' : '';
}

/** Azure's Chat Completions, for OpenAI's models and those of other makers in Foundry. */
export const AZURE_CHAT: ChatDialect = {
  provider: 'azure',
  keyVariables: ['AZURE_API_KEY', 'AZURE_OPENAI_API_KEY'],
  baseURLVariable: 'AZURE_BASE_URL',
  maxTokensMember: model => (isOpenaiModel(model) ? 'max_completion_tokens' : 'max_tokens'),
  callIds: OPENAI_CALL_IDS,
  reasoning: 'member',
};
