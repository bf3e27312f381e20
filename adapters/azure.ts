import type { ModelAdapter } from '../protocol/adapter.ts';
import { chatAdapter } from './chat/adapter.ts';
import { AZURE_CHAT } from './chat/dialects/azure.ts';
import type { Endpoint } from './connection.ts';
import { type ResponsesOptions, responsesAdapter } from './responses/adapter.ts';
import { isReasoningModel } from './responses/reasoning-models.ts';

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
 * `https://NAME.services.ai.azure.com/models`, for old resources `…/openai/deployments/DEPLOYMENT`.
 */
export function azure({ api, apiVersion, ...options }: AzureOptions): ModelAdapter {
  const baseURL = options.baseURL ?? process.env[AZURE.baseURLVariable] ?? '';
  const connected = { ...options, fetch: azureFetch(options, apiVersion) };
  return (api ?? (hasOnlyChat(baseURL) ? 'chat' : 'responses')) === 'chat'
    ? chatAdapter({ ...AZURE_CHAT, ...AZURE }, connected)
    : responsesAdapter(
        { ...AZURE, remembers: true, customTools: 'client', reasons: isReasoningModel },
        connected,
      );
}

const AZURE: Endpoint = {
  provider: 'azure',
  keyVariables: ['AZURE_API_KEY', 'AZURE_OPENAI_API_KEY'],
  baseURLVariable: 'AZURE_BASE_URL',
  baseURLExample: 'https://NAME.openai.azure.com/openai/v1',
};

function hasOnlyChat(url: string): boolean {
  return /\/models\/?$|\/deployments\//.test(url);
}

/** Sends the key as `api-key`, as keys are sent at Azure; an `authorization` header of the caller's own stays. */
function azureFetch({ fetch: inner, headers = {} }: ResponsesOptions, apiVersion?: string): typeof fetch {
  const ownAuthorization = new Headers(headers).has('authorization');
  return (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input);
    const version = apiVersion ?? process.env.AZURE_API_VERSION?.trim() ?? '';
    if (version !== '') url.searchParams.set('api-version', version);
    else if (url.pathname.endsWith('/models/chat/completions')) {
      url.searchParams.set('api-version', '2024-05-01-preview');
    } else if (url.pathname.includes('/deployments/')) url.searchParams.set('api-version', '2024-10-21');
    const sent = new Headers(init?.headers);
    const key = /^Bearer (.+)$/.exec(sent.get('authorization') ?? '')?.[1];
    if (key !== undefined && !ownAuthorization) {
      sent.delete('authorization');
      sent.set('api-key', key);
    }
    return (inner ?? fetch)(url, { ...init, headers: sent });
  };
}
