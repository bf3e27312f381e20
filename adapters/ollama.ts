import type { ModelAdapter } from '../protocol/adapter.ts';
import { type NamesOf, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import { chatAdapter } from './chat/adapter.ts';
import type { ChatDialect } from './chat/dialect.ts';
import { CONNECTION_NAMES } from './http/connection.ts';
import { trimSlashes } from './http/fetch-transport.ts';
import { type OllamaNativeOptions, ollamaAdapter } from './ollama/adapter.ts';

/** Options of `ollama`. */
export type OllamaOptions = OllamaNativeOptions & {
  /** `native` (default): Ollama's own `/api/chat`. `chat`: its Chat Completions API at `/v1`. */
  api?: 'native' | 'chat';
};

const NAMES: NamesOf<OllamaOptions> = { ...CONNECTION_NAMES, providerOptions: true, api: true };

/**
 * Creates an adapter for an Ollama server, local or remote. The base URL is the server's root, with or
 * without `/v1`; default: `OLLAMA_BASE_URL`, else `http://localhost:11434`. A key is optional:
 * `OLLAMA_API_KEY`, if set, is sent as a bearer token.
 *
 * The native API has no tool choice: `required` is treated as `auto`, a named tool is the only one sent, and
 * `none` sends no tools. Images and text files must be `data:` URLs.
 *
 * @example
 * const model = ollama({ model: 'qwen3' });
 */
export function ollama(options: OllamaOptions): ModelAdapter {
  refuseUnknownOptions('ollama', options, NAMES);
  const { api = 'native', ...connection } = options;
  return api === 'chat'
    ? chatAdapter(
        {
          ...OLLAMA_CHAT,
          defaultBaseURL: 'http://localhost:11434',
          resolveURL: url => (url === '' ? url : `${rootOf(url)}/v1`),
        },
        connection,
      )
    : ollamaAdapter(
        {
          provider: OLLAMA_CHAT.provider,
          keyVariables: ['OLLAMA_API_KEY'],
          keyOptional: true,
          baseURLVariable: 'OLLAMA_BASE_URL',
          defaultBaseURL: 'http://localhost:11434',
          resolveURL: rootOf,
        },
        connection,
      );
}

function rootOf(url: string): string {
  return trimSlashes(url).replace(/\/(?:v1|api)$/, '');
}

/** Ollama's Chat Completions endpoint. A `format` constrains the full output and would prevent tool calls. */
export const OLLAMA_CHAT: ChatDialect = {
  provider: 'ollama',
  keyVariables: ['OLLAMA_API_KEY'],
  keyOptional: true,
  baseURLVariable: 'OLLAMA_BASE_URL',
  defaultBaseURL: 'http://127.0.0.1:11434/v1',
  outputWithTools: 'instructions',
  reasoning: 'member',
};
