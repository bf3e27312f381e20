// `Idempotency-Key`: a request that is sent again gets the first response.

import type { Caller } from '../../access/caller.ts';
import { hashOf } from '../../protocol/content/digest.ts';
import { omitUndefined, toJson } from '../../protocol/json.ts';
import { type GatewayRequest, recordOf } from '../gateway/request/gateway-request.ts';
import type { FoundResponse, ItemSpan, RunResponses } from '../gateway/runs/response-library.ts';
import type { RequestKey } from '../gateway/runs/response-spec.ts';
import { invalid, ResponsesError } from '../openai-error.ts';

/** In characters. */
const LONGEST_KEY = 255;

/** Uses of a key after failures that the client may retry. */
export const MOST_ATTEMPTS = 20;

/** Callers who see the same responses share keys. `of`: what the keys are for. Throws a `ResponsesError` for an unusable key. */
export function readRequestKey(
  key: string,
  { name, labels }: Caller,
  request: GatewayRequest,
  of?: 'compact',
): RequestKey {
  if (key === '' || key.length > LONGEST_KEY) {
    const message = `The header Idempotency-Key is not valid: expected 1 to ${LONGEST_KEY} characters.`;
    throw invalid(null, 'invalid_idempotency_key', message);
  }
  const owner = Object.keys(labels).length > 0 ? { labels } : { name };
  const { verbatim = [], conversation = null } = request;
  const content = { ...recordOf(request), verbatim, conversation, stream: null, session: null };
  return { key: hashOf(toJson({ owner, key, ...omitUndefined({ of }) })), body: hashOf(toJson(content)) };
}

/** Throws a `ResponsesError` with status 409 if the key came with another body before, or its response was deleted. */
export function assertSameRequest(
  key: RequestKey,
  { known, deleted }: { known: RequestKey; deleted: boolean },
): void {
  if (!deleted && known.body === key.body) return;
  throw new ResponsesError(
    deleted
      ? 'The response to the request with this Idempotency-Key was deleted. Use another key.'
      : 'This Idempotency-Key was used with another body. Use another key.',
    { status: 409, code: 'idempotency_key_reused' },
  );
}

export function findKeyed(run: RunResponses | undefined, key: RequestKey): FoundResponse | undefined {
  const span = run?.spans.findLast(({ spec }: ItemSpan) => spec.key?.key === key.key);
  if (run === undefined || span?.spec.key === undefined) return undefined;
  assertSameRequest(key, { known: span.spec.key, deleted: span.deleted });
  return { run, span };
}
