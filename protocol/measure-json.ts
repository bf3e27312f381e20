const QUOTE = 34;
const BACKSLASH = 92;

/** Returns the nesting depth of a JSON text and its number of commas, without parsing it. */
export function measureJson(text: string): { depth: number; commas: number } {
  let depth = 0;
  let deepest = 0;
  let commas = 0;
  let inString = false;
  for (let at = 0; at < text.length; at += 1) {
    const char = text.charCodeAt(at);
    if (inString) {
      if (char === BACKSLASH) at += 1;
      else if (char === QUOTE) inString = false;
      continue;
    }
    if (char === QUOTE) inString = true;
    else if (char === 0x5b || char === 0x7b) depth += 1;
    else if (char === 0x5d || char === 0x7d) depth -= 1;
    else if (char === 0x2c) commas += 1;
    if (depth > deepest) deepest = depth;
  }
  return { depth: deepest, commas };
}
