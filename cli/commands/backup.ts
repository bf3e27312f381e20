import { existsSync } from 'node:fs';
import { EngineError } from '../../protocol/error.ts';
import { backUpDatabase } from '../../stores/sqlite/database/back-up-database.ts';
import { EXIT } from '../exit-codes.ts';
import { missingStore, storeFile } from '../open-store.ts';
import { formatPath, isDatabase } from '../render/format-path.ts';
import { Output } from '../render/output.ts';

export type BackupOptions = { db?: string; json?: boolean };

/** Implements `agentchart backup`: copies the store to a new file while other processes use it. */
export async function backUp(target: string, options: BackupOptions): Promise<number> {
  const output = new Output({ json: options.json === true });
  const file = storeFile(options.db);
  if (isDatabase(file))
    throw new EngineError(
      'input-invalid',
      'agentchart backup copies a SQLite file. Back up PostgreSQL with its own tools, such as pg_dump --schema=agentchart.',
    );
  if (!existsSync(file)) throw missingStore(file);
  const backup = await backUpDatabase(file, target);
  const { runs, bytes } = backup;
  if (output.json) output.data(backup);
  else
    output.line(
      `Backed up ${runs} ${runs === 1 ? 'run' : 'runs'} to ${formatPath(target)} (${(bytes / 1e6).toFixed(1)} MB)`,
    );
  return EXIT.done;
}
