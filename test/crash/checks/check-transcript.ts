import type { Item } from '../../../protocol/item.ts';

/** The faults of a transcript: every call needs one result, in call order, before any other item. */
export function checkTranscript(transcript: readonly Item[]): string[] {
  const faults: string[] = [];
  let open: string[] = [];
  let answering = false;
  for (const [place, item] of transcript.entries()) {
    switch (item.type) {
      case 'tool_call':
        if (answering && open.length > 0)
          faults.push(`item ${place} is a call before all calls have results`);
        if (answering) open = [];
        answering = false;
        open.push(item.callId);
        break;
      case 'tool_result': {
        answering = true;
        const expected = open.shift();
        if (expected !== item.callId)
          faults.push(`item ${place} is the result of ${item.callId}, and ${expected ?? 'none'} was due`);
        break;
      }
      default: {
        const ofTheTurn = item.type !== 'message' || item.role === 'assistant';
        if (open.length > 0 && (answering || !ofTheTurn))
          faults.push(`item ${place} (${item.type}) comes before the results of ${open.join(', ')}`);
        answering = false;
      }
    }
  }
  if (open.length > 0) faults.push(`${open.join(', ')} have no results`);
  return faults;
}
