/**
 * Returns a model's generation, such as 2.5. Names without one, such as `gemini-flash-latest`, mean the
 * newest (3). Returns 0 for other models and names that do not tell, such as tuned models.
 */
export function generationOf(model: string): number {
  const name = model.split('/').at(-1) ?? '';
  const version = /^gemini-(?:[a-z-]+-)?(\d\d?(?:\.\d+)?)(?![\d.])/.exec(name)?.[1];
  if (version !== undefined) return Number(version);
  return /^gemini-.*latest$/.test(name) ? 3 : 0;
}
