import type * as Sqlite from 'node:sqlite';
import { EngineError } from '../../../protocol/error.ts';

/**
 * Node's own SQLite, loaded when first used. Node 22 warns once that it is experimental; that one
 * warning is held back, all others pass. Throws `store-unavailable` where Node has none.
 */
export function loadSqlite(): typeof Sqlite {
  const emitWarning = process.emitWarning;
  process.emitWarning = (...warning: unknown[]) => {
    const isAboutSqlite = warning[1] === 'ExperimentalWarning' && String(warning[0]).startsWith('SQLite');
    if (!isAboutSqlite) Reflect.apply(emitWarning, process, warning);
  };
  let module: typeof Sqlite | undefined;
  try {
    module = process.getBuiltinModule('node:sqlite');
  } finally {
    process.emitWarning = emitWarning;
  }
  if (module !== undefined) return module;
  throw new EngineError(
    'store-unavailable',
    `The sqlite store needs node:sqlite, and Node ${process.versions.node} does not have it. Use Node 22.13 or later.`,
  );
}
