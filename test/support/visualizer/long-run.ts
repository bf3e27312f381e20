import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { type Agent, createAgent, type Store, tool } from '../../../agent/index.ts';

const CALLS = 8;
/** Each call is started and settled; the turn starts its text and completes. */
const ENTRIES_A_ROUND = CALLS * 2 + 2;

/** A tool without side effects. */
export const measure = tool({
  name: 'measure',
  description: 'Measures one point.',
  input: z.object({ point: z.number() }),
  sideEffect: 'none',
  run: ({ point }) => ({ point, metres: point / 2 }),
});

/** An agent whose runs take at least `entries` journal entries: rounds of parallel calls, then an answer. */
export function makeSurvey(store: Store, entries: number): Agent {
  const rounds = Math.ceil(entries / ENTRIES_A_ROUND);
  const turns = Array.from({ length: rounds }, (_, round) => ({
    text: `Measuring row ${round + 1} of ${rounds}.`,
    toolCalls: Array.from({ length: CALLS }, (_, place) => ({
      name: 'measure',
      arguments: { point: round * CALLS + place },
    })),
    usage: { inputTokens: 100, outputTokens: 20 },
  }));
  return createAgent({
    name: 'survey',
    store,
    tools: [measure],
    model: scripted({ turns: [...turns, { text: 'All points are measured.' }] }),
    limits: { turns: rounds + 1, toolCalls: rounds * CALLS },
  });
}
