import { EngineError } from '../../../protocol/error.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import type { Owner, Store } from '../../../protocol/store.ts';
import { type Host, systemHost } from '../../driver/host.ts';
import { isOwnerDead } from '../../driver/owner.ts';
import { makeImage } from '../load-run.ts';
import { progressOf } from '../progress.ts';
import { readFromStart } from '../read-journal.ts';
import { planRedaction } from './plan-redaction.ts';

/** Options of `redactRun`. */
export type RedactOptions = {
  /** JSON Pointers that begin with the seq of an entry: `/1/input/0/content/0/text`. */
  paths: readonly string[];
  /** Who redacts, for the journal. */
  by?: string;
  /** The source of the time. Default: the system's clock. */
  host?: Host;
  /** Whether an owner with an unexpired lease is known to be dead. Default: looks the process up on this machine. */
  isDead?(owner: Owner): boolean;
};

/**
 * The result of `redactRun`. `values`: how many values were redacted. `elsewhere`: JSON Pointers to where the journal
 * still has one of the redacted texts; other runs are not searched.
 */
export type Redacted = { runId: string; values: number; elsewhere: string[] };

/**
 * Replaces values in a run's journal, and everything the store derived from them, by their digests. Redacting a
 * result's `output` also redacts the part that the model read (`shown`) and deletes its blob. Values that are
 * already redacted are skipped.
 *
 * Throws, with nothing changed: `input-invalid` for a path that leads nowhere; `refused` for a value that is not
 * content, for one that a call without a result or a future turn needs, for a run that is being driven, and for a
 * run that came from another store; `chart-mismatch` for a journal of another chart; `run-unknown`;
 * `journal-damaged`.
 *
 * @example
 * const { values, elsewhere } = await redactRun(store, runId, {
 *   paths: ['/1/input/0/content/0/text'],
 *   by: 'ann',
 * });
 */
export async function redactRun(
  store: Store,
  runId: string,
  { paths, by, host = systemHost, isDead = isOwnerDead }: RedactOptions,
): Promise<Redacted> {
  if (paths.length === 0)
    throw new EngineError(
      'input-invalid',
      'Expected at least one path to redact, such as /1/input/0/content/0/text.',
    );
  for (;;) {
    const journal = await readFromStart(store, runId, 'Redact');
    const { entries, blobs, state, redacted, elsewhere } = planRedaction(journal, paths);
    const now = host.now();
    const event = { type: 'run.redacted', at: now, paths: redacted, ...omitUndefined({ by }) } as const;
    const result = await store.redact(runId, {
      after: journal.length,
      entries,
      blobs,
      state: makeImage(state),
      progress: progressOf(state),
      now,
      isDead,
      ...omitUndefined({ event: redacted.length > 0 ? event : undefined }),
    });
    if (result.type === 'appended') return { runId, values: redacted.length, elsewhere };
  }
}
