import type { ModelAdapter } from '../protocol/adapter.ts';
import { isReasoningModel, OPENAI_ENDPOINT } from './http/openai.ts';
import { type ResponsesOptions, responsesAdapter } from './responses/adapter.ts';
import type { ResponsesDialect } from './responses/dialect.ts';

/**
 * Creates an adapter for OpenAI's Responses API. Defaults for key, URL, organization and project:
 * `OPENAI_API_KEY`, `OPENAI_BASE_URL`, `OPENAI_ORG_ID` and `OPENAI_PROJECT_ID`.
 *
 * @example
 * const model = openaiResponses({ model: 'gpt-5' });
 */
export function openaiResponses(options: ResponsesOptions): ModelAdapter {
  return responsesAdapter(OPENAI, options);
}

const OPENAI: ResponsesDialect = {
  ...OPENAI_ENDPOINT,
  provider: 'openai-responses',
  remembers: true,
  countsTokens: true,
  customTools: 'client',
  reasons: isReasoningModel,
};
