import type { Contender } from '../contenders/contender.ts';

/**
 * Opens OpenAI Agents with its runner: no session, no tracing, no retries. In JavaScript, because its types would be
 * others than those of the project's own `openai` once this folder is installed.
 */
export function openOpenAiAgents(fetch: typeof globalThis.fetch): Contender;
