/** Items of the Responses API, and what they are as the input of a request. */

import * as z from 'zod';
import { objectOf, objectsOf } from '../../adapters/turn/json-access.ts';
import type { Item, Part } from '../../protocol/item.ts';
import {
  isJsonObject,
  type JsonObject,
  type JsonValue,
  omitNull,
  omitUndefined,
} from '../../protocol/json.ts';
import { maybe, openFields, orText } from '../fields.ts';
import { openSeal } from '../gateway/answer/turn-items.ts';
import {
  customCall,
  type InputItem,
  OPENAI,
  outputOf,
  type SentItem,
  sent,
  sentMessage,
} from '../gateway/request/gateway-request.ts';
import { detail } from '../gateway/request/shared-parameters.ts';
import { describeIssue, invalid, missing, type ResponsesError } from '../openai-error.ts';

const OUTPUT_NOT_KEPT = 'The output of this tool call is not available.';

const MISSING = 'missing';
const NOT_EMPTY = 'expected a non-empty string';

const text = z.string({ error: ({ input }) => (input == null ? MISSING : NOT_EMPTY) }).min(1, NOT_EMPTY);
const textOr = (otherwise: string) =>
  z
    .string(NOT_EMPTY)
    .nullish()
    .transform(value => value ?? otherwise);
/** Counts only if it fits. */
const lenient = <Schema extends z.ZodType>(schema: Schema) => z.nullish(schema).catch(null);
const json = z.custom<JsonValue>();
const id = lenient(z.string().min(1));
const callId = maybe(z.string(NOT_EMPTY));

const URL_EXPECTED = 'expected an http, https or data URL; file ids are not supported';
const url = z.string(URL_EXPECTED).regex(/^(https?:|data:)/i, URL_EXPECTED);

const part = z.discriminatedUnion(
  'type',
  [
    z
      .object({
        type: z.enum(['input_text', 'output_text', 'text']),
        text: z.string('expected a string'),
        annotations: lenient(z.array(json)),
      })
      .transform(
        ({ text, annotations }): Part => ({
          type: 'text',
          text,
          ...(annotations?.length ? { annotations } : {}),
        }),
      ),
    z
      .object({ type: z.literal('refusal'), refusal: lenient(z.string()) })
      .transform(({ refusal }): Part => ({ type: 'text', text: refusal ?? '' })),
    z.object({ type: z.literal('input_image'), image_url: url, detail }).transform(
      (image): Part => ({
        type: 'image',
        url: image.image_url,
        ...omitNull({ detail: image.detail }),
      }),
    ),
    z
      .object({
        type: z.literal('input_file'),
        file_url: maybe(url),
        file_data: maybe(url),
        filename: lenient(z.string()),
      })
      .refine(file => (file.file_url ?? file.file_data) != null, { path: ['file_data'], error: URL_EXPECTED })
      .transform(
        ({ file_url, file_data, filename: name }): Part => ({
          type: 'file',
          url: file_url ?? file_data ?? '',
          ...omitNull({ name }),
        }),
      ),
  ],
  {
    error: ({ input }) =>
      isJsonObject(input)
        ? `Content of type ${JSON.stringify(input.type)} is not supported.`
        : 'expected an object',
  },
);

const content = orText(z.array(part, 'expected a string or a list of parts'));

const texts = lenient(z.array(z.object({ text: z.string() }).catch({ text: '' }))).transform(parts =>
  (parts ?? []).map(({ text }) => text).join(''),
);

const result = { id, call_id: text, output: content, is_error: z.optional(json) };

export const inputItem = z.discriminatedUnion(
  'type',
  [
    z.object({
      type: z.literal('message'),
      id,
      role: text.pipe(
        z.enum(['user', 'assistant', 'system', 'developer'], 'expected user, assistant, system or developer'),
      ),
      content,
      phase: lenient(z.string()),
    }),
    z.object({
      type: z.literal('reasoning'),
      id,
      summary: texts,
      content: texts,
      encrypted_content: z.optional(json),
    }),
    z.object({ type: z.literal('function_call'), id, call_id: text, name: text, arguments: textOr('') }),
    z.object({ type: z.literal('custom_tool_call'), id, call_id: text, name: text, input: textOr('') }),
    z.object({ type: z.literal('function_call_output'), ...result }),
    z.object({ type: z.literal('custom_tool_call_output'), ...result }),
    z.object({
      type: z.literal('mcp_call'),
      id: callId,
      name: text,
      arguments: textOr('{}'),
      server_label: textOr(''),
      output: z.optional(json),
      error: z.optional(json),
    }),
    z.object({
      type: z.literal('mcp_list_tools'),
      id,
      server_label: text,
      tools: lenient(z.array(json)),
      error: z.optional(json),
    }),
    z.object({
      type: z.literal('mcp_approval_request'),
      id: callId,
      name: text,
      arguments: textOr('{}'),
      server_label: textOr(''),
    }),
    z.object({
      type: z.literal('mcp_approval_response'),
      id,
      approve: z.boolean('expected true or false'),
      approval_request_id: text,
      reason: lenient(z.string()),
    }),
    z.object({ type: z.literal('item_reference'), id: text }),
    z.object({ type: z.literal('compaction'), id, encrypted_content: text }),
    openFields({ type: z.enum(['web_search_call', 'file_search_call', 'code_interpreter_call']), id }),
  ],
  {
    error: ({ input }) =>
      `Input items of type ${JSON.stringify(isJsonObject(input) ? input.type : null)} are not supported.`,
  },
);

export type WireItem = JsonObject & { type?: JsonValue };

