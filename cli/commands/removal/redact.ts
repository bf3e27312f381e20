import { EXIT } from '../../exit-codes.ts';
import { findRun } from '../../find-run.ts';
import { storeFile, withExistingStore } from '../../open-store.ts';
import { userName } from '../../options.ts';
import { Output } from '../../render/output.ts';

export type RedactCommandOptions = { db?: string; json?: boolean; path: string[]; by?: string };

/** Implements `agentchart redact`. Also lists where else the redacted texts occur. */
export async function redact(id: string, options: RedactCommandOptions): Promise<number> {
  const output = new Output({ json: options.json === true });
  return await withExistingStore(storeFile(options.db), async store => {
    const { runId } = await findRun(store, id);
    const by = options.by ?? userName();
    const redacted = await store.redact(runId, { paths: options.path, by });
    if (output.json) {
      output.data(redacted);
      return EXIT.done;
    }
    const { values, elsewhere } = redacted;
    output.line(`Redacted ${values} ${values === 1 ? 'value' : 'values'} in ${runId}`);
    if (elsewhere.length > 0) output.line('The same text also occurs in:');
    for (const pointer of elsewhere) output.line(`  ${pointer}`);
    return EXIT.done;
  });
}
