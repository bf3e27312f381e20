import type { ModelAdapter } from '../protocol/adapter.ts';
import { chatAdapter } from './chat/adapter.ts';
import type { ChatDialect } from './chat/dialect.ts';
import { trimSlashes } from './http/fetch-transport.ts';
import { type OllamaNativeOptions, ollamaAdapter } from './ollama/adapter.ts';

export type OllamaOptions = OllamaNativeOptions & {
  /** `native` (default): Ollama's own `/api/chat`. `chat`: its Chat Completions at `/v1`. */
  api?: 'native' | 'chat';
};

/**
 * Ollama, on this machine or elsewhere. The URL is the server's root, with or without a `/v1`; it comes
 * from `OLLAMA_BASE_URL` where the options do not say, else it is `http://localhost:11434`. A key is
 * optional: `OLLAMA_API_KEY` is sent as a bearer token where it is set.
 *
 * The native API cannot be told to call a tool: `required` is sent as `auto`, a tool named is the only
 * one sent, and `none` sends no tools. Pictures and text files go along as `data:` URLs only.
 */
export function ollama({ api = 'native', ...options }: OllamaOptions): ModelAdapter {
  return api === 'chat'
    ? chatAdapter(
        {
          ...OLLAMA_CHAT,
          defaultBaseURL: 'http://localhost:11434',
          resolveURL: url => (url === '' ? url : `${rootOf(url)}/v1`),
        },
        options,
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
        options,
      );
}

function rootOf(url: string): string {
  return trimSlashes(url).replace(/\/(?:v1|api)$/, '');
}

/** Ollama's compatible endpoint. A format binds every word, so beside tools it would keep calls out. */
export const OLLAMA_CHAT: ChatDialect = {
  provider: 'ollama',
  keyVariables: ['OLLAMA_API_KEY'],
  keyOptional: true,
  baseURLVariable: 'OLLAMA_BASE_URL',
  defaultBaseURL: 'http://127.0.0.1:11434/v1',
  outputWithTools: 'instructions',
  reasoning: 'member',
};
