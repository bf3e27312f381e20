import { EngineError } from '../../../protocol/error.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import { type NamesOf, refuseUnknownOptions } from '../../../protocol/options/refuse-unknown.ts';
import type { Redacted, RedactOptions, Store } from '../../../protocol/store.ts';
import { type Host, systemHost } from '../../host/host.ts';
import { isOwnerDead } from '../../host/owner.ts';
import { makeImage, progressOf } from '../load-run.ts';
import { readFromStart } from '../read-journal.ts';
import { planRedaction } from './plan-redaction.ts';

/** Options of `redactRun`. `host` is the source of the time if `now` is not given. Default: the system's clock. */
export type RedactRunOptions = RedactOptions & { host?: Host };

const NAMES: NamesOf<RedactRunOptions> = { paths: true, by: true, now: true, isDead: true, host: true };

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
 * const { values, elsewhere } = await store.redact(runId, {
 *   paths: ['/1/input/0/content/0/text'],
 *   by: 'ann',
 * });
 */
export async function redactRun(store: Store, runId: string, options: RedactRunOptions): Promise<Redacted> {
  refuseUnknownOptions('redact', options, NAMES, 'input-invalid');
  const { paths, by, host = systemHost, now = host.now(), isDead = isOwnerDead } = options;
  if (!Array.isArray(paths) || paths.length === 0 || paths.some(path => typeof path !== 'string'))
    throw new EngineError(
      'input-invalid',
      'Expected at least one path to redact, such as /1/input/0/content/0/text.',
    );
  for (;;) {
    const redactions = (await store.get(runId))?.redactions ?? 0;
    const journal = await readFromStart(store, runId, 'Redact');
    const { entries, blobs, state, redacted, elsewhere } = planRedaction(journal, paths);
    const event = { type: 'run.redacted', at: now, paths: redacted, ...omitUndefined({ by }) } as const;
    const result = await store.rewrite(runId, {
      after: journal.length,
      redactions,
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
