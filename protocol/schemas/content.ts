import * as z from 'zod/mini';

const marked = new WeakSet<object>();

/** Marks content: a text or JSON from people, models and tools, which may be redacted, JSON in part. */
export function contentSchema<Schema extends z.core.$ZodType>(schema: Schema): Schema {
  const copy = z.clone(schema);
  marked.add(copy._zod);
  return copy;
}

export function isContentOf(schema: z.core.$ZodType, [key, ...rest]: readonly string[]): boolean {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  const path = key === undefined ? [] : [key, ...rest];
  if (marked.has(schema._zod)) return key === undefined || def.type === 'custom';
  switch (def.type) {
    case 'optional':
    case 'nullable':
      return isContentOf(def.innerType, path);
    case 'union':
      return def.options.some(option => isContentOf(option, path));
    case 'array':
      return key !== undefined && /^\d+$/.test(key) && isContentOf(def.element, rest);
    case 'object': {
      const member = key !== undefined && Object.hasOwn(def.shape, key) ? def.shape[key] : undefined;
      return member !== undefined && isContentOf(member, rest);
    }
    default:
      return false;
  }
}
