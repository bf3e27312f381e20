import type { Settled } from '../../protocol/run-view.ts';

const overLimit = (limit: string): string =>
  `The run reached its ${limit} limit. Continue in a new run, or start one with a higher limit.`;

const INCOMPLETE: Readonly<Record<string, string>> = {
  length: 'The reply reached the output token limit. Allow more output tokens, or continue in a new run.',
  content_filter: "The provider's content filter stopped the reply.",
  turns: overLimit('turn'),
  toolCalls: overLimit('tool call'),
  tokens: overLimit('token'),
  cost: overLimit('cost'),
  activeMs: overLimit('active time'),
  'usage-unknown':
    "The run has a limit on tokens or cost, and a turn reported no usage. Set onUnknownUsage: 'estimate' in the agent, use a model that reports usage, or remove the limit.",
  rule: 'A rule of the agent stopped the run. The refused call names it in the conversation.',
  repeatedFailures: 'The same call failed too often with the same input. See its error in the conversation.',
};

const FAILED: Readonly<Record<string, string>> = {
  authentication: "Check the provider's API key in the server's environment, then start a new run.",
  permission: 'The API key has no access to this model. Use another model or another key.',
  quota: 'The provider account has no quota left. Add credit, or configure a fallback model.',
  'rate-limit': 'All retries failed. Try again later, or configure a fallback model.',
  overloaded: 'All retries failed. Try again later, or configure a fallback model.',
  'context-too-long':
    "The transcript exceeds the model's context. Set compaction in the agent, or use a model with a larger context.",
  'invalid-request': "The provider rejected the request. See the provider's message for the reason.",
  'script-exhausted': 'The scripted model has no more turns. Add a turn to its script.',
  'answer-blocked': 'The guardrails blocked the answer too often. See their reasons in the conversation.',
  'output-invalid':
    'The answer violated the output schema too often. See the validation errors in the conversation.',
};

/** Why a run failed or has an incomplete answer, and what to do; `undefined` for other ends, and codes that say nothing. */
export function adviseOnEnd(settled: Settled | null): string | undefined {
  const [advice, code] =
    settled?.status === 'failed'
      ? [FAILED, settled.error.code]
      : [INCOMPLETE, settled?.status === 'finished' ? settled.incomplete?.reason : undefined];
  return code !== undefined && Object.hasOwn(advice, code) ? advice[code] : undefined;
}
