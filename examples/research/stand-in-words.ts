/** English words that do not indicate a topic. */
const FUNCTION_WORDS = new Set(
  `a about after again all also am an and any are as at be been before being but by can could did do does doing
  done down for from get give given had has have having he her him his how i if in into is it its just let like
  make many may me might more most much must my never no nor not of off on once one only or other our out over own say
  says said shall she should so some such tell than that the their them then there these they this those through
  to too under up use us very was we were what when where which while who whom whose why will with would you your
  happen happens mean means does thing things anything something according document documents text texts`.split(
    /\s+/,
  ),
);

/** Returns the distinct content words of a text in lower case, in their order. */
export function contentWords(text: string): string[] {
  const words = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  return [...new Set(words)].filter(word => word.length > 1 && !FUNCTION_WORDS.has(word));
}

/** Removes common endings of an English word, so that "runs" equals "run". */
export function stemOf(word: string): string {
  if (word.length < 4) return word;
  const bare = word.replace(/(?:ies|ied|y)$/, 'i').replace(/(?:ing|ed|es|s)$/, '');
  return (bare.length < 3 ? word : bare).replace(/(.)\1$/, '$1').replace(/e$/, '');
}

/** Returns the stems of all words of a text. */
export function stemsIn(text: string): Set<string> {
  return new Set((text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []).map(stemOf));
}
