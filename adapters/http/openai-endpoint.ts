import type { Endpoint } from './connection.ts';

/** OpenAI itself, for both of its APIs. Only it is told an organization and a project. */
export const OPENAI_ENDPOINT: Omit<Endpoint, 'provider'> = {
  keyVariables: ['OPENAI_API_KEY'],
  baseURLVariable: 'OPENAI_BASE_URL',
  defaultBaseURL: 'https://api.openai.com/v1',
  headerVariables: { 'openai-organization': 'OPENAI_ORG_ID', 'openai-project': 'OPENAI_PROJECT_ID' },
};
