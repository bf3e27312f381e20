import * as z from 'zod';
import { isJsonObject, type JsonObject, type JsonValue } from '../protocol/json.ts';
import { unknownFields } from '../protocol/options/refuse-unknown.ts';

/** A strict object of a file, a request or the arguments of a tool, whose error names what was meant. */
export function fields<Shape extends z.core.$ZodLooseShape>(shape: Shape) {
  return z.strictObject(shape, unknownFields(shape));
}

/** An object of a request that may have members that this server does not know. They are kept. */
export function openFields<Shape extends z.core.$ZodLooseShape>(shape: Shape) {
  return z.object(shape).catchall(z.custom<JsonValue>());
}

export function optional<Schema extends z.ZodType>(schema: Schema, description: string) {
  return z.exactOptional(schema.meta({ description }));
}

export function maybe<Schema extends z.ZodType>(schema: Schema) {
  return z.exactOptional(z.nullable(schema));
}

/** The members with camel-case names: `timeout_ms` becomes `timeoutMs`. */
export function camelCased<Members extends object>(members: Members): CamelCased<Members> {
  const named = Object.entries(members).map(([name, value]) => [
    name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
    value,
  ]);
  return Object.fromEntries(named);
}

type CamelCased<Members> = { [Name in keyof Members as CamelCase<Name & string>]: Members[Name] };
type CamelCase<Name extends string> = Name extends `${infer Head}_${infer Tail}`
  ? `${Head}${CamelCase<Capitalize<Tail>>}`
  : Name;

export const object = z.custom<JsonObject>(isJsonObject, 'expected an object');

/** A list of parts. A string stands for one part of the type `text`. */
export function orText<Parts extends z.ZodType>(parts: Parts) {
  return z
    .custom<string | z.input<Parts>>()
    .transform((value): unknown => (typeof value === 'string' ? [{ type: 'text', text: value }] : value))
    .pipe(parts);
}
