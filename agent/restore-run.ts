import type { Continued } from '../engine/journal/load-history.ts';
import { makeImage, readImage, restoreImage, standingOf, writerOf } from '../engine/journal/load-run.ts';
import { EngineError, invalidInput } from '../protocol/error.ts';
import type { Item } from '../protocol/item.ts';
import { isJsonObject, type JsonValue, omitUndefined } from '../protocol/json.ts';
import { titleOf } from '../protocol/listing/label.ts';
import type { Store } from '../protocol/store.ts';

type RestoreOptions = {
  store: Store;
  assertOwn(agent: string, runId: string): void;
  loadInherited(continued: Continued): Promise<readonly Item[]>;
};

/** Restores a snapshot's run, unless the store has it in that state. Returns the run id. */
export async function restoreRun(snapshot: JsonValue, options: RestoreOptions): Promise<string> {
  const { runId, seq, image } = readSnapshot(snapshot);
  const { store, assertOwn, loadInherited } = options;
  const known = await store.get(runId);
  if (known?.seq === seq) return runId;
  if (known !== undefined) throw describeMismatch(runId, known.seq, seq);
  const read = readImage(image, runId);
  const restored = restoreImage(read, runId);
  const { agent, startedAt, labels = {}, thread, parent, transcript } = restored.context;
  assertOwn(agent.name, runId);
  const older = read.inherited ?? (await loadInherited(restored.context));
  const state = makeImage(restored, older);
  await store.adopt({
    runId,
    agent: agent.name,
    title: titleOf({ input: transcript }),
    labels,
    ...standingOf(restored),
    createdAt: startedAt,
    seq,
    state,
    chart: writerOf(read).chart,
    ...(parent !== null && { parent }),
    ...omitUndefined({ thread, agentVersion: agent.version }),
  });
  return runId;
}

function readSnapshot(snapshot: JsonValue): { runId: string; seq: number; image: JsonValue } {
  if (isJsonObject(snapshot)) {
    const { runId, seq, image } = snapshot;
    if (typeof runId === 'string' && typeof seq === 'number' && image !== undefined)
      return { runId, seq, image };
  }
  throw invalidInput('Not a snapshot: expected the JSON of run.snapshot().');
}

function describeMismatch(runId: string, stored: number, snapshot: number): EngineError {
  const where = `The store has run ${runId} up to event ${stored}; the snapshot has it up to event ${snapshot}.`;
  return stored > snapshot
    ? new EngineError('snapshot-outdated', `${where} Use agent.open('${runId}').`, { stored, snapshot })
    : new EngineError(
        'run-exists',
        `${where} Restore the snapshot into a store that does not have this run.`,
        {
          stored,
          snapshot,
        },
      );
}
