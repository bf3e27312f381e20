/** Whether a model is OpenAI's own, by its name. */
export function isOpenaiModel(model: string): boolean {
  return /^(?:ft:)?(?:o[1-9]|gpt-|chatgpt-|codex)/.test(model);
}

/** OpenAI's Chat Completions refuse longer ids. */
export const OPENAI_CALL_IDS = {
  fits: (id: string): boolean => id.length <= 40,
  make: (digest: string): string => `call_${digest.slice(0, 24)}`,
};
