/** `openai:gpt-5, then anthropic:claude`. */
export function nameModels(models: readonly { provider: string; model: string }[]): string {
  return models.map(({ provider, model }) => `${provider}:${model}`).join(', then ');
}
