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

/** How many combinations of members get a schema of their own, which is compiled for them. */
const MOST_COMBINATIONS = 64;

/**
 * Reads as the schema does, but looks only at the members that are given or required: zod runs the schema of an absent one
 * too, and makes an issue of it that it then drops.
 */
export function readGiven<Schema extends z.ZodObject>(schema: Schema): Pick<Schema, 'safeParse'> {
  const members = Object.entries<z.ZodType>(schema.shape).map(([name, { _zod }]) => {
    return { name, isNeeded: _zod.optin !== 'optional' || _zod.optout !== 'optional' };
  });
  const known = new Map<string, z.ZodObject>();
  const schemaFor = (value: object): z.ZodObject => {
    const given = members.filter(({ name, isNeeded }) => isNeeded || name in value);
    const key = given.map(({ name }) => name).join();
    const made = known.get(key);
    if (made !== undefined || known.size >= MOST_COMBINATIONS) return made ?? schema;
    const names = Object.fromEntries(given.map(({ name }) => [name, true]));
    const picked = schema.pick(names as Parameters<typeof schema.pick>[0]);
    known.set(key, picked);
    return picked;
  };
  const safeParse: z.ZodObject['safeParse'] = (value, options) =>
    (isJsonObject(value) ? schemaFor(value) : schema).safeParse(value, options);
  return { safeParse: safeParse as Schema['safeParse'] };
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
