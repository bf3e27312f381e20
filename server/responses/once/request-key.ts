// server/responses/once: `Idempotency-Key`: a request that is sent again gets the first response.

import type { Caller } from '../../../access/caller.ts';
import { digestOf, hashOf } from '../../../protocol/content/digest.ts';
import { toJson } from '../../../protocol/json.ts';
import { invalid, ResponsesError } from '../api-error.ts';
import { type GatewayRequest, recordOf } from '../request/gateway-request.ts';
import type { RequestKey } from '../wire/response-spec.ts';
import { readItemId, readResponseId } from '../wire/wire-ids.ts';

/** The longest `Idempotency-Key`, in characters. */
const LONGEST_KEY = 255;

/** How often a key can be used again after failures that the client may retry. */
export const MOST_ATTEMPTS = 20;

/**
 * The digests of an `Idempotency-Key` and of the request that it came with. Callers who see the same responses share keys.
 * How a response is delivered (`stream`) and credentials do not count. Throws a `ResponsesError` for an unusable key.
 */
export function readRequestKey(key: string, { name, labels }: Caller, request: GatewayRequest): RequestKey {
  if (key === '' || key.length > LONGEST_KEY)
    throw invalid(
      null,
      'invalid_idempotency_key',
      `The header Idempotency-Key is not valid: expected 1 to ${LONGEST_KEY} characters.`,
    );
  const owner = Object.keys(labels).length > 0 ? { labels } : { name };
  const { verbatim = [], conversation = null } = request;
  const content = { ...recordOf(request), verbatim, conversation, stream: null };
  return { key: hashOf(toJson({ owner, key })), body: hashOf(toJson(content)) };
}

/**
 * The id of the run that a request with this key starts or forks. Because it follows from the key, a store cannot have
 * two such runs.
 */
export function runIdOf({ key }: RequestKey, attempt: number): string {
  return `run_${digestOf({ key, attempt })}`;
}

/** The runs that a request names and may continue. */
export function runsToContinue({ previousResponseId: previous, input }: GatewayRequest): string[] {
  const items = input.flatMap(item => (item.type === 'sent' ? item.items : []));
  const decided = items.map(item =>
    item.type === 'approval_response' ? readItemId(item.callId)?.runId : undefined,
  );
  const continued = previous === undefined ? undefined : readResponseId(previous)?.runId;
  return [continued, ...decided].filter(runId => runId !== undefined);
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
