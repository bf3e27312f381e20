import type { Item, MessageItem } from '../../../protocol/item.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import type { FoundResponse } from '../response-library.ts';
import type { RunResponses } from '../run-responses.ts';

/** A request's decision about an open call, the result of one, or the end of a doubt. */
export type Verdict =
  | { type: 'approval'; callId: string; approve: boolean; reason?: string }
  | { type: 'output'; callId: string; output: JsonValue }
  /** The client continues although the call is in doubt: the model reads that the outcome is unknown. */
  | { type: 'unknown'; callId: string };

/** What to do for a request. */
export type Plan =
  /** Start a new run. It may continue an ended run, or use items of the response `refersTo` and its chain. */
  | { type: 'start'; continues?: string; refersTo?: string; items: Item[] }
  /** Continue the run; with `forkAt`, continue a fork of it at that entry. */
  | { type: 'continue'; run: RunResponses; forkAt?: number; verdicts: Verdict[]; messages: MessageItem[] }
  /** The request was made before: return the same response. */
  | { type: 'repeat'; found: FoundResponse };
