/**
 * Returns a schema that is built at its first use. To build all schemas of the protocol would take a third of the time
 * that an import of `agentchart` takes, and most programs use few of them.
 */
export function lazySchema<Schema extends object>(build: () => Schema): Schema {
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
