import { callKindOf, FUNCTION_CALL, writeAnswer } from '../../adapters/responses/item-kinds.ts';
import { nonEmpty, objectOf } from '../../adapters/turn/json-access.ts';
import { describeOutput, readContent } from '../../protocol/content/read-content.ts';
import type { ControlItem, Item, ToolCallItem, ToolResultItem } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { argumentOf, refusalIn } from '../gateway/answer/answer-event.ts';
import { callMembers, providedItem } from '../gateway/answer/turn-items.ts';
import { isReceiptItem, outputIn } from '../gateway/plan/client-work.ts';
import { compactionOf } from '../gateway/request/compaction-items.ts';
import { wirePart } from '../gateway/request/gateway-request.ts';
import { type FoundResponse, inputOf, requestIdOf } from '../gateway/runs/response-library.ts';
import {
  callTypeFor,
  type Exposed,
  isClientTool,
  namespaceOf,
  RESPONSES,
  toolNamed,
} from '../gateway/runs/response-spec.ts';
import { invalid, notFound } from '../openai-error.ts';

/** A call that a gateway ran appears as a function call. */
export function wireInputs(items: readonly Item[], exposed: Exposed): JsonObject[] {
  const work = new Set(items.filter(isReceiptItem).map(({ callId }) => callId));
  const calls = new Map(
    items.flatMap(item => {
      if (item.type !== 'tool_call') return [];
      return [[item.callId, { ...calledIn(item, exposed), isAsync: work.has(item.callId) }]];
    }),
  );
  return items.flatMap(item => (isReceiptItem(item) ? [] : wireInput(item, calls)));
}

type Called = { type: string; name: string; namespace?: string; isAsync?: boolean };

type Result = Pick<ToolResultItem, 'callId' | 'output' | 'isError'>;

function resultItem(id: string | null, type: string | undefined, result: Result): JsonObject {
  const kind = callKindOf(type) ?? FUNCTION_CALL;
  const members =
    kind.tool === undefined ? { output: wireOutput(result.output) } : writeAnswer(kind, result).members;
  return { id, type: kind.output.type, status: 'completed', call_id: result.callId, ...members };
}

function wireInput(item: Item, calls: ReadonlyMap<string, Called>): JsonObject[] {
  const id = item.id ?? null;
  const compaction = compactionOf(item);
  if (compaction === null) return [];
  if (compaction !== undefined) return [{ ...compaction, id: compaction.id ?? id }];
  switch (item.type) {
    case 'message': {
      if (item.outcomeOf !== undefined) {
        const { as, output } = outputIn(item);
        return [resultItem(id, as, { callId: item.outcomeOf.callId, output, isError: false })];
      }
      const data = item.opaque?.data;
      const phase = isJsonObject(data) && typeof data.phase === 'string' ? { phase: data.phase } : {};
      const refusal = refusalIn([item]);
      const content = [
        ...item.content.map(part => wirePart(part, { isOutput: item.role === 'assistant' })),
        ...(refusal === '' ? [] : [{ type: 'refusal', refusal }]),
      ];
      return [{ id, type: 'message', status: 'completed', role: item.role, content, ...phase }];
    }
    case 'reasoning':
      return [
        {
          id,
          type: 'reasoning',
          summary: item.text === '' ? [] : [{ type: 'summary_text', text: item.text }],
        },
      ];
    case 'tool_call': {
      const { callId, arguments: written } = item;
      const called = calls.get(callId) ?? { type: 'function_call', name: item.name };
      const { type, name, namespace, isAsync } = called;
      const async = isAsync || undefined;
      const more = { ...callMembers(item), ...omitUndefined({ namespace, async }) };
      const call = { id, callId, name, arguments: written, more };
      if (type === 'custom_tool_call') return [customCallItem(call)];
      if (type !== 'function_call') return [ownCallItem(type, call)];
      return [{ id, type, status: 'completed', call_id: callId, name, arguments: written, ...more }];
    }
    case 'tool_result':
      return [resultItem(id, calls.get(item.callId)?.type, item)];
    case 'tool_list':
      return [toolListItem(item)];
    case 'approval_request': {
      const { name, arguments: written, label = '' } = item;
      return [{ id, type: 'mcp_approval_request', server_label: label, name, arguments: written }];
    }
    case 'approval_response': {
      const { callId, approve, reason = null } = item;
      return [{ id, type: 'mcp_approval_response', approval_request_id: callId, approve, reason }];
    }
    case 'provider_item': {
      const provided = providedItem(item);
      return provided === undefined ? [] : [{ ...provided.item, id: item.id ?? provided.item.id ?? '' }];
    }
  }
}

