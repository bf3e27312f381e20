import { isOwnerDead } from '../../../engine/driver/owner.ts';
import { EngineError } from '../../../protocol/error.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import { parseLabels } from '../../../protocol/listing/label.ts';
import type { RunStatus } from '../../../protocol/store.ts';
import { EXIT } from '../../exit-codes.ts';
import { storeFile, withExistingStore } from '../../open-store.ts';
import { readTime } from '../../options.ts';
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
    before: readTime('--before', options.before),
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

const ENDS: readonly RunStatus[] = ['finished', 'failed', 'cancelled'];

function readEnd(text: string | undefined): RunStatus | undefined {
  if (text === undefined) return undefined;
  const status = ENDS.find(end => end === text);
  if (status !== undefined) return status;
  throw new EngineError('input-invalid', `--status must be one of ${ENDS.join(', ')}, got "${text}".`);
}
