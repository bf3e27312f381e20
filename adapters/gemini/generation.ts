/**
 * The generation a model is of, such as 2.5. Names without one, such as `gemini-flash-latest`, mean
 * the newest; 0 for what is not a Gemini model or does not say, such as a tuned model.
 */
export function generationOf(model: string): number {
  const name = model.split('/').at(-1) ?? '';
  const version = /^gemini-(?:[a-z-]+-)?(\d\d?(?:\.\d+)?)(?![\d.])/.exec(name)?.[1];
  if (version !== undefined) return Number(version);
  return /^gemini-.*latest$/.test(name) ? 3 : 0;
}