/** What the client knows the call as. */
function calledIn({ name, opaque }: ToolCallItem, exposed: Exposed): Called {
  const tool = toolNamed(exposed, name);
  const { as, called } = objectOf(opaque?.data);
  return {
    type: typeof as === 'string' ? as : callTypeFor(tool),
    name: isClientTool(tool) ? tool.name : (nonEmpty(called) ?? name),
    ...omitUndefined({ namespace: namespaceOf(tool) }),
  };
}

function wireOutput(output: JsonValue): JsonValue {
  return (
    readContent(output)?.parts.map(part => wirePart(part, { isOutput: false })) ?? describeOutput(output)
  );
}

type ToolListItem = Extract<ControlItem, { type: 'tool_list' }>;

/** Omits an absent error, because some clients refuse `null` here. */
export function toolListItem({ id, label, tools, error }: ToolListItem): JsonObject & { id: string } {
  return {
    id: id ?? '',
    type: 'mcp_list_tools',
    server_label: label,
    tools,
    ...omitUndefined({ error }),
  };
}

type WrittenCall = {
  id: string | null;
  callId: string;
  name: string;
  arguments: string;
  more?: JsonObject;
};

/** `type`: of a call of a tool that OpenAI's models know. */
export function ownCallItem(type: string, { id, callId, arguments: written, more }: WrittenCall): JsonObject {
  return { id, type, call_id: callId, ...callKindOf(type)?.write(written), ...more };
}

/** `arguments` is the JSON text of an object with the call's `input`. */
export function customCallItem(call: WrittenCall) {
  const { id, callId, name } = call;
  const input = argumentOf(call, 'input') ?? call.arguments;
  const type = 'custom_tool_call' as const;
  return { id, type, status: 'completed', call_id: callId, name, input, ...call.more };
}

/** In order, without the first `from` messages and other items. */
export function inputItemsOf(
  { run, span }: FoundResponse,
  { from = 0 }: { from?: number } = {},
): JsonObject[] {
  if (span.seq === 1) return wireInputs(inputOf(run, span).slice(from), span.spec.exposed);
  const { decisions } = span.spec;
  const messages = span.spec.messages.slice(from);
  const key = run.runId.replace(/^run_/, '');
  const isDecided = (callId: string) => decisions.some(made => made.callId === callId);
  return run.entries.slice(span.seq, span.to ?? undefined).flatMap(({ seq, event }): JsonObject[] => {
    if (!('by' in event) || event.by !== RESPONSES) return [];
    switch (event.type) {
      case 'approval.decided': {
        const { callId, decision } = event;
        if (!isDecided(callId)) return [];
        const isRejected = decision.type === 'reject';
        return [
          {
            id: `mcpa_${key}_${seq}`,
            type: 'mcp_approval_response',
            approval_request_id: requestIdOf(run, callId),
            approve: !isRejected,
            reason: isRejected ? (decision.reason ?? null) : null,
          },
        ];
      }
      case 'result.received': {
        if (!isDecided(event.callId)) return [];
        return [resultItem(`fco_${key}_${seq}`, callTypeFor(run.tools.of(event.callId)), event)];
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

/** Newest first by default. Throws a `ResponsesError`, with status 404 if `after` names no item of the list. */
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
  throw notFound(`Item with id '${itemId}' not found.`, 'item_not_found', 'after');
}
