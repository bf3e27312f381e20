import { makeImage, readImage, restoreImage, statusOf } from '../../engine/journal/load-run.ts';
import { EngineError } from '../../protocol/error.ts';
import type { Item } from '../../protocol/item.ts';
import { isJsonObject, type JsonValue } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';

type Surroundings = {
  store: Store;
  /** Throws for the agent of a run that is not taken. */
  assertOwn(agent: string, runId: string): void;
  loadInherited(continues: string | null): Promise<readonly Item[]>;
};

/**
 * Brings the run of a snapshot into the store, unless it is there as it was then. Gives its id. Throws
 * `input-invalid`, `snapshot-outdated`, `run-exists`, and what `assertOwn` throws.
 */
export async function restoreRun(snapshot: JsonValue, surroundings: Surroundings): Promise<string> {
  const { runId, seq, image } = readSnapshot(snapshot);
  const { store, assertOwn, loadInherited } = surroundings;
  const known = await store.get(runId);
  if (known?.seq === seq) return runId;
  if (known !== undefined) throw describeMismatch(runId, known.seq, seq);
  const read = readImage(image, runId);
  const restored = restoreImage(read, runId);
  const { agent, continues, startedAt } = read.state.context;
  assertOwn(agent.name, runId);
  const older = read.inherited ?? (await loadInherited(continues));
  const state = makeImage(restored, older);
  const status = statusOf(restored);
  await store.adopt({ runId, agent: agent.name, status, createdAt: startedAt, seq, state });
  return runId;
}

/** What `run.snapshot()` gave. */
function readSnapshot(snapshot: JsonValue): { runId: string; seq: number; image: JsonValue } {
  if (isJsonObject(snapshot)) {
    const { runId, seq, image } = snapshot;
    if (typeof runId === 'string' && typeof seq === 'number' && image !== undefined)
      return { runId, seq, image };
  }
  throw new EngineError(
    'input-invalid',
    'This is not a snapshot of a run: expected the JSON of run.snapshot().',
  );
}

/** Why a snapshot cannot be restored into a store that has its run. */
function describeMismatch(runId: string, stored: number, snapshot: number): EngineError {
  const where = `The store has run ${runId} up to event ${stored}, the snapshot up to ${snapshot}.`;
  return stored > snapshot
    ? new EngineError('snapshot-outdated', `${where} Use agent.open('${runId}').`, { stored, snapshot })
    : new EngineError('run-exists', `${where} Restore it into a store that does not have this run.`, {
        stored,
        snapshot,
      });
}
