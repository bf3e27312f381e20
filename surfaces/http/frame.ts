import type { RunHappening } from '../../engine/run.ts';
import type { JournalEntry } from '../../protocol/event.ts';
import type { RunStatus } from '../../protocol/store.ts';

/** One server-sent event as it goes over the wire. Only what is journaled has an id to continue behind. */
export type Frame = { type: 'journal'; seq: number; text: string } | { type: 'delta'; text: string };

/** The text of the running turn so far. */
export type TextSoFar = { turn: number; attempt: number; text: string };

/** How soon a browser comes back, in ms; also the first thing that is sent. */
export const OPENING = 'retry: 1000\n\n';
export const KEEP_ALIVE = ': here\n\n';

export function frameEntry({ seq, event }: JournalEntry, runId: string): Frame {
  return journalFrame(seq, { ...event, runId, seq });
}

export function frameHappening(happening: RunHappening): Frame {
  return 'seq' in happening
    ? journalFrame(happening.seq, happening)
    : { type: 'delta', text: `event: delta\ndata: ${JSON.stringify(happening)}\n\n` };
}

export function textFrame(soFar: TextSoFar): string {
  return `event: text\ndata: ${JSON.stringify(soFar)}\n\n`;
}

export function endFrame(status: RunStatus): string {
  return `event: end\ndata: ${JSON.stringify({ status })}\n\n`;
}

function journalFrame(seq: number, event: object): Frame {
  return { type: 'journal', seq, text: `id: ${seq}\nevent: journal\ndata: ${JSON.stringify(event)}\n\n` };
}
