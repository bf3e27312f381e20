/**
 * Ids on the wire follow from where a thing stands in its run, so that no index of them is kept:
 * - a response is `resp_RUN` when it began the run, else `resp_RUN_SEQ` with the entry that asks for it;
 * - an output item is `KIND_RUN_TURN_PLACE`: the place among those of its kind in its turn, from 0.
 */
export type ItemKind = 'msg' | 'rs' | 'fc' | 'mcp' | 'mcpr' | 'mcpl';

/** Where an output item comes from. `turn` counts the run's completed turns from 1; lists come before them, at 0. */
export type ItemPlace = { kind: ItemKind; runId: string; turn: number; place: number };

export function responseIdOf(runId: string, seq: number): string {
  return seq === 1 ? `resp_${keyOf(runId)}` : `resp_${keyOf(runId)}_${seq}`;
}

/** `undefined` for what is no id of a response of ours. Another id may lead to the same place: compare them. */
export function readResponseId(id: string): { runId: string; seq: number } | undefined {
  const [, key, seq = '1'] = /^resp_([A-Za-z0-9]+)(?:_(\d{1,9}))?$/.exec(id) ?? [];
  return key === undefined ? undefined : { runId: `run_${key}`, seq: Number(seq) };
}

export function itemIdOf({ kind, runId, turn, place }: ItemPlace): string {
  return `${kind}_${keyOf(runId)}_${turn}_${place}`;
}

/** `undefined` for what is no id of an output item of ours, written as `itemIdOf` writes it. */
export function readItemId(id: string): ItemPlace | undefined {
  const [, kind, key, turn, place] =
    /^(msg|rs|fc|mcpr|mcpl|mcp)_([A-Za-z0-9]+)_(\d{1,9})_(\d{1,9})$/.exec(id) ?? [];
  if (key === undefined) return undefined;
  const read = { kind: kind as ItemKind, runId: `run_${key}`, turn: Number(turn), place: Number(place) };
  return itemIdOf(read) === id ? read : undefined;
}

function keyOf(runId: string): string {
  return runId.replace(/^run_/, '');
}
