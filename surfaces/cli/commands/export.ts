import { writeFileSync } from 'node:fs';
import { exportRun } from '../../../engine/export-run.ts';
import { EngineError, messageOf } from '../../../protocol/error.ts';
import { EXIT } from '../exit-codes.ts';
import { findRun } from '../find-run.ts';
import { formatSafeJson } from '../format-safe-json.ts';
import { storeFile, withExistingStore } from '../open-store.ts';
import { Output } from '../output.ts';

export type ExportOptions = { db?: string; json?: boolean; out?: string };

/** Writes a run as one JSON document, with the runs it continues: what `replay` takes. */
export async function exportToFile(id: string, options: ExportOptions): Promise<number> {
  const output = new Output({ json: options.json === true });
  return await withExistingStore(storeFile(options.db), async store => {
    const { runId } = await findRun(store, id);
    const exported = await exportRun(store, runId);
    const { out } = options;
    if (out === undefined) {
      process.stdout.write(`${formatSafeJson(exported, output.json ? 0 : 2)}\n`);
      return EXIT.done;
    }
    write(out, `${formatSafeJson(exported, 2)}\n`);
    const entries = exported.journal.length;
    if (output.json) output.data({ runId, file: out, entries, stateHash: exported.stateHash });
    else output.line(`${runId} is in ${out}: ${entries} entries, state ${exported.stateHash}`);
    return EXIT.done;
  });
}

function write(file: string, text: string): void {
  try {
    writeFileSync(file, text);
  } catch (cause) {
    const message = `--out takes a file that can be written, and ${file} cannot: ${messageOf(cause)}.`;
    throw new EngineError('input-invalid', message, { file }, { cause });
  }
}
