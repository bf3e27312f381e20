import { EngineError } from '../../../protocol/error.ts';
import type { Owner, Store } from '../../../protocol/store.ts';
import { type Host, systemHost } from '../../driver/host.ts';
import { isOwnerDead } from '../../driver/owner.ts';
import { makeImage } from '../load-run.ts';
import { readFromStart } from '../read-journal.ts';
import { planRedaction } from './plan-redaction.ts';

export type RedactOptions = {
  /** JSON Pointers that begin with the seq of an entry: `/1/input/0/content/0/text`. */
  paths: readonly string[];
  /** Who says so, for the journal. */
  by?: string;
  /** Time. Default: the system's. */
  host?: Host;
  /** Whether an owner with an unexpired lease is known to be gone. */
  isDead?(owner: Owner): boolean;
};

/** `elsewhere`: where the journal still has a text of what was redacted, as JSON Pointers. Other runs are not looked at. */
export type Redacted = { runId: string; values: number; elsewhere: string[] };

/**
 * Replaces values of a run's journal by their digests, in the store and all it keeps of them. A result's `output`
 * goes with what the model read of it (`shown`) and with the whole of it, if that is kept beside the journal. What was
 * redacted before stays so, and counts as nothing.
 *
 * Throws, with nothing changed, `input-invalid` for a path that leads nowhere; `refused` for what a run is made of,
 * for what a call without a result or a turn to come needs, for a run that is driven, and one that came from
 * another store; `chart-mismatch` for a journal of another chart, `run-unknown`, `journal-damaged`.
 */
export async function redactRun(
  store: Store,
  runId: string,
  { paths, by, host = systemHost, isDead = isOwnerDead }: RedactOptions,
): Promise<Redacted> {
  if (paths.length === 0) throw new EngineError('input-invalid', 'Name the paths that are to be redacted.');
  for (;;) {
    const journal = await readFromStart(store, runId, 'Redact');
    const { entries, blobs, state, redacted, elsewhere } = planRedaction(journal, paths);
    const now = host.now();
    const said = {
      type: 'run.redacted',
      at: now,
      paths: redacted,
      ...(by === undefined ? {} : { by }),
    } as const;
    const result = await store.redact(runId, {
      ...{ after: journal.length, entries, blobs, state: makeImage(state), now, isDead },
      ...(redacted.length > 0 && { event: said }),
    });
    if (result.type === 'appended') return { runId, values: redacted.length, elsewhere };
  }
}
