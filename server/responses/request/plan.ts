import type { Item, MessageItem } from '../../../protocol/item.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import type { FoundResponse } from '../response-library.ts';
import type { RunResponses } from '../run-responses.ts';

/** What a request says of an open call. */
export type Verdict =
  | { type: 'approval'; callId: string; approve: boolean; reason?: string }
  | { type: 'output'; callId: string; output: JsonValue }
  /** The client goes on although the outcome of the call is unknown: the model reads that as its result. */
  | { type: 'unknown'; callId: string };

/** What a request comes to. */
export type Plan =
  /** A new run, behind the transcript of another that has ended, or with items of the response `refersTo` and its chain. */
  | { type: 'start'; continues?: string; refersTo?: string; items: Item[] }
  /** The run goes on; with `forkAt`, another that begins as it did up to that entry. */
  | { type: 'goOn'; run: RunResponses; forkAt?: number; verdicts: Verdict[]; messages: MessageItem[] }
  /** It was asked before: the answer is the same. */
  | { type: 'repeat'; found: FoundResponse };
