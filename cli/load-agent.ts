import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Agent, isAgent } from '../agent/agent.ts';
import type { ExploreOptions } from '../explore/explore.ts';
import { EngineError, messageOf, setupError } from '../protocol/error.ts';
import { omitUndefined } from '../protocol/json.ts';
import { formatPath } from './render/format.ts';

export async function loadAgent(file: string): Promise<Agent> {
  const path = resolve(file);
  if (!existsSync(path)) {
    throw invalid(path, 'no such file. Give the module with --agent MODULE.');
  }
  assertCanLoad(path);
  const module = await importModule(path);
  const exported = 'default' in module ? module.default : undefined;
  if (isAgent(exported)) return exported;
  throw invalid(path, `${describeExport(exported, module)}. Expected \`export default createAgent({ … })\`.`);
}

/** What a module exports for explorations of its agent. */
export async function readExports(file: string): Promise<ExploreOptions> {
  const exported: ExploreOptions = await import(pathToFileURL(resolve(file)).href);
  const { machine, invariants, samples, runContext, never } = exported;
  return omitUndefined({ machine, invariants, samples, runContext, never });
}

async function importModule(path: string): Promise<object> {
  const neverLoads = new Promise<never>((_, reject) => {
    process.once('beforeExit', () =>
      reject(invalid(path, 'it never finishes loading: a top-level await never settles.')),
    );
  });
  try {
    return await Promise.race([import(pathToFileURL(path).href) as Promise<object>, neverLoads]);
  } catch (cause) {
    if (cause instanceof EngineError || setupError(cause)) throw cause;
    throw invalid(path, `it fails to load: ${messageOf(cause)}`, cause);
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
    return `it has no default export (named exports: ${names.join(', ') || 'none'})`;
  }
  if (exported instanceof Promise) return 'its default export is a promise: write `export default await …`';
  if (typeof exported === 'function')
    return `its default export is the function ${exported.name || '(unnamed)'}, not an agent`;
  if (typeof exported !== 'object' || exported === null)
    return `its default export is ${typeof exported}: ${String(exported)}, not an agent`;
  return `its default export is an object (${Object.keys(exported).join(', ') || 'no keys'}), not an agent`;
}

function invalid(path: string, problem: string, cause?: unknown): EngineError {
  return new EngineError(
    'agent-module-invalid',
    `Cannot use agent module ${formatPath(path)}: ${problem}`,
    { path },
    { cause },
  );
}
