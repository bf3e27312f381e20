import type { LiveResponse } from '../live/live-response.ts';
import type { LiveResponses } from '../live/live-responses.ts';
import { writeResponseEvents } from '../live/response-feed.ts';
import { type FoundResponse, type VisibleResponses, writeResponse } from '../response-library.ts';
import type { RunResponses, Span } from '../run-responses.ts';
import type { RequestKey } from '../wire/response-spec.ts';
import { responseIdOf } from '../wire/wire-ids.ts';
import { assertSameRequest, MOST_ATTEMPTS, runIdOf } from './request-key.ts';

/** The response to an earlier request with the same key, or the id of the run that the request may begin. */
type Answered =
  | { type: 'stored'; found: FoundResponse }
  | { type: 'unstored'; live: LiveResponse }
  | { type: 'new'; runId: string };

/**
 * Looks for the response to an earlier request with this key, which may have continued one of the runs `continued`: where the journal has it, or among the unstored responses
 * of this process. A failure that the client may retry does not count. Throws a `ResponsesError` with status 409 if the
 * key came with another body.
 */
export async function findAnswered(
  key: RequestKey,
  continued: readonly string[],
  { visible, live }: { visible: VisibleResponses; live: LiveResponses },
): Promise<Answered> {
  for (const runId of new Set(continued)) {
    const found = findIn(await visible.load(runId), key);
    if (found !== undefined && !mayRetry(found)) return { type: 'stored', found };
  }
  for (let attempt = 0; ; attempt += 1) {
    const runId = runIdOf(key, attempt);
    const unstored = findUnstored(live, runId, key);
    if (unstored !== undefined) return { type: 'unstored', live: unstored };
    const found = findIn(await visible.load(runId), key);
    if (found === undefined) return { type: 'new', runId };
    if (attempt + 1 >= MOST_ATTEMPTS || !mayRetry(found)) return { type: 'stored', found };
  }
}

function findUnstored(live: LiveResponses, runId: string, key: RequestKey): LiveResponse | undefined {
  const feed = live.find(responseIdOf(runId, 1));
  if (feed === undefined || feed.spec.request.store !== false || feed.spec.key === undefined)
    return undefined;
  assertSameRequest(key, { known: feed.spec.key, deleted: false });
  if (!feed.isWrittenBy(writeResponseEvents)) return undefined;
  const reader = feed.attach();
  if (reader.end?.status !== 'failed') return reader;
  reader.leave();
  return undefined;
}

function findIn(run: RunResponses | undefined, key: RequestKey): FoundResponse | undefined {
  const span = run?.spans.findLast(({ spec }: Span) => spec.key?.key === key.key);
  if (run === undefined || span?.spec.key === undefined) return undefined;
  assertSameRequest(key, { known: span.spec.key, deleted: span.deleted });
  return { run, span };
}

function mayRetry(found: FoundResponse): boolean {
  return writeResponse(found).retryAfter !== null;
}
