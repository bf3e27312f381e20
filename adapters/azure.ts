import type { ModelAdapter } from '../protocol/adapter.ts';
import { type NamesOf, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import { chatAdapter } from './chat/adapter.ts';
import type { ChatDialect } from './chat/dialect.ts';
import { type Endpoint, readVariable } from './http/connection.ts';
import { isOpenaiModel, isReasoningModel, OPENAI_CALL_IDS } from './http/openai.ts';
import { RESPONSES_NAMES, type ResponsesOptions, responsesAdapter } from './responses/adapter.ts';

/** Options of `azure`. */
export type AzureOptions = ResponsesOptions & {
  /** Default: `responses`, or `chat` if the base URL only supports Chat Completions. */
  api?: 'responses' | 'chat';
  /** Sent as `api-version`. Default: `AZURE_API_VERSION`, else the version that the URL requires. */
  apiVersion?: string;
};

const NAMES: NamesOf<AzureOptions> = { ...RESPONSES_NAMES, api: true, apiVersion: true };

/**
 * Creates an adapter for Azure OpenAI and Azure AI Foundry; `model` is the deployment's name. Defaults for
 * key and URL: `AZURE_API_KEY` (or `AZURE_OPENAI_API_KEY`) and `AZURE_BASE_URL`. The URL is
 * `https://NAME.openai.azure.com/openai/v1`, for other vendors' models also
 * `https://NAME.services.ai.azure.com/models`, and for older resources `…/openai/deployments/DEPLOYMENT`.
 * Pass an Entra ID token in an `authorization` header, or use `client: new AzureOpenAI(…)`.
 *
 * @example
 * const model = azure({ model: 'my-deployment', baseURL: 'https://NAME.openai.azure.com/openai/v1' });
 */
export function azure(options: AzureOptions): ModelAdapter {
  refuseUnknownOptions('azure', options, NAMES);
  const { api, apiVersion, ...connection } = options;
  const baseURL =
    connection.client?.baseURL ?? connection.baseURL ?? readVariable(AZURE.baseURLVariable) ?? '';
  const endpoint: Endpoint = {
    ...AZURE,
    ...(hasAuthorization(connection.headers) ? {} : { keyHeader: 'api-key' }),
    resolveURL: url => withApiVersion(url, apiVersion),
  };
  const hasOnlyChat = /\/models\/?(?:\?|$)|\/deployments\//.test(baseURL);
  return (api ?? (hasOnlyChat ? 'chat' : 'responses')) === 'chat'
    ? chatAdapter({ ...AZURE_CHAT, ...endpoint }, connection)
    : responsesAdapter(
        { ...endpoint, remembers: true, customTools: 'client', reasons: isReasoningModel },
        connection,
      );
}

const AZURE: Endpoint = {
  provider: 'azure',
  keyVariables: ['AZURE_API_KEY', 'AZURE_OPENAI_API_KEY'],
  baseURLVariable: 'AZURE_BASE_URL',
  baseURLExample: 'https://NAME.openai.azure.com/openai/v1',
};

/** An Entra ID token in an `authorization` header replaces the key. */
function hasAuthorization(headers: Record<string, string> = {}): boolean {
  return Object.keys(headers).some(name => name.toLowerCase() === 'authorization');
}

/** The option or environment variable takes precedence, then the URL, then what the address requires. */
function withApiVersion(baseURL: string, apiVersion?: string): string {
  if (!URL.canParse(baseURL)) return baseURL;
  const url = new URL(baseURL);
  const configured = apiVersion ?? readVariable('AZURE_API_VERSION') ?? '';
  const version = configured || (url.searchParams.get('api-version') ?? requiredVersion(url));
  if (version !== '') url.searchParams.set('api-version', version);
  return url.href;
}

function requiredVersion({ pathname }: URL): string {
  if (/\/models\/?$/.test(pathname)) return '2024-05-01-preview';
  return pathname.includes('/deployments/') ? '2024-10-21' : '';
}

/** Azure's Chat Completions dialect, for OpenAI's models and other vendors' models in Foundry. */
export const AZURE_CHAT: ChatDialect = {
  ...AZURE,
  maxTokensMember: model => (isOpenaiModel(model) ? 'max_completion_tokens' : 'max_tokens'),
  callIds: OPENAI_CALL_IDS,
  reasoning: 'member',
};
