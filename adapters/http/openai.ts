import type { Endpoint } from './connection.ts';

/** OpenAI itself, for both of its APIs. Only it is told an organization and a project. */
export const OPENAI_ENDPOINT: Omit<Endpoint, 'provider'> = {
  keyVariables: ['OPENAI_API_KEY'],
  baseURLVariable: 'OPENAI_BASE_URL',
  defaultBaseURL: 'https://api.openai.com/v1',
  headerVariables: { 'openai-organization': 'OPENAI_ORG_ID', 'openai-project': 'OPENAI_PROJECT_ID' },
};

/** Whether a model of OpenAI's reasons, by its name. */
export function isReasoningModel(model: string): boolean {
  return /^(?:ft:)?(?:o[134]|gpt-[5-9](?!.*-chat)|codex|computer-use)/.test(model);
}

/** Whether a model is OpenAI's own, by its name. */
export function isOpenaiModel(model: string): boolean {
  return /^(?:ft:)?(?:o[1-9]|gpt-|chatgpt-|codex)/.test(model);
}

/** OpenAI's Chat Completions refuse longer ids. */
export const OPENAI_CALL_IDS = {
  fits: (id: string): boolean => id.length <= 40,
  make: (digest: string): string => `call_${digest.slice(0, 24)}`,
};
