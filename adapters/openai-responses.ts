import type { ModelAdapter } from '../protocol/adapter.ts';
import { isReasoningModel, OPENAI_ENDPOINT } from './http/openai.ts';
import { type ResponsesOptions, responsesAdapter } from './responses/adapter.ts';
import type { ResponsesDialect } from './responses/dialect.ts';

/**
 * OpenAI's Responses API. Key, URL, organization and project come from `OPENAI_API_KEY`,
 * `OPENAI_BASE_URL`, `OPENAI_ORG_ID` and `OPENAI_PROJECT_ID` where the options do not say.
 */
export function openaiResponses(options: ResponsesOptions): ModelAdapter {
  return responsesAdapter(OPENAI, options);
}

const OPENAI: ResponsesDialect = {
  ...OPENAI_ENDPOINT,
  provider: 'openai-responses',
  remembers: true,
  customTools: 'client',
  reasons: isReasoningModel,
};