export function readWireItems(items: readonly unknown[], field: string): WireItem[] {
  return items.map((item, at) => {
    const place = `${field}[${at}]`;
    if (!isJsonObject(item))
      throw invalid(place, 'invalid_value', `'${place}' is not valid: expected an object.`);
    if ('type' in item || 'role' in item || 'id' in item) return item;
    throw missing(`${place}.type`);
  });
}

export function readItems(items: readonly WireItem[], field: string): InputItem[] {
  return items.map((item, at) => readItem(item, `${field}[${at}]`));
}

function readItem(wire: WireItem, place: string): InputItem {
  const type = wire.type ?? ('role' in wire ? 'message' : 'item_reference');
  const parsed = inputItem.safeParse({ ...wire, type });
  if (!parsed.success) throw describeItemIssue(parsed.error.issues[0], place);
  const item = parsed.data;
  const named = item.id ? { id: item.id } : {};
  const own = (...items: Item[]): SentItem => ({ ...named, ...sent(...items) });
  switch (item.type) {
    case 'message': {
      const { role, content, phase } = item;
      const opaque =
        role === 'assistant' && phase != null ? { provider: OPENAI, data: { phase } } : undefined;
      const message = { ...named, type: 'message' as const, role, content, ...omitUndefined({ opaque }) };
      return { ...named, ...sentMessage(message, place) };
    }
    case 'reasoning': {
      const opened = openSeal(item.encrypted_content);
      return own(...(opened ?? [{ ...named, type: 'reasoning', text: item.summary || item.content }]));
    }
    case 'function_call': {
      const { call_id: callId, name, arguments: written } = item;
      return own({ ...named, type: 'tool_call', callId, name, arguments: written });
    }
    case 'custom_tool_call': {
      const call = customCall({ callId: item.call_id, name: item.name, input: item.input });
      return { ...call, ...named, items: call.items.map(each => ({ ...named, ...each })) };
    }
    case 'function_call_output':
    case 'custom_tool_call_output': {
      const isError = item.is_error === true;
      const output = outputOf(item.output);
      return own({ ...named, type: 'tool_result', callId: item.call_id, output, isError });
    }
    case 'mcp_call': {
      const { name, arguments: written, server_label: label, output, error } = item;
      const { callId, ...made } = callIdOf(item, 'mcp', place);
      const isError = error != null;
      const outcome = isError ? `Tool call failed: ${asError(error)}` : (output ?? OUTPUT_NOT_KEPT);
      return {
        ...own(
          { ...named, type: 'tool_call', callId, name, arguments: written },
          { type: 'tool_result', callId, output: outcome, isError },
        ),
        ranHere: true,
        tool: { label, name },
        ...made,
      };
    }
    case 'mcp_list_tools': {
      const { server_label: label, tools, error } = item;
      const failed = omitUndefined({ error: error == null ? undefined : asError(error) });
      return own({ ...named, type: 'tool_list', label, tools: tools ?? [], ...failed });
    }
    case 'mcp_approval_request': {
      const { name, arguments: written, server_label: label } = item;
      const { callId, ...made } = callIdOf(item, 'mcpr', place);
      const request = { type: 'approval_request' as const, callId, name, arguments: written, label };
      return { ...own({ ...named, ...request }), ...made };
    }
    case 'mcp_approval_response': {
      const { approve, reason, approval_request_id: callId } = item;
      return own({ ...named, type: 'approval_response', callId, approve, ...omitNull({ reason }) });
    }
    case 'item_reference':
      return { type: 'item_reference', id: item.id, at: place };
    case 'compaction':
      return { ...named, type: 'compaction', at: place, content: item.encrypted_content };
    default: {
      const content: Part[] = [{ type: 'text', text: describeBuiltinCall(wire) }];
      return { ...own({ ...named, type: 'message', role: 'assistant', content }), ranHere: true };
    }
  }
}

/** An item that was sent without an id gets one from its place. */
function callIdOf({ id }: { id?: string | null }, prefix: string, place: string) {
  if (id != null) return { callId: id };
  const newCallId = `${prefix}_${place.replaceAll(/\W+/g, '')}`;
  return { callId: newCallId, newCallId };
}

function asError(error: JsonValue): string {
  return typeof error === 'string' ? error : JSON.stringify(error);
}

function describeItemIssue(issue: z.core.$ZodIssue | undefined, place: string): ResponsesError {
  const error = describeIssue(issue, place);
  if (issue?.message === MISSING) return missing(error.param);
  if (issue?.code !== 'invalid_union') return error;
  const isItem = issue.path.length === 1;
  return invalid(error.param, isItem ? 'unsupported_input_item' : 'unsupported_content', issue.message);
}

/** For a call that is not stored: what was asked, and what the item shows of the result. */
function describeBuiltinCall(item: JsonObject): string {
  switch (item.type) {
    case 'web_search_call': {
      const action = objectOf(item.action);
      const asked = action.query ?? action.url ?? textsIn(action.queries).join(', ');
      const sources = objectsOf(action.sources).map(({ url }) => url);
      return [`Web search: ${asked}`, ...sources].join('\n');
    }
    case 'file_search_call': {
      const results = objectsOf(item.results).map(({ filename, text }) => `${filename}: ${text}`);
      return [`File search: ${textsIn(item.queries).join(', ')}`, ...results].join('\n');
    }
    default: {
      const outputs = objectsOf(item.outputs).map(({ logs, url }) => `Output: ${logs ?? url}`);
      return [`Code that was run: ${item.code ?? ''}`, ...outputs].join('\n');
    }
  }
}

function textsIn(value: JsonValue | undefined): string[] {
  return Array.isArray(value) ? value.filter(text => typeof text === 'string') : [];
}
