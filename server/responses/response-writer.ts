import type {
  ResponseCustomToolCall,
  ResponseFunctionToolCall,
  ResponseOutputMessage,
  ResponseOutputRefusal,
  ResponseOutputText,
  ResponseReasoningItem,
  ResponseStreamEvent,
} from 'openai/resources/responses/responses';
import { describeOutput } from '../../protocol/content/read-content.ts';
import type { Item } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { Usage } from '../../protocol/turn.ts';
import type { BuiltinKind } from '../builtins/builtin-schemas.ts';
import {
  type AnswerEvent,
  type AnswerWriter,
  addUsages,
  annotationsOf,
  argumentOf,
  type CallEnd,
  type PlacedCall,
  refusalIn,
  resultsIn,
} from '../gateway/answer/answer-event.ts';
import { itemIdOf } from '../gateway/answer/wire-ids.ts';
import { eventsOf, type FoundResponse } from '../gateway/runs/response-library.ts';
import {
  builtinOf,
  type ExposedTool,
  isServerTool,
  type ResponseHead,
} from '../gateway/runs/response-spec.ts';
import { customCallItem, ownCallItem, toolListItem } from './wire-input.ts';

type OtherItem = JsonObject & { id: string };
/** Custom calls have a status here, like calls of functions. */
type WrittenItem =
  | ResponseOutputMessage
  | ResponseReasoningItem
  | ResponseFunctionToolCall
  | (ResponseCustomToolCall & { status: string })
  | OtherItem;

type EventType = ResponseStreamEvent['type'];

/** The fields of an event as OpenAI defines them; those of objects that Open Responses adds to are our own. */
type Fields<Type extends EventType> = Replace<
  Omit<Extract<ResponseStreamEvent, { type: Type }>, 'type' | 'sequence_number'>,
  { response: JsonObject; item: WrittenItem }
>;
type Replace<Given, By> = { [Name in keyof Given]: Name extends keyof By ? By[Name] : Given[Name] };
type Annotation = ResponseOutputText['annotations'][number];

type Of<Type extends AnswerEvent['type']> = Extract<AnswerEvent, { type: Type }>;

export type WireEvent = JsonObject & { type: string; sequence_number: number };

/** `begun`: its content part was announced. */
type Opened = { kind: 'message' | 'reasoning'; id: string; index: number; begun: boolean };

/**
 * Writes an answer as the events of a response.
 *
 * W1 `sequence_number` counts up without gaps; output indexes follow the order in which items are opened.
 * W2 An item is part of the output once its `output_item.done` is written, so the final object matches the events.
 * W3 There is exactly one terminal event, and it is the last.
 */
