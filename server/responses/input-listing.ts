import type { JsonObject } from '../../protocol/json.ts';
import { type FoundResponse, inputOf, isCustomTool, RESPONSES, requestIdOf } from '../gateway/index.ts';
import { invalid, ResponsesError } from '../openai-error.ts';
import { resultHead, wireInputs, wireOutput } from './wire-input.ts';

/** The input items of a response in wire format, in order, without the first `from` messages and other items. */
export function inputItemsOf(
  { run, span }: FoundResponse,
  { from = 0 }: { from?: number } = {},
): JsonObject[] {
  if (span.seq === 1) return wireInputs(inputOf(run, span).slice(from), span.spec.exposed);
  const { decisions } = span.spec;
  const messages = span.spec.messages.slice(from);
  return run.entries.slice(span.seq, span.to ?? undefined).flatMap(({ seq, event }): JsonObject[] => {
    if (!('by' in event) || event.by !== RESPONSES) return [];
    switch (event.type) {
      case 'approval.decided': {
        const { callId, decision } = event;
        if (!decisions.some(made => made.callId === callId)) return [];
        const response = {
          id: `mcpa_${run.runId.replace(/^run_/, '')}_${seq}`,
          type: 'mcp_approval_response',
          approval_request_id: requestIdOf(run, callId),
          approve: decision.type !== 'reject',
          reason: decision.type === 'reject' ? (decision.reason ?? null) : null,
        };
        return [response];
      }
      case 'result.received': {
        const { callId, output } = event;
        if (!decisions.some(made => made.callId === callId)) return [];
        const id = `fco_${run.runId.replace(/^run_/, '')}_${seq}`;
        return [
          {
            id,
            ...resultHead({ isCustom: isCustomTool(run.tools.of(callId)) }),
            call_id: callId,
            output: wireOutput(output),
          },
        ];
      }
      case 'message.received':
        return event.items
          .filter(({ id = '' }) => messages.includes(id))
          .flatMap(item => wireInputs([item], {}));
      default:
        return [];
    }
  });
}

/**
 * One page of a list in OpenAI's format, newest first by default. Throws a `ResponsesError` for an invalid query, with
 * status 404 if `after` names no item of the list.
 */
export function pageOf(
  items: readonly JsonObject[],
  query: { order?: string | undefined; after?: string | undefined; limit?: string | undefined },
): JsonObject {
  const limit = Number(query.limit ?? '20');
  if (!Number.isInteger(limit) || limit < 1 || limit > 100)
    throw invalid('limit', 'invalid_value', "'limit' must be a whole number from 1 to 100.");
  if (query.order !== undefined && query.order !== 'asc' && query.order !== 'desc')
    throw invalid('order', 'invalid_value', "'order' must be 'asc' or 'desc'.");
  const ordered = query.order === 'asc' ? items : items.toReversed();
  const begin = query.after === undefined ? 0 : placeOf(query.after, ordered) + 1;
  const data = ordered.slice(begin, begin + limit);
  return {
    object: 'list',
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: begin + limit < ordered.length,
  };
}

function placeOf(itemId: string, items: readonly JsonObject[]): number {
  const place = items.findIndex(({ id }) => id === itemId);
  if (place !== -1) return place;
  throw new ResponsesError(`Item with id '${itemId}' not found.`, {
    status: 404,
    code: 'item_not_found',
    param: 'after',
  });
}
