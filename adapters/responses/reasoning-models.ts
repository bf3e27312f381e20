/** Whether a model of OpenAI's reasons, by its name. */
export function isReasoningModel(model: string): boolean {
  return /^(?:ft:)?(?:o[134]|gpt-[5-9](?!.*-chat)|codex|computer-use)/.test(model);
}
