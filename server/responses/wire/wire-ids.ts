/**
 * Ids on the wire follow from where a thing stands in its run, so that no index of them is kept:
 * - a response is `resp_RUN` when it began the run, else `resp_RUN_SEQ` with the entry that asks for it;
 * - an output item is `KIND_RUN_TURN_PLACE`: the place among those of its kind in its turn, from 0;
 * - what a retried turn says is `KIND_RUN_TURN_PLACE_rN` at its Nth retry, because text that went out before
 *   cannot be taken back and keeps its id.
 */
export type ItemKind = 'msg' | 'rs' | 'fc' | 'mcp' | 'mcpr' | 'mcpl';

/** Where an output item comes from. `turn` counts the run's completed turns from 1; lists come before them, at 0. */
export type ItemPlace = { kind: ItemKind; runId: string; turn: number; place: number; retry?: number };

export function responseIdOf(runId: string, seq: number): string {
  return seq === 1 ? `resp_${keyOf(runId)}` : `resp_${keyOf(runId)}_${seq}`;
}

/** `undefined` for what is no id of a response of ours. Another id may lead to the same place: compare them. */
export function readResponseId(id: string): { runId: string; seq: number } | undefined {
  const [, key, seq = '1'] = /^resp_([A-Za-z0-9]+)(?:_(\d{1,9}))?$/.exec(id) ?? [];
  return key === undefined ? undefined : { runId: `run_${key}`, seq: Number(seq) };
}

export function itemIdOf({ kind, runId, turn, place, retry = 0 }: ItemPlace): string {
  return `${kind}_${keyOf(runId)}_${turn}_${place}${retry === 0 ? '' : `_r${retry}`}`;
}

/** `undefined` for what is no id of an output item of ours, written as `itemIdOf` writes it. */
export function readItemId(id: string): ItemPlace | undefined {
  const [, kind, key, turn, place, retry = '0'] =
    /^(msg|rs|fc|mcpr|mcpl|mcp)_([A-Za-z0-9]+)_(\d{1,9})_(\d{1,9})(?:_r(\d{1,9}))?$/.exec(id) ?? [];
  if (key === undefined) return undefined;
  const read = {
    ...{ kind: kind as ItemKind, runId: `run_${key}` },
    ...{ turn: Number(turn), place: Number(place), retry: Number(retry) },
  };
  return itemIdOf(read) === id ? read : undefined;
}

function keyOf(runId: string): string {
  return runId.replace(/^run_/, '');
}
