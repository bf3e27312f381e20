import { isOwnerDead } from '../../../engine/driver/owner.ts';
import { EngineError } from '../../../protocol/error.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import { parseLabels } from '../../../protocol/listing/label.ts';
import type { RunStatus } from '../../../protocol/store.ts';
import { EXIT } from '../../exit-codes.ts';
import { storeFile, withExistingStore } from '../../open-store.ts';
import { Output } from '../../render/output.ts';

export type PruneCommandOptions = {
  db?: string;
  json?: boolean;
  before: string;
  status?: string;
  label?: string[];
  dryRun?: boolean;
};

/** Implements `agentchart prune`: deletes the runs that ended before a time, and says how many. */
export async function prune(options: PruneCommandOptions): Promise<number> {
  const output = new Output({ json: options.json === true });
  const { dryRun = false } = options;
  const chosen = {
    before: readTime(options.before),
    ...omitUndefined({
      status: readEnd(options.status),
      labels: options.label && parseLabels(options.label),
    }),
  };
  return await withExistingStore(storeFile(options.db), async store => {
    const pruned = await store.prune({ ...chosen, dryRun, isDead: isOwnerDead });
    if (output.json) output.data({ count: pruned.length, [dryRun ? 'wouldDelete' : 'deleted']: pruned });
    else
      output.line(
        `${dryRun ? 'Would delete' : 'Deleted'} ${pruned.length} ${pruned.length === 1 ? 'run' : 'runs'}`,
      );
    return EXIT.done;
  });
}

/** A date (2026-11-01, in UTC) or a time with its zone. */
function readTime(text: string): number {
  const isIso = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2}))?$/.test(text);
  const time = isIso ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(time)) return time;
  throw new EngineError(
    'input-invalid',
    `--before must be a date or a time with its zone, such as 2026-11-01 or 2026-11-01T08:00:00Z, got ${JSON.stringify(text)}.`,
  );
}

const ENDS: readonly RunStatus[] = ['finished', 'failed', 'cancelled'];

function readEnd(text: string | undefined): RunStatus | undefined {
  if (text === undefined) return undefined;
  const status = ENDS.find(end => end === text);
  if (status !== undefined) return status;
  throw new EngineError('input-invalid', `--status must be one of ${ENDS.join(', ')}, got "${text}".`);
}
