import { EngineError } from '../../protocol/error.ts';
import { isJsonObject, type JsonValue } from '../../protocol/json.ts';

/** What `run.snapshot()` gave. Throws `input-invalid` for anything else. */
export function readSnapshot(snapshot: JsonValue): { runId: string; seq: number; image: JsonValue } {
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
export function describeMismatch(runId: string, stored: number, snapshot: number): EngineError {
  const where = `The store has run ${runId} up to event ${stored}, the snapshot up to ${snapshot}.`;
  return stored > snapshot
    ? new EngineError('snapshot-outdated', `${where} Use agent.open('${runId}').`, { stored, snapshot })
    : new EngineError('run-exists', `${where} Restore it into a store that does not have this run.`, {
        stored,
        snapshot,
      });
}
