import * as z from 'zod';
import { JOURNAL_FORMAT, runEventSchema } from '../../protocol/event.ts';
import { isJsonObject, type JsonObject, type JsonValue, toJson } from '../../protocol/json.ts';

/** The journal's vocabulary: every event by its type, with its fields as a JSON Schema. */
export function describeFormat(): { format: number; events: JsonObject } {
  const events: [string, JsonValue][] = [];
  const collect = (schema: JsonValue): void => {
    if (!isJsonObject(schema)) return;
    const alternatives = schema.oneOf ?? schema.anyOf;
    if (Array.isArray(alternatives)) return alternatives.forEach(collect);
    const { type } = isJsonObject(schema.properties) ? schema.properties : {};
    if (isJsonObject(type) && typeof type.const === 'string') events.push([type.const, schema]);
  };
  collect(toJson(z.toJSONSchema(runEventSchema, { unrepresentable: 'any', io: 'input' })));
  events.sort(([a], [b]) => (a < b ? -1 : 1));
  return { format: JOURNAL_FORMAT, events: Object.fromEntries(events) };
}
