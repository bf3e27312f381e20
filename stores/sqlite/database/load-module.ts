import type * as Sqlite from 'node:sqlite';
import { EngineError } from '../../../protocol/error.ts';

/**
 * Loads Node's built-in SQLite. Suppresses only the warning of Node 22 that it is experimental. Throws
 * `store-unavailable` if Node has no SQLite.
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
