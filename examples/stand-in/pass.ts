import type { HistoryEntry } from './history.ts';

/**
 * Returns the current pass of the history. A message that asks for a check starts a new pass, after an answer or a
 * decision about the report. `talksAfterwards` is a later message that does not ask for a check.
 */
export function findPass(history: readonly HistoryEntry[]) {
  let start = 0;
  let over = false;
  let answered = false;
  let talksAfterwards: string | null = null;
  for (const [index, entry] of history.entries()) {
    const next = history[index + 1];
    if (entry.type === 'call' && entry.name === 'write_file') over = true;
    if (entry.type === 'assistant' && (next === undefined || next.type === 'user')) answered = true;
    if (entry.type !== 'user' || !(over || answered)) continue;
    talksAfterwards = null;
    if (asksForCheck(entry.text)) {
      start = index + 1;
      over = false;
      answered = false;
    } else if (answered) talksAfterwards = entry.text;
  }
  const current = history.slice(start);
  const firstCall = current.findIndex(entry => entry.type === 'call');
  const unheard = current.flatMap((entry, index) =>
    firstCall !== -1 && index > firstCall && entry.type === 'user' ? [entry.text] : [],
  );
  return { calls: current.filter(entry => entry.type === 'call'), unheard, talksAfterwards };
}

function asksForCheck(message: string): boolean {
  return /\b(?:re-?)?check\b/i.test(message) && !message.includes('?');
}
