import * as z from 'zod/mini';
import { type RunEvent, runEventSchema } from './event.ts';

/** Whether a value is an event of this version. The schemas check what `isPlainEvent` does not recognize. */
export function isRunEvent(value: unknown): value is RunEvent {
  return isPlainEvent(value) || runEventSchema.safeParse(value).success;
}

/** Why a value is not an event: its type, and where its first error is. */
export function describeEventFault(value: unknown): string {
  const issue = runEventSchema.safeParse(value).error?.issues[0];
  if (issue === undefined) return 'another value';
  const type =
    typeof value === 'object' && value !== null && 'type' in value ? `"${String(value.type)}"` : '';
  const where = issue.path.length === 0 ? 'the event' : issue.path.map(String).join('.');
  return `${type === '' ? 'no type' : type} with an error at ${where} (${issue.message})`;
}

/** A fast check, made from the schemas. `true`: they accept the value too, unchanged. `false`: unknown, ask them. */
export function isPlainEvent(value: unknown): value is RunEvent {
  check ??= compile(runEventSchema);
  return check(value);
}

type Check = (value: unknown) => boolean;

let check: Check | undefined;

const never: Check = () => false;

/** Returns a check that accepts less than the schema, or the same. */
function compile(schema: z.core.$ZodType): Check {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  switch (def.type) {
    case 'string':
      return bounded(schema, value => typeof value === 'string');
    case 'number': {
      const isInteger = 'format' in def && def.format === 'safeint';
      return bounded(schema, isInteger ? Number.isSafeInteger : Number.isFinite);
    }
    case 'boolean':
      return value => typeof value === 'boolean';
    case 'null':
      return value => value === null;
    case 'literal':
      return oneOf(def.values);
    case 'enum':
      return oneOf(Object.values(def.entries));
    case 'custom':
      return value => def.fn(value) === true;
    case 'nullable': {
      const inner = compile(def.innerType);
      return value => value === null || inner(value);
    }
    case 'array':
      return bounded(schema, listOf(compile(def.element)));
    case 'record': {
      const member = compile(def.valueType);
      return value => isPlain(value) && Object.values(value).every(member) && isParsedAlike(schema, value);
    }
    case 'object':
      return def.catchall === undefined || def.catchall._zod.def.type === 'never' ? shape(def.shape) : never;
    case 'union':
      return 'discriminator' in def ? choose(def.options, String(def.discriminator)) : anyOf(def.options);
    default:
      return never;
  }
}

function bounded(schema: z.core.$ZodType, isOfType: Check): Check {
  const bounds = (schema._zod.def.checks ?? []).map(one => boundOf((one as z.core.$ZodChecks)._zod.def));
  if (bounds.includes(undefined)) return value => typeof value === 'string' && isParsedAlike(schema, value);
  return bounds.reduce<Check>(
    (before, bound = never) =>
      value =>
        before(value) && bound(value),
    isOfType,
  );
}

function boundOf(def: z.core.$ZodChecks['_zod']['def']): Check | undefined {
  switch (def.check) {
    case 'min_length':
      return value => lengthOf(value) >= def.minimum;
    case 'max_length':
      return value => lengthOf(value) <= def.maximum;
    case 'greater_than':
      return value =>
        def.inclusive ? Number(value) >= Number(def.value) : Number(value) > Number(def.value);
    default:
      return undefined;
  }
}

function lengthOf(value: unknown): number {
  return typeof value === 'string' || Array.isArray(value) ? value.length : Number.NaN;
}

/** Whether the schema accepts a text or a record, and returns an equal one. */
function isParsedAlike(schema: z.core.$ZodType, value: unknown): boolean {
  const parsed = z.safeParse(schema, value);
  if (!parsed.success) return false;
  try {
    return JSON.stringify(parsed.data) === JSON.stringify(value);
  } catch {
    return false; // What the schema left out is not JSON.
  }
}

function oneOf(values: readonly unknown[]): Check {
  const known = new Set(values);
  return value => known.has(value);
}

function anyOf(options: readonly z.core.$ZodType[]): Check {
  const checks = options.map(compile);
  return value => checks.some(accepts => accepts(value));
}

function listOf(accepts: Check): Check {
  return value => {
    if (!Array.isArray(value)) return false;
    for (const entry of value) if (!accepts(entry)) return false;
    return true;
  };
}

/** One of a union's shapes, selected by its discriminator and compiled at its first use. */
function choose(options: readonly z.core.$ZodType[], discriminator: string): Check {
  const checks = new Map<unknown, Check>();
  for (const option of options) {
    let accepts: Check | undefined;
    const compiled: Check = value => {
      accepts ??= compile(option);
      return accepts(value);
    };
    for (const name of option._zod.propValues?.[discriminator] ?? []) checks.set(name, compiled);
  }
  return value => isPlain(value) && checks.get(value[discriminator])?.(value) === true;
}

function shape(members: Readonly<Record<string, z.core.$ZodType>>): Check {
  const checks = new Map<string, { accepts: Check; isOptional: boolean }>();
  for (const [name, member] of Object.entries(members)) {
    const { def } = (member as z.core.$ZodTypes)._zod;
    const isOptional = def.type === 'optional';
    checks.set(name, { accepts: compile(isOptional ? def.innerType : member), isOptional });
  }
  const required = [...checks.values()].filter(({ isOptional }) => !isOptional).length;
  return value => {
    if (!isPlain(value)) return false;
    let found = 0;
    for (const key in value) {
      const member = checks.get(key);
      if (member?.accepts(value[key]) !== true) return false;
      if (!member.isOptional) found += 1;
    }
    return found === required;
  };
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
