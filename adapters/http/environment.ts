/** Returns an environment variable without surrounding space; `undefined` where there is no environment. */
export function readVariable(name: string): string | undefined {
  return globalThis.process?.env?.[name]?.trim();
}
