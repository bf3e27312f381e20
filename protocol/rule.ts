import type { JsonValue } from './json.ts';

/** A call that was begun in the thread and has ended. `unknown`: its run ended before its outcome was known. */
export type PastCall = {
  callId: string;
  /** The tool's name; for what a provider ran, the kind of its item, such as `web_search_call`. */
  name: string;
  input: JsonValue;
  tags?: string[];
  outcome: 'done' | 'failed' | 'unknown';
};

/**
 * A call before the one that is judged, as functions see it. `open`: it has begun and not ended, or comes earlier in the
 * same turn. `later`: it comes later in the same turn, so it may still happen before the judged call, or at the same time.
 */
export type HistoryCall = Omit<PastCall, 'outcome' | 'tags'> & {
  tags: readonly string[];
  outcome: PastCall['outcome'] | 'open' | 'later';
};

/** What becomes of a call that a rule does not allow. */
export type RuleVerdict = 'block' | 'ask' | 'stop';
