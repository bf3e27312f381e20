import type { JsonObject } from '../../../protocol/json.ts';
import type { FinishReason } from '../../../protocol/turn.ts';

/** A call as a model makes it. `arguments` is the JSON text of an object. */
export type WrittenCall = { id?: string; name: string; arguments: string };

/** One turn of a model, independent of the provider. */
export type WrittenTurn = {
  model: string;
  reasoning: string;
  /** What the client returns with the reasoning, or with the first call. With it there may be reasoning without text. */
  signature?: string;
  text: string;
  /** The words of a refusal that is apart from the text; for Chat Completions and the Responses API. */
  refusal?: string;
  /** The output items of the Responses API, instead of those of the other members. */
  output?: readonly JsonObject[];
  calls: readonly WrittenCall[];
  /** The finish reason; `stop` becomes `tool_calls` if there are calls. */
  finish: 'stop' | 'length' | 'content_filter';
  /** In tokens. `cached` and `written`, what was read from the cache and written to it, are part of `input`; `reasoning` of `output`. */
  usage: { input: number; output: number; cached: number; written?: number; reasoning: number } | null;
  /** The query of a web search that the provider ran before its text. */
  searched?: string;
};

/** Encodes a turn as a response body (`whole`), or as the blocks of a stream: SSE events or NDJSON lines. */
export type Encoder = {
  contentType: 'text/event-stream' | 'application/x-ndjson';
  whole(turn: WrittenTurn): JsonObject;
  stream(turn: WrittenTurn, random: Random): string[];
};

/** The signature of turns that have none of their own. */
export const SIGNATURE = 'c2ln';

/** Returns a number from 0 up to but not including 1. */
export type Random = () => number;

/** Returns a deterministic generator for the seed (mulberry32). */
export function seeded(seed: number): Random {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** Cuts a text into up to five non-empty pieces. */
export function cut(text: string, random: Random): string[] {
  const ends = Array.from({ length: Math.floor(random() * 5) }, () => Math.floor(random() * text.length));
  const places = [0, ...ends.sort((a, b) => a - b), text.length];
  return places.slice(1).flatMap((end, at) => text.slice(places[at], end) || []);
}

/** Interleaves the lanes at random. Keeps the order within each lane, and the order in which lanes start. */
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

/** Formats a server-sent event with JSON data. */
export function event(data: JsonObject, name = ''): string {
  return `${name === '' ? '' : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`;
}

/** Returns the finish reason that an adapter must report for the turn. */
export function finishReasonOf(turn: WrittenTurn): FinishReason {
  return turn.finish === 'stop' && turn.calls.length > 0 ? 'tool_calls' : turn.finish;
}
