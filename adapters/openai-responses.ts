import type { ModelAdapter } from '../protocol/adapter.ts';
import { type NamesOf, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import { isReasoningModel, OPENAI_ENDPOINT } from './http/openai.ts';
import { type PromptCache, promptCacheMembers } from './http/prompt-cache.ts';
import { RESPONSES_NAMES, type ResponsesOptions, responsesAdapter } from './responses/adapter.ts';
import type { ResponsesDialect } from './responses/dialect.ts';
import { mergeOptions } from './turn/json-access.ts';

/**
 * Creates an adapter for OpenAI's Responses API. Defaults for key, URL, organization and project:
 * `OPENAI_API_KEY`, `OPENAI_BASE_URL`, `OPENAI_ORG_ID` and `OPENAI_PROJECT_ID`.
 *
 * @example
 * const model = openaiResponses({ model: 'gpt-5' });
 */
export function openaiResponses(options: OpenaiResponsesOptions): ModelAdapter {
  refuseUnknownOptions('openaiResponses', options, NAMES);
  const { promptCache, ...others } = options;
  const members = promptCacheMembers('openaiResponses', promptCache);
  return responsesAdapter(
    { ...OPENAI, breakpoints: promptCache?.mode === 'explicit' },
    { ...others, providerOptions: mergeOptions(members, others.providerOptions) },
  );
}

/** Options of `openaiResponses`. */
export type OpenaiResponsesOptions = ResponsesOptions & { promptCache?: PromptCache };

const NAMES: NamesOf<OpenaiResponsesOptions> = { ...RESPONSES_NAMES, promptCache: true };

/**
 * Sources: https://developers.openai.com/api/docs/guides/{keep-prefix-unchanged,tools-tool-search}, …/api/docs/changelog
 * (no tool search for nano models), and the model profiles of @langchain/openai.
 */
const OPENAI: ResponsesDialect = {
  ...OPENAI_ENDPOINT,
  provider: 'openai-responses',
  remembers: true,
  countsTokens: true,
  compacts: true,
  customTools: 'client',
  reasons: isReasoningModel,
  appends: model => /(?:^|\/)(?:gpt-4\.1|gpt-[5-9]|o3)/.test(model),
  searchesTools: model =>
    /(?:^|\/)(?:gpt-|o)\d/.test(model)
      ? /(?:^|\/)gpt-(?:5\.(?:[4-9]|\d\d)|[6-9])(?!.*nano)/.test(model)
      : undefined,
  bindsReasoning: model => /(?:^|\/)gpt-[6-9]/.test(model),
};
