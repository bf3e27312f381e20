import type { JsonSchemaType, JsonSchemaValidator } from '@modelcontextprotocol/client';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import type { Validation } from '../../protocol/tool.ts';

/**
 * Checks arguments against the schema an MCP server gave, with the validator the MCP client ships (Ajv,
 * loaded with the client anyway), compiled on first use, one for each tool so that equal `$id`s do not
 * meet. A schema it cannot compile (an unknown dialect, a reference to elsewhere) leaves all but "is an
 * object" to the server.
 */
export function createArgumentsCheck(schema: JsonObject): (input: JsonValue) => Promise<Validation> {
  let compiling: Promise<JsonSchemaValidator<JsonValue> | null> | null = null;
  return async input => {
    if (!isJsonObject(input)) return { valid: false, message: 'expected an object of arguments' };
    compiling ??= compile(schema);
    const check = await compiling;
    const result = check?.(input);
    if (!result || result.valid) return { valid: true, value: input };
    return { valid: false, message: nameByPath(result.errorMessage) };
  };
}

async function compile(schema: JsonObject): Promise<JsonSchemaValidator<JsonValue> | null> {
  const { AjvJsonSchemaValidator } = await import('@modelcontextprotocol/client/validators/ajv');
  try {
    return new AjvJsonSchemaValidator().getValidator<JsonValue>(schema as JsonSchemaType);
  } catch {
    return null;
  }
}

/** `data/items/0 must be string` → `items.0: must be string`. */
function nameByPath(message: string): string {
  return message.replace(/(^|, )data(?:\/(\S+))? /g, (_match, separator: string, path?: string) =>
    path === undefined ? separator : `${separator}${path.replaceAll('/', '.')}: `,
  );
}
