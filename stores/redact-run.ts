import type { Redacted, RedactOptions, Store } from '../protocol/store.ts';

/** Implements `Store.redact` for any store. Loads the engine on use, because a redaction folds the journal. */
export async function redactIn(store: Store, runId: string, options: RedactOptions): Promise<Redacted> {
  const { redactRun } = await import('../engine/journal/redaction/redact-run.ts');
  return await redactRun(store, runId, options);
}
