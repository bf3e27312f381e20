import type { JsonObject } from '../../../protocol/json.ts';
import type { FinishReason } from '../../../protocol/turn.ts';

/** A call as a model makes it. `arguments` is the JSON text of an object. */
export type WrittenCall = { id?: string; name: string; arguments: string };

/** What a model said in one turn, in no provider's words. */
export type WrittenTurn = {
  model: string;
  reasoning: string;
  text: string;
  calls: readonly WrittenCall[];
  /** Why it ended; `stop` is `tool_calls` where there are calls. */
  finish: 'stop' | 'length' | 'content_filter';
  /** `input` and `output` are totals, the others parts of them. */
  usage: { input: number; output: number; cached: number; reasoning: number } | null;
  /** The words of a web search that the provider ran before its text. */
  searched?: string;
};

/** A turn on the wire: the whole body, and the blocks of the stream (SSE events or NDJSON lines) joined into its bytes. */
export type Encoder = {
  contentType: 'text/event-stream' | 'application/x-ndjson';
  whole(turn: WrittenTurn): JsonObject;
  stream(turn: WrittenTurn, random: Random): string[];
};

/** Numbers from 0 to below 1. */
export type Random = () => number;

/** The same numbers for the same seed (mulberry32). */
export function seeded(seed: number): Random {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** The text in up to five pieces that are not empty; none for no text. */
export function cut(text: string, random: Random): string[] {
  const ends = Array.from({ length: Math.floor(random() * 5) }, () => Math.floor(random() * text.length));
  const places = [0, ...ends.sort((a, b) => a - b), text.length];
  return places.slice(1).flatMap((end, at) => text.slice(places[at], end) || []);
}

/** All lanes in one, each in its order; no lane begins before the one ahead of it has begun. */
export function interleave<Entry>(lanes: readonly (readonly Entry[])[], random: Random): Entry[] {
  const rest = lanes.map(lane => [...lane]).filter(lane => lane.length > 0);
  const merged: Entry[] = [];
  let begun = 0;
  while (rest.some(lane => lane.length > 0)) {
    const ready = rest.slice(0, begun + 1).filter(lane => lane.length > 0);
    const lane = ready[Math.floor(random() * ready.length)];
    if (lane === undefined) continue;
    if (lane === rest[begun]) begun += 1;
    merged.push(...lane.splice(0, 1));
  }
  return merged;
}

/** An SSE event of JSON data. */
export function event(data: JsonObject, name = ''): string {
  return `${name === '' ? '' : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`;
}

export function finishReasonOf(turn: WrittenTurn): FinishReason {
  return turn.finish === 'stop' && turn.calls.length > 0 ? 'tool_calls' : turn.finish;
}