export class ResponseWriter implements AnswerWriter<JsonObject> {
  readonly #head: ResponseHead;
  readonly #emit: (wire: WireEvent) => void;
  readonly #include: readonly JsonValue[];
  readonly #items: (JsonObject | null)[] = [];
  readonly #opened = new Map<string, Opened>();
  readonly #running = new Map<string, number>();
  #sequence: number;
  #state: Omit<ResponseState, 'output'> = {
    status: 'in_progress',
    completedAt: null,
    incompleteReason: null,
    error: null,
    usage: null,
  };

  constructor(head: ResponseHead, emit: (wire: WireEvent) => void, firstNumber = 0) {
    this.#head = head;
    this.#emit = emit;
    this.#sequence = firstNumber;
    const { include = [], background } = head.spec.request;
    this.#include = include;
    if (background === true) this.#state = { ...this.#state, status: 'queued' };
  }

  get whole(): JsonObject {
    return responseObject(this.#head, { ...this.#state, output: this.output });
  }

  get output(): JsonObject[] {
    return this.#items.filter(item => item !== null);
  }

  take(event: AnswerEvent): void {
    switch (event.type) {
      case 'begun':
        return this.#begin();
      case 'list':
        return this.#list(event);
      case 'opened':
        return this.#openText(event);
      case 'text':
        return this.#text(event);
      case 'closed':
        return this.#closeText(event);
      case 'compaction':
        return this.#compact(event);
      case 'provided':
        return this.#provide(event);
      case 'call.started':
        return this.#start(event);
      case 'call.ended':
        return this.#settle(event);
      case 'call.asked':
        return this.#ask(event);
      case 'call.given':
        return this.#give(event);
      case 'usage':
        this.#state = { ...this.#state, usage: addUsages(this.#state.usage, event.usage) };
        return;
      case 'ended':
        return this.#end(event);
    }
  }

  #write<Type extends EventType>(type: Type, fields: Fields<Type>): void {
    this.#emit({ type, sequence_number: this.#sequence++, ...asJson(fields) });
  }

  #writeAll(events: readonly ItemEvent[], place: JsonObject): void {
    for (const { type, ...fields } of events)
      this.#emit({ type, sequence_number: this.#sequence++, ...place, ...fields });
  }

  #open(item: WrittenItem): number {
    const index = this.#items.length;
    this.#items.push(null);
    this.#write('response.output_item.added', { output_index: index, item });
    return index;
  }

  #close(index: number, item: WrittenItem): void {
    this.#items[index] = asJson(item);
    this.#write('response.output_item.done', { output_index: index, item });
  }

  /** Writes an item that is complete. `begun`: as it is announced. */
  #show(item: WrittenItem, begun: WrittenItem = item, events: readonly ItemEvent[] = []): void {
    const index = this.#open(begun);
    this.#writeAll(events, { item_id: item.id ?? '', output_index: index });
    this.#close(index, item);
  }

  #begin(): void {
    this.#write('response.created', { response: this.whole });
    if (this.#state.status === 'queued') {
      this.#write('response.queued', { response: this.whole });
      this.#state = { ...this.#state, status: 'in_progress' };
    }
    this.#write('response.in_progress', { response: this.whole });
  }

  #list({ list }: Of<'list'>): void {
    const full = toolListItem(list);
    const ended = list.error === undefined ? 'completed' : 'failed';
    this.#show(full, toolListItem({ type: 'tool_list', id: full.id, label: list.label, tools: [] }), [
      eventOf('response.mcp_list_tools.in_progress', {}),
      eventOf(`response.mcp_list_tools.${ended}`, {}),
    ]);
  }

  #compact({ id, content }: Of<'compaction'>): void {
    // A compaction of Anthropic's, which this API has no item for.
    if (content === '') return;
    const item = { id, type: 'compaction', encrypted_content: content } as const;
    this.#show(item, item, [eventOf('response.compaction.compacting', {})]);
  }

  #openText({ kind, id }: Of<'opened'>): void {
    const item: WrittenItem =
      kind === 'message'
        ? { id, type: 'message', status: 'in_progress', role: 'assistant', content: [] }
        : { id, type: 'reasoning', status: 'in_progress', summary: [] };
    this.#opened.set(id, { kind, id, index: this.#open(item), begun: false });
  }

  #text({ id, text }: Of<'text'>): void {
    const opened = this.#opened.get(id);
    if (opened === undefined) return;
    this.#beginPart(opened);
    if (opened.kind === 'message')
      this.#write('response.output_text.delta', { ...placeOf(opened), delta: text, logprobs: [] });
    else this.#write('response.reasoning_summary_text.delta', { ...summaryOf(opened), delta: text });
  }

  #beginPart(opened: Opened): void {
    if (opened.begun) return;
    opened.begun = true;
    if (opened.kind === 'message') {
      const part = { type: 'output_text' as const, text: '', annotations: [], logprobs: [] };
      this.#write('response.content_part.added', { ...placeOf(opened), part });
    } else {
      const part = { type: 'summary_text' as const, text: '' };
      this.#write('response.reasoning_summary_part.added', { ...summaryOf(opened), part });
    }
  }

  #closeText(event: Of<'closed'>): void {
    const opened = this.#opened.get(event.id);
    this.#opened.delete(event.id);
    if (opened === undefined) return;
    if (opened.kind === 'message') this.#closeMessage(opened, event);
    else this.#closeReasoning(opened, event);
  }

  #closeMessage(opened: Opened, { text, items, status }: Of<'closed'>): void {
    const refusal = refusalIn(items);
    const content: ResponseOutputMessage['content'] = [];
    if (text !== '' || refusal === '') {
      this.#beginPart(opened);
      const annotations = annotationsOf(items).filter(isAnnotation);
      const part = { type: 'output_text' as const, text, annotations, logprobs: [] };
      this.#write('response.output_text.done', { ...placeOf(opened), text, logprobs: [] });
      this.#write('response.content_part.done', { ...placeOf(opened), part });
      content.push(part);
    }
    if (refusal !== '') content.push(this.#writeRefusal(refusal, placeOf(opened, content.length)));
    this.#close(opened.index, {
      id: opened.id,
      type: 'message',
      status,
      role: 'assistant',
      content,
      ...phaseOf(items),
    });
  }

  #writeRefusal(refusal: string, place: TextPlace): ResponseOutputRefusal {
    const part = { type: 'refusal' as const, refusal };
    this.#write('response.content_part.added', { ...place, part: { ...part, refusal: '' } });
    this.#write('response.refusal.delta', { ...place, delta: refusal });
    this.#write('response.refusal.done', { ...place, refusal });
    this.#write('response.content_part.done', { ...place, part });
    return part;
  }

  #closeReasoning(opened: Opened, { text, status, seal }: Of<'closed'>): void {
    const summary = opened.begun ? [{ type: 'summary_text' as const, text }] : [];
    for (const part of summary) {
      this.#write('response.reasoning_summary_text.done', { ...summaryOf(opened), text });
      this.#write('response.reasoning_summary_part.done', { ...summaryOf(opened), part });
    }
    this.#close(opened.index, {
      id: opened.id,
      type: 'reasoning',
      status,
      summary,
      ...omitUndefined({ encrypted_content: seal }),
    });
  }

  #provide({ id, builtin, item }: Of<'provided'>): void {
    const closed: OtherItem = { ...item, id };
    if (builtin === undefined) return this.#show(closed);
    const isCode = builtin === 'code_interpreter';
    const opened: OtherItem = {
      ...closed,
      status: 'in_progress',
      ...(isCode ? { code: '', outputs: null } : {}),
    };
    const code = isCode && typeof closed.code === 'string' ? closed.code : undefined;
    this.#show(closed, 'results' in closed ? { ...opened, results: null } : opened, [
      ...builtinEvents(builtin, code),
      ...(closed.status === 'completed' ? [{ type: `response.${builtin}_call.completed` }] : []),
    ]);
  }

  #start({ id, call, tool }: Of<'call.started'>): void {
    const { item, events } = shapeOf(tool).opened({ ...call, id });
    const index = this.#open(item);
    this.#running.set(call.callId, index);
    this.#writeAll(events, { item_id: item.id, output_index: index });
  }

  #settle({ id, call, tool, end }: Of<'call.ended'>): void {
    const index = this.#running.get(call.callId);
    if (index === undefined) return;
    this.#running.delete(call.callId);
    const { item, events } = shapeOf(tool).closed({ ...call, id }, end, this.#include);
    this.#writeAll(events, { item_id: item.id, output_index: index });
    this.#close(index, item);
  }

  #ask({ id, call, tool: { label, name } }: Of<'call.asked'>): void {
    const written = call.arguments || '{}';
    this.#show({ id, type: 'mcp_approval_request', server_label: label, name, arguments: written });
  }

  #give(event: Of<'call.given'>): void {
    if (event.as === 'function_call') return this.#giveFunction(event);
    if (event.as === 'custom_tool_call') return this.#giveCustom(event);
    const item = { ...ownCallItem(event.as, { ...event.call, id: event.id }), id: event.id };
    this.#show(item, { ...item, status: 'in_progress' });
  }

  #giveFunction({ id, call: { name, callId, arguments: given, more } }: Of<'call.given'>): void {
    const written = given || '{}';
    const head = { id, type: 'function_call', status: 'completed', call_id: callId, name } as const;
    const item: OtherItem = { ...head, arguments: written, ...more };
    // OpenAI sends the name too.
    const done = { name, arguments: written };
    this.#show(item, { ...item, status: 'in_progress', arguments: '' }, [
      eventOf('response.function_call_arguments.delta', { delta: written }),
      eventOf('response.function_call_arguments.done', done),
    ]);
  }

  #giveCustom({ id, call }: Of<'call.given'>): void {
    const item = { ...customCallItem({ ...call, id }), id };
    const { input } = item;
    this.#show(item, { ...item, status: 'in_progress', input: '' }, [
      ...(input === '' ? [] : [eventOf('response.custom_tool_call_input.delta', { delta: input })]),
      eventOf('response.custom_tool_call_input.done', { input }),
    ]);
  }

  #end({ at, end }: Of<'ended'>): void {
    const { status, incompleteReason = null, error = null } = end;
    const completedAt = status === 'completed' ? at : null;
    this.#state = { ...this.#state, status, incompleteReason, error, completedAt };
    // OpenAI has no event for a cancelled response, so it ends with the one for a failed response.
    this.#write(`response.${status === 'cancelled' ? 'failed' : status}`, { response: this.whole });
  }
}

