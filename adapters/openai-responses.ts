import type { ModelAdapter } from '../protocol/adapter.ts';
import { refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import { isReasoningModel, OPENAI_ENDPOINT } from './http/openai.ts';
import { RESPONSES_NAMES, type ResponsesOptions, responsesAdapter } from './responses/adapter.ts';
import type { ResponsesDialect } from './responses/dialect.ts';

/**
 * Creates an adapter for OpenAI's Responses API. Defaults for key, URL, organization and project:
 * `OPENAI_API_KEY`, `OPENAI_BASE_URL`, `OPENAI_ORG_ID` and `OPENAI_PROJECT_ID`.
 *
 * @example
 * const model = openaiResponses({ model: 'gpt-5' });
 */
export function openaiResponses(options: ResponsesOptions): ModelAdapter {
  refuseUnknownOptions('openaiResponses', options, RESPONSES_NAMES);
  return responsesAdapter(OPENAI, options);
}

/** Sources: https://developers.openai.com/api/docs/guides/keep-prefix-unchanged, and the model profiles of @langchain/openai. */
const OPENAI: ResponsesDialect = {
  ...OPENAI_ENDPOINT,
  provider: 'openai-responses',
  remembers: true,
  countsTokens: true,
  customTools: 'client',
  reasons: isReasoningModel,
  appends: model => /(?:^|\/)(?:gpt-4\.1|gpt-[5-9]|o3)/.test(model),
  bindsReasoning: model => /(?:^|\/)gpt-[6-9]/.test(model),
};
