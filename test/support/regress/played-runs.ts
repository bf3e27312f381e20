import type { Agent } from '../../../agent/index.ts';
import { systemHost } from '../../../engine/host/host.ts';
import { appendEvidence } from '../../../engine/journal/evidence.ts';
import { type JsonValue, toJson } from '../../../protocol/json.ts';
import type { Labels } from '../../../protocol/listing/label.ts';
import { type FoundDifference, type PlayedNote, REGRESS } from '../../../regress/played-run.ts';

export const NEW_REFUND: FoundDifference = {
  kind: 'new-call',
  turn: 1,
  tool: 'refund',
  sideEffect: 'once',
  detail: 'refund {"orderId":"A-1","cents":4200} was not recorded',
};

/** A note about a run that was played from `of` and did the same. */
export function makeNote(of: string, changes: Partial<PlayedNote> = {}): PlayedNote {
  return {
    of,
    side: 'candidate',
    sample: 1,
    sameness: changes.differences === undefined ? 'same' : 'otherEffects',
    differences: [],
    turns: { recorded: 2, candidate: 2 },
    tokens: { recorded: 1_200, candidate: 900 },
    cost: { recorded: 0.0123, candidate: 0.009 },
    ...changes,
  };
}

/** A played run as `agentchart regress` leaves it. `written`: what is in its journal instead of the note. */
export async function playRun(
  agent: Agent,
  input: string,
  note: PlayedNote,
  { labels = {}, written }: { labels?: Labels; written?: JsonValue } = {},
): Promise<string> {
  const { of, side, sample } = note;
  const run = await agent.start(input, { labels: { ...labels, [REGRESS]: side, of, sample: `${sample}` } });
  await run.settled();
  const at = systemHost.now();
  await appendEvidence(agent.store, run.id, {
    type: 'run.noted',
    at,
    by: REGRESS,
    note: written === undefined ? toJson(note) : written,
  });
  return run.id;
}
