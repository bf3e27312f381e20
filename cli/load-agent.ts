import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { EngineError, messageOf, setupError } from '../protocol/error.ts';
import { type Agent, isAgent } from '../tools/agent/agent.ts';

/** The agent a module's default export is. `file` is taken from the working directory. Throws `agent-module-invalid`. */
export async function loadAgent(file: string): Promise<Agent> {
  const path = resolve(file);
  if (!existsSync(path)) {
    throw invalid(path, 'there is no such file. Name the module with --agent MODULE.');
  }
  assertCanLoad(path);
  const module = await importModule(path);
  const exported = 'default' in module ? module.default : undefined;
  if (isAgent(exported)) return exported;
  throw invalid(
    path,
    `its default export is not an agent, but ${describeExport(exported, module)}. Expected \`export default createAgent({ … })\`.`,
  );
}

async function importModule(path: string): Promise<object> {
  const neverLoads = new Promise<never>((_, reject) => {
    process.once('beforeExit', () =>
      reject(invalid(path, 'it never finishes loading: it awaits what never settles.')),
    );
  });
  try {
    return await Promise.race([import(pathToFileURL(path).href) as Promise<object>, neverLoads]);
  } catch (cause) {
    if (cause instanceof EngineError || setupError(cause)) throw cause;
    throw invalid(path, `it does not load: ${messageOf(cause)}`, cause);
  }
}

function assertCanLoad(path: string): void {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  if (!/\.[cm]?ts$/.test(path) || major > 22 || (major === 22 && minor >= 18)) return;
  throw invalid(path, `TypeScript needs Node 22.18 or later; this is Node ${process.versions.node}.`);
}

function describeExport(exported: unknown, module: object): string {
  if (exported === undefined) {
    const names = Object.keys(module);
    return names.length === 0 ? 'missing: it exports nothing' : `missing: it exports ${names.join(', ')}`;
  }
  if (exported instanceof Promise) return 'a promise; await it: `export default await …`';
  if (typeof exported === 'function') return `the function ${exported.name || '(unnamed)'}`;
  if (typeof exported !== 'object' || exported === null) return `${typeof exported}: ${String(exported)}`;
  return `an object with ${Object.keys(exported).join(', ') || 'nothing in it'}`;
}

function invalid(path: string, what: string, cause?: unknown): EngineError {
  return new EngineError(
    'agent-module-invalid',
    `The agent module ${path} cannot be used: ${what}`,
    { path },
    { cause },
  );
}