function eventOf<Type extends EventType>(
  type: Type,
  fields: Omit<Fields<Type>, 'item_id' | 'output_index'>,
): ItemEvent {
  return { type, ...asJson(fields) };
}

type TextPlace = { item_id: string; output_index: number; content_index: number };

function placeOf({ id, index }: Opened, content_index = 0): TextPlace {
  return { item_id: id, output_index: index, content_index };
}

function summaryOf({ id, index }: Opened) {
  return { item_id: id, output_index: index, summary_index: 0 };
}

function phaseOf(items: readonly Item[]): Pick<ResponseOutputMessage, 'phase'> {
  const [first, second] = items;
  if (first?.type !== 'message' || second !== undefined) return {};
  const data = first.opaque?.data;
  const phase = isJsonObject(data) ? data.phase : undefined;
  return isPhase(phase) ? { phase } : {};
}

function isAnnotation(value: JsonValue): value is JsonObject & Annotation {
  return isJsonObject(value);
}

function isPhase(value: unknown): value is NonNullable<ResponseOutputMessage['phase']> {
  return typeof value === 'string';
}

/** The same value: objects of OpenAI's types are JSON, which their interfaces do not say. */
function asJson(value: object): JsonObject {
  return value as JsonObject;
}

export function writeResponse(found: FoundResponse): ResponseWriter {
  const writer = new ResponseWriter(found.span, () => {});
  for (const event of eventsOf(found)) writer.take(event);
  return writer;
}

