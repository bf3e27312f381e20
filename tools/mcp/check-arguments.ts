import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { Validation } from '../../protocol/tool.ts';
import { type CompilePattern, checkSchema } from './check-schema.ts';

/** The supported dialects: values of `$schema` without scheme and trailing `#`. */
const DIALECTS: ReadonlySet<string> = new Set([
  'json-schema.org/draft/2020-12/schema',
  'json-schema.org/draft/2019-09/schema',
  'json-schema.org/draft-07/schema',
  'json-schema.org/draft-06/schema',
]);

/**
 * Returns a check of a call's arguments against the schema of an MCP server (see `checkSchema`). Arguments must
 * always be an object. Nothing else is checked if `schema` is `undefined` (the server's schema was too deep or
 * too long) or has an unknown dialect. The parts of a schema that cannot be checked, such as a pattern without
 * a linear form, are named in the validation's `unchecked`.
 */
export function createArgumentsCheck(
  schema: JsonObject | undefined,
): (input: JsonValue) => Promise<Validation> {
  const usesPatterns = schema !== undefined && JSON.stringify(schema).includes('"pattern');
  let preparing: Promise<CompilePattern> | null = null;
  return async input => {
    if (!isJsonObject(input)) return { valid: false, message: 'expected an object of arguments' };
    if (schema === undefined) return { valid: true, value: input, unchecked: TOO_LARGE };
    if (!hasKnownDialect(schema)) return { valid: true, value: input };
    preparing ??= usesPatterns ? preparePatterns() : Promise.resolve(() => null);
    const { problems, unchecked } = checkSchema(schema, input, await preparing);
    const note = unchecked.length === 0 ? undefined : describeUnchecked(unchecked);
    if (problems.length === 0) return { valid: true, value: input, ...omitUndefined({ unchecked: note }) };
    const message = problems.join(', ');
    return { valid: false, message: note ? `${message}. ${note}` : message };
  };
}

function hasKnownDialect({ $schema }: JsonObject): boolean {
  if (typeof $schema !== 'string') return true;
  const bare = $schema.endsWith('#') ? $schema.slice(0, -1) : $schema;
  return DIALECTS.has(bare.startsWith('https://') ? bare.slice(8) : bare.slice('http://'.length));
}

/** Loads the pattern engine, which few schemas need. */
async function preparePatterns(): Promise<CompilePattern> {
  const { LinearPatterns } = await import('./linear-patterns.ts');
  const patterns = new LinearPatterns();
  return pattern => patterns.get(pattern);
}

const MAX_SHOWN = 5;
const TOO_LARGE = describeUnchecked(['all arguments (the schema is too deep or too long)']);

function describeUnchecked(unchecked: readonly string[]): string {
  const more = unchecked.length > MAX_SHOWN ? ` and ${unchecked.length - MAX_SHOWN} more` : '';
  return `Not checked before the call, but left to the server: ${unchecked.slice(0, MAX_SHOWN).join(', ')}${more}.`;
}
