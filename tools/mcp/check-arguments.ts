import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import type { Validation } from '../../protocol/tool.ts';
import { type CompilePattern, checkSchema } from './check-schema.ts';

/** The dialects that are known, by their `$schema` without scheme and `#`. */
const DIALECTS: ReadonlySet<string> = new Set([
  'json-schema.org/draft/2020-12/schema',
  'json-schema.org/draft/2019-09/schema',
  'json-schema.org/draft-07/schema',
  'json-schema.org/draft-06/schema',
]);

/**
 * Checks arguments against the schema an MCP server gave; see `checkSchema`. Without a schema, which was
 * nested too deep or too long to be taken, only "is an object" is checked. A schema of an unknown dialect
 * leaves all but "is an object" to the server. What of a known one is left to it, such as a pattern that
 * has no linear form, is named in the validation.
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
    if (problems.length === 0) return { valid: true, value: input, ...(note && { unchecked: note }) };
    return { valid: false, message: [problems.join(', '), ...(note ? [note] : [])].join('. ') };
  };
}

function hasKnownDialect({ $schema }: JsonObject): boolean {
  if (typeof $schema !== 'string') return true;
  const bare = $schema.endsWith('#') ? $schema.slice(0, -1) : $schema;
  return DIALECTS.has(bare.startsWith('https://') ? bare.slice(8) : bare.slice('http://'.length));
}

/** Loads the engine for patterns. */
async function preparePatterns(): Promise<CompilePattern> {
  const { LinearPatterns } = await import('./linear-patterns.ts');
  const patterns = new LinearPatterns();
  return pattern => patterns.get(pattern);
}

const SHOWN = 5;
const TOO_LARGE = describeUnchecked(['all of it: its schema is nested too deep or too long']);

function describeUnchecked(unchecked: readonly string[]): string {
  const more = unchecked.length > SHOWN ? ` and ${unchecked.length - SHOWN} more` : '';
  return `Not checked before the call, but left to the server: ${unchecked.slice(0, SHOWN).join(', ')}${more}.`;
}