type ResponseStatus = 'queued' | 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled';

/** Times are ms since the epoch. */
type ResponseState = {
  status: ResponseStatus;
  completedAt: number | null;
  incompleteReason: string | null;
  error: { code: string; message: string } | null;
  output: readonly JsonObject[];
  usage: Usage | null;
};

/** With every field of OpenAI and the Open Responses schema. */
function responseObject({ id, createdAt, spec }: ResponseHead, state: ResponseState): JsonObject {
  const { request } = spec;
  const { settings, openai } = request;
  return {
    id,
    object: 'response',
    created_at: Math.floor(createdAt / 1000),
    ...omitUndefined({ conversation: spec.conversation && { id: spec.conversation.id } }),
    completed_at: state.completedAt === null ? null : Math.floor(state.completedAt / 1000),
    status: state.status,
    background: request.background ?? false,
    error: state.error,
    incomplete_details: state.incompleteReason === null ? null : { reason: state.incompleteReason },
    instructions: request.instructions ?? null,
    max_output_tokens: settings.maxOutputTokens ?? null,
    max_tool_calls: request.maxToolCalls ?? null,
    model: request.model ?? spec.model,
    output: [...state.output],
    parallel_tool_calls: settings.parallelToolCalls ?? true,
    previous_response_id: request.previousResponseId ?? null,
    prompt_cache_key: openai.prompt_cache_key ?? null,
    reasoning: { effort: settings.reasoningEffort ?? null, summary: request.reasoningSummary ?? null },
    safety_identifier: openai.safety_identifier ?? null,
    service_tier: openai.service_tier ?? 'default',
    store: request.store ?? true,
    temperature: settings.temperature ?? 1,
    text: { ...request.text, format: request.text?.format ?? { type: 'text' } },
    tool_choice: request.toolChoice ?? 'auto',
    tools: [...request.tools],
    top_logprobs: 0,
    top_p: settings.topP ?? 1,
    presence_penalty: openai.presence_penalty ?? 0,
    frequency_penalty: openai.frequency_penalty ?? 0,
    truncation: openai.truncation ?? 'disabled',
    usage: state.usage === null ? null : usageObject(state.usage),
    user: openai.user ?? null,
    metadata: openai.metadata ?? {},
  };
}

export function usageObject(usage: Usage): JsonObject {
  return {
    input_tokens: usage.inputTokens,
    input_tokens_details: {
      cached_tokens: usage.cachedInputTokens ?? 0,
      cache_write_tokens: usage.cacheWriteTokens ?? 0,
    },
    output_tokens: usage.outputTokens,
    output_tokens_details: { reasoning_tokens: usage.reasoningTokens ?? 0 },
    total_tokens: usage.inputTokens + usage.outputTokens,
  };
}

/** Without the item's id and place. */
type ItemEvent = JsonObject & { type: string };
type ShownCall = PlacedCall & { id: string };

/** How a call that the gateway runs begins and ends. `include` is the request's. */
type CallShape = {
  opened(call: ShownCall): { item: OtherItem; events: ItemEvent[] };
  closed(
    call: ShownCall,
    end: CallEnd,
    include: readonly JsonValue[],
  ): { item: OtherItem; events: ItemEvent[] };
};

