import type { JsonObject } from '../../protocol/json.ts';

const texts = new WeakMap<object, string>();

/** Notes the JSON of a list that goes into a body, made piece by piece. Nobody may change the list afterwards. */
export function noteText(list: readonly JsonObject[], text: string): void {
  texts.set(list, text);
}

/** The body as JSON, as `JSON.stringify` gives it; what is noted of its members is not made again. */
export function bodyText(body: JsonObject): string {
  const members: string[] = [];
  for (const [name, value] of Object.entries(body)) {
    const noted = typeof value === 'object' && value !== null ? texts.get(value) : undefined;
    const text: string | undefined = noted ?? JSON.stringify(value);
    if (text !== undefined) members.push(`${JSON.stringify(name)}:${text}`);
  }
  return `{${members.join(',')}}`;
}
