import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import { arrayOf, objectOf, objectsOf, textIn } from '../turn/json-access.ts';

/**
 * Converts a JSON Schema to the TypeScript-like type that the models were trained on. The result equals that
 * of OpenAI's renderer (openai/harmony, src/encoding.rs), which also decides the indentation and where a
 * description is repeated. In addition, it shows `anyOf`, `const`, and lists of types in full.
 */
export function typescriptType(schema: JsonValue | undefined, indent = ''): string {
  if (!isJsonObject(schema)) return 'any';
  if (Array.isArray(schema.oneOf)) return variantsOf(schema, indent);
  if (Array.isArray(schema.anyOf)) {
    return joinTypes(schema.anyOf.map(variant => nullableType(variant, indent)));
  }
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (Array.isArray(schema.type)) {
    return joinTypes(schema.type.map(type => typescriptType({ ...schema, type }, indent)));
  }
  switch (schema.type) {
    case 'object':
      return objectType(schema, indent);
    case 'array':
      return schema.items === undefined ? 'Array<any>' : `${typescriptType(schema.items, indent)}[]`;
    case 'string':
      return quotedEnum(schema) || 'string';
    case 'integer':
    case 'number':
      return 'number';
    case 'boolean':
    case 'null':
      return schema.type;
    default:
      return arrayOf(schema.enum).map(literal).join(' | ') || 'any';
  }
}

/** Formats text as comment lines. Returns `''` for no text. */
export function commentLines(text: string, indent = ''): string {
  if (text === '') return '';
  return text
    .split(/\r?\n/)
    .map(line => `${indent}// ${line}\n`)
    .join('');
}

function objectType(schema: JsonObject, indent: string): string {
  const required = new Set(arrayOf(schema.required));
  const members = Object.entries(objectOf(schema.properties)).map(([name, value]) => {
    const property = objectOf(value);
    const mark = required.has(name) ? '' : '?';
    const key = `${/^[\p{L}_$][\p{L}\p{N}_$-]*$/u.test(name) ? name : JSON.stringify(name)}${mark}`;
    return propertyLines(key, property, indent);
  });
  return `${commentLines(textIn(schema.description), indent)}{\n${members.join('')}${indent}}`;
}

function propertyLines(key: string, property: JsonObject, indent: string): string {
  const variants = Array.isArray(property.oneOf) ? objectsOf(property.oneOf) : undefined;
  const [first] = variants ?? [];
  const description = textIn(property.description);
  const isRepeated = first !== undefined && textIn(first.description) === description;
  const head = [
    typeof property.title === 'string' ? `${commentLines(property.title, indent)}${indent}//\n` : '',
    variants === undefined ? commentLines(description, indent) : '',
    examplesIn(property, indent),
    variants === undefined || isRepeated ? '' : commentLines(description, indent),
  ].join('');
  if (variants === undefined) {
    const suffix = defaultOf(property);
    const type = nullableType(property, `${indent}    `);
    return `${head}${indent}${key}: ${type},${suffix === '' ? '' : ` // ${suffix}`}\n`;
  }
  const suffix = defaultOf(property);
  const lines = variants.map((variant, at) => {
    const own = textIn(variant.description);
    const isShown = own === description || (at === 0 && description !== '' && !isRepeated);
    return `${indent} | ${variantType(variant, indent, isShown ? '' : own)}\n`;
  });
  return `${head}${commentLines(suffix, indent)}${indent}${key}:\n${lines.join('')}${indent},\n`;
}

function examplesIn({ examples }: JsonObject, indent: string): string {
  const texts = arrayOf(examples).filter(example => typeof example === 'string');
  return arrayOf(examples).length === 0
    ? ''
    : `${indent}// Examples:\n${texts.map(text => `${indent}// - "${text}"\n`).join('')}`;
}

/** The variants of a `oneOf` outside of a property: one line each, after a line break. */
function variantsOf({ oneOf }: JsonObject, indent: string): string {
  return objectsOf(oneOf)
    .map(variant => `\n${indent} | ${variantType(variant, indent, textIn(variant.description))}`)
    .join('');
}

function variantType(variant: JsonObject, indent: string, description: string): string {
  const comment = [description, defaultOf(variant)].filter(text => text !== '').join(' ');
  const type = nullableType(variant, `${indent}   `);
  return comment === '' ? type : `${type} // ${comment.replace(/[\r\n]+/g, ' ')}`;
}

function nullableType(schema: JsonValue, indent: string): string {
  const type = typescriptType(schema, indent);
  return objectOf(schema).nullable === true && !type.includes('null') ? `${type} | null` : type;
}

/** The default of an enum is written without quotes. */
function defaultOf(schema: JsonObject): string {
  const { default: value } = schema;
  if (value === undefined) return '';
  const isPlain = typeof value === 'string' && arrayOf(schema.enum).length > 0;
  return `default: ${isPlain ? value : literal(value)}`;
}

function quotedEnum(schema: JsonObject): string {
  return arrayOf(schema.enum)
    .filter(value => typeof value === 'string')
    .map(literal)
    .join(' | ');
}

/** OpenAI's renderer does not escape quotes in texts. */
function literal(value: JsonValue): string {
  return typeof value === 'string' ? `"${value}"` : JSON.stringify(value);
}

function joinTypes(types: readonly string[]): string {
  return [...new Set(types)].join(' | ') || 'any';
}
