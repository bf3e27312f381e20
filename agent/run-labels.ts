import { EngineError } from '../protocol/error.ts';
import { hasLabels, type Labels, readLabels } from '../protocol/listing/label.ts';
import { namesOf, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { Store } from '../protocol/store.ts';

/** Options of `agent.open`. `labels`: what the run must be labelled with; it may have other labels too. */
export type OpenOptions = { labels?: Labels };
const NAMES = namesOf<OpenOptions>()('labels');

/** Returns the labels of a run; none for an unknown run or `undefined`. */
export async function labelsOf(store: Store, runId: string | undefined): Promise<Labels> {
  return (runId === undefined ? undefined : await store.get(runId))?.labels ?? {};
}

/**
 * Throws `run-foreign` if a run lacks one of the labels or has it with another value, without revealing what it has, and
 * `input-invalid` for labels that no run can have. An unknown run passes.
 */
export async function assertLabels(store: Store, runId: string, options: OpenOptions): Promise<void> {
  refuseUnknownOptions('agent.open', options, NAMES, 'input-invalid');
  if (options.labels === undefined) return;
  const labels = readLabels(options.labels);
  const record = await store.get(runId);
  if (record === undefined || hasLabels(record.labels, labels)) return;
  throw new EngineError(
    'run-foreign',
    `Run ${runId} does not have the labels ${JSON.stringify(labels)}. Open it with the labels that it was started with, or without any.`,
    { runId, labels: { ...labels } },
  );
}
