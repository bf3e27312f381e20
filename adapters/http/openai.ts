import type { Endpoint } from './connection.ts';

/** OpenAI's endpoint, for both of its APIs. Only OpenAI receives the organization and project headers. */
export const OPENAI_ENDPOINT: Omit<Endpoint, 'provider'> = {
  keyVariables: ['OPENAI_API_KEY'],
  baseURLVariable: 'OPENAI_BASE_URL',
  defaultBaseURL: 'https://api.openai.com/v1',
  headerVariables: { 'openai-organization': 'OPENAI_ORG_ID', 'openai-project': 'OPENAI_PROJECT_ID' },
};

/** Whether an OpenAI model is a reasoning model, judged by its name. */
export function isReasoningModel(model: string): boolean {
  return /^(?:ft:)?(?:o[134]|gpt-[5-9](?!.*-chat)|codex|computer-use)/.test(model);
}

/** Whether a model is one of OpenAI's own, judged by its name. */
export function isOpenaiModel(model: string): boolean {
  return /^(?:ft:)?(?:o[1-9]|gpt-|chatgpt-|codex)/.test(model);
}

/** OpenAI's Chat Completions API refuses call ids longer than 40 characters. */
export const OPENAI_CALL_IDS = {
  fits: (id: string): boolean => id.length <= 40,
  make: (digest: string): string => `call_${digest.slice(0, 24)}`,
};
