import * as z from 'zod/mini';

/** A schema that is built at its first use: most programs use few, and bundlers leave out the others. */
/* @__NO_SIDE_EFFECTS__ */ export function lazySchema<Schema extends object>(build: () => Schema): Schema {
  let built: Schema | undefined;
  return new Proxy({} as Schema, {
    get(_, name) {
      built ??= build();
      return Reflect.get(built, name);
    },
    has(_, name) {
      built ??= build();
      return Reflect.has(built, name);
    },
  });
}

/** The lazy schema of an object with these members. */
/* @__NO_SIDE_EFFECTS__ */ export function lazyObject<Shape extends z.core.$ZodShape>(shape: () => Shape) {
  return lazySchema(() => z.object(shape()));
}

type Options = readonly [z.core.$ZodTypeDiscriminable, ...z.core.$ZodTypeDiscriminable[]];

/** The lazy schema of objects that their `type` tells apart. */
/* @__NO_SIDE_EFFECTS__ */ export function lazyUnion<const Types extends Options>(options: () => Types) {
  return lazySchema(() => z.discriminatedUnion('type', options()));
}
