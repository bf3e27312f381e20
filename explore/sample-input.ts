import { isJsonObject, type JsonObject, type JsonValue } from '../protocol/json.ts';

/** The maximum of inputs for one tool. */
const MAX_INPUTS = 8;
const MAX_DEPTH = 6;
const LARGE = 1_000_000;

/**
 * Returns up to 8 inputs that a JSON Schema allows: the simplest one first, then one for each other interesting
 * value, such as a large number, the next member of an enum, the other boolean. Ignores `pattern` and
 * refinements.
 */
export function sampleInputs(schema: JsonObject): JsonValue[] {
  const [simplest = {}, ...others] = sample(schema, schema, 0);
  return [simplest, ...others].slice(0, MAX_INPUTS);
}

function sample(place: JsonValue | undefined, root: JsonObject, depth: number): JsonValue[] {
  const schema = resolve(place, root);
  if (depth > MAX_DEPTH || schema === null) return [{}];
  if ('const' in schema) return [schema.const ?? null];
  if (Array.isArray(schema.enum) && schema.enum.length > 0) return schema.enum;
  const choices = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(choices)) return choices.flatMap(choice => sample(choice, root, depth + 1));
  if (Array.isArray(schema.allOf)) return sampleAll(schema.allOf, schema, root, depth);
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  switch (type ?? (isJsonObject(schema.properties) ? 'object' : undefined)) {
    case 'object':
      return sampleObject(schema, root, depth);
    case 'array': {
      const [first = 'text'] = sample(schema.items, root, depth + 1);
      return [Array.from({ length: Math.max(1, numberOf(schema.minItems) ?? 1) }, () => first)];
    }
    case 'number':
    case 'integer':
      return sampleNumbers(schema);
    case 'boolean':
      return [true, false];
    case 'null':
      return [null];
    default:
      return [sampleText(schema)];
  }
}

function sampleAll(parts: JsonValue[], { allOf: _, ...rest }: JsonObject, root: JsonObject, depth: number) {
  const merged: JsonObject = {};
  for (const part of [...parts, rest]) {
    const schema = resolve(part, root) ?? {};
    const properties = { ...asObject(merged.properties), ...asObject(schema.properties) };
    Object.assign(merged, schema, { properties });
  }
  return sample(merged, root, depth + 1);
}

function sampleObject(schema: JsonObject, root: JsonObject, depth: number): JsonValue[] {
  const values = Object.entries(asObject(schema.properties)).map(
    ([name, property]) => [name, sample(property, root, depth + 1)] as const,
  );
  const simplest = Object.fromEntries(values.map(([name, [first = null]]) => [name, first]));
  const others = values.flatMap(([name, [, ...rest]]) => rest.map(value => ({ ...simplest, [name]: value })));
  return [simplest, ...others];
}

function sampleNumbers(schema: JsonObject): JsonValue[] {
  const above = numberOf(schema.exclusiveMinimum);
  const least = numberOf(schema.minimum) ?? (above === undefined ? 1 : above + 1);
  const below = numberOf(schema.exclusiveMaximum);
  const most = numberOf(schema.maximum) ?? (below === undefined ? Math.max(LARGE, least * 2) : below - 1);
  const bounded = Math.min(most, Number.MAX_SAFE_INTEGER);
  const capped = bounded === Number.MAX_SAFE_INTEGER ? Math.max(LARGE, least) : bounded;
  return capped > least ? [least, capped] : [least];
}

const BY_FORMAT: Readonly<Record<string, string>> = {
  email: 'ada@example.com',
  uri: 'https://example.com/',
  url: 'https://example.com/',
  uuid: '00000000-0000-4000-8000-000000000000',
  date: '2026-01-01',
  'date-time': '2026-01-01T00:00:00Z',
};

function sampleText({ format, minLength }: JsonObject): string {
  const text = (typeof format === 'string' ? BY_FORMAT[format] : undefined) ?? 'text';
  return text.padEnd(numberOf(minLength) ?? 0, 'x');
}

function resolve(schema: JsonValue | undefined, root: JsonObject): JsonObject | null {
  if (!isJsonObject(schema)) return null;
  const { $ref } = schema;
  if (typeof $ref !== 'string') return schema;
  const found = $ref
    .replace(/^#\/?/, '')
    .split('/')
    .filter(Boolean)
    .reduce<JsonValue | undefined>((value, key) => (isJsonObject(value) ? value[key] : undefined), root);
  return isJsonObject(found) ? found : null;
}

function asObject(value: JsonValue | undefined): JsonObject {
  return isJsonObject(value) ? value : {};
}

function numberOf(value: JsonValue | undefined): number | undefined {
  return typeof value === 'number' ? value : undefined;
}
