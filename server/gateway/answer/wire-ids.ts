/**
 * Ids in the Responses API are derived from places in runs, so that no index is needed:
 * - a response is `resp_RUN` if it started the run, otherwise `resp_RUN_SEQ` with the `seq` of its request;
 * - an output item is `KIND_RUN_TURN_PLACE`, where PLACE counts the items of its kind in its turn from 0;
 * - an item of a turn's Nth retry is `KIND_RUN_TURN_PLACE_rN`, because items of failed attempts keep their ids.
 */
export type ItemKind =
  | 'msg'
  | 'rs'
  | 'cmp'
  | 'fc'
  | 'ctc'
  | 'mcp'
  | 'mcpr'
  | 'mcpl'
  | 'ws'
  | 'fs'
  | 'ci'
  | 'pi';

/** `turn` counts the run's completed turns from 1; tool lists have turn 0. `retry`: the failed attempts before it. */
export type ItemPlace = { kind: ItemKind; runId: string; turn: number; place: number; retry?: number };

export const ITEM_KINDS = {
  mcp: 'mcp',
  web_search: 'ws',
  file_search: 'fs',
  code_interpreter: 'ci',
} as const satisfies Record<string, ItemKind>;

export function responseIdOf(runId: string, seq: number): string {
  return seq === 1 ? `resp_${keyOf(runId)}` : `resp_${keyOf(runId)}_${seq}`;
}

/** `undefined` for a foreign id. Different ids may parse to the same place, so compare ids. */
export function readResponseId(id: string): { runId: string; seq: number } | undefined {
  const [, key, seq = '1'] = /^resp_([A-Za-z0-9]+)(?:_(\d{1,9}))?$/.exec(id) ?? [];
  return key === undefined ? undefined : { runId: `run_${key}`, seq: Number(seq) };
}

export function itemIdOf({ kind, runId, turn, place, retry = 0 }: ItemPlace): string {
  return `${kind}_${keyOf(runId)}_${turn}_${place}${retry === 0 ? '' : `_r${retry}`}`;
}

/** `undefined` for any id that `itemIdOf` does not produce. */
export function readItemId(id: string): ItemPlace | undefined {
  const [, kind, key, turn, place, retry = '0'] =
    /^(msg|rs|cmp|fc|ctc|mcpr|mcpl|mcp|ws|fs|ci|pi)_([A-Za-z0-9]+)_(\d{1,9})_(\d{1,9})(?:_r(\d{1,9}))?$/.exec(
      id,
    ) ?? [];
  if (key === undefined) return undefined;
  const at = { runId: `run_${key}`, turn: Number(turn), place: Number(place), retry: Number(retry) };
  const read = { kind: kind as ItemKind, ...at };
  return itemIdOf(read) === id ? read : undefined;
}

function keyOf(runId: string): string {
  return runId.replace(/^run_/, '');
}