export function shapeOf(tool: ExposedTool): CallShape {
  const builtin = builtinOf(tool);
  return builtin === undefined ? mcpShape(tool) : BUILTIN_SHAPES[builtin];
}

function mcpShape(tool: ExposedTool): CallShape {
  const { name } = tool;
  const label = isServerTool(tool) ? tool.label : '';
  const itemOf = (call: ShownCall) => ({
    id: call.id,
    type: 'mcp_call',
    approval_request_id: call.gate ? itemIdOf({ ...call, kind: 'mcpr' }) : null,
    server_label: label,
    name,
    arguments: call.arguments,
    output: null,
    error: null,
  });
  return {
    opened: call => ({
      item: { ...itemOf(call), status: 'in_progress', arguments: '' },
      events: [
        { type: 'response.mcp_call.in_progress' },
        ...deltaOf('response.mcp_call_arguments.delta', call.arguments),
        { type: 'response.mcp_call_arguments.done', arguments: call.arguments },
      ],
    }),
    closed: (call, end) => {
      const status = 'error' in end ? 'failed' : 'completed';
      const outcome = 'error' in end ? { error: end.error } : { output: describeOutput(end.output) };
      return {
        item: { ...itemOf(call), status, ...outcome },
        events: [{ type: `response.mcp_call.${status}` }],
      };
    },
  };
}

const BUILTIN_SHAPES: Readonly<Record<BuiltinKind, CallShape>> = {
  web_search: builtinShape('web_search', (call, output, include) => {
    const action = { type: 'search', query: textIn(call, 'query') };
    if (output === null || !include.includes('web_search_call.action.sources')) return { action };
    const urls = resultsIn(output).flatMap(({ url }) => (typeof url === 'string' ? [url] : []));
    return { action: { ...action, sources: urls.map(url => ({ type: 'url', url })) } };
  }),
  file_search: builtinShape('file_search', (call, output, include) => ({
    queries: [textIn(call, 'query')],
    results: output !== null && include.includes('file_search_call.results') ? resultsIn(output) : null,
  })),
  code_interpreter: builtinShape('code_interpreter', (call, output, include) => {
    const logs = isJsonObject(output) && typeof output.logs === 'string' ? output.logs : '';
    const isWanted = output !== null && include.includes('code_interpreter_call.outputs');
    return {
      code: textIn(call, 'code'),
      container_id: call.id.replace(/^ci_/, 'cntr_'),
      outputs: isWanted ? [{ type: 'logs', logs }] : null,
    };
  }),
};

/** OpenAI has no event for a built-in call that failed: its item says so. `output` is `null` without one. */
function builtinShape(
  builtin: BuiltinKind,
  membersOf: (call: ShownCall, output: JsonValue, include: readonly JsonValue[]) => JsonObject,
): CallShape {
  const type = `${builtin}_call`;
  const isCode = builtin === 'code_interpreter';
  const headOf = (call: ShownCall, status: string) => ({ id: call.id, type, status });
  return {
    opened: call => ({
      item: { ...headOf(call, 'in_progress'), ...membersOf(call, null, []), ...(isCode ? { code: '' } : {}) },
      events: builtinEvents(builtin, isCode ? textIn(call, 'code') : undefined),
    }),
    closed: (call, end, include) =>
      'error' in end
        ? { item: { ...headOf(call, 'failed'), ...membersOf(call, null, []) }, events: [] }
        : {
            item: { ...headOf(call, 'completed'), ...membersOf(call, end.output, include) },
            events: [{ type: `response.${type}.completed` }],
          },
  };
}

/** Of a call that begins. `code`: that of a code interpreter, if it is known. */
function builtinEvents(builtin: BuiltinKind, code: string | undefined): ItemEvent[] {
  const type = `response.${builtin}_call`;
  const written =
    code === undefined ? [] : [...deltaOf(`${type}_code.delta`, code), { type: `${type}_code.done`, code }];
  const working = builtin === 'code_interpreter' ? 'interpreting' : 'searching';
  return [{ type: `${type}.in_progress` }, ...written, { type: `${type}.${working}` }];
}

function deltaOf(type: string, delta: string): ItemEvent[] {
  return delta === '' ? [] : [{ type, delta }];
}

function textIn(call: ShownCall, name: string): string {
  return argumentOf(call, name) ?? '';
}
