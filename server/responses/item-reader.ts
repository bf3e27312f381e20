/** Items of the Responses API, and what they are as the input of a request. */

import * as z from 'zod';
import {
  CALL_HEAD,
  callKindOf,
  callTypeAnsweredBy,
  hasMember,
  isKnownItem,
  KEPT_KINDS,
  type MemberForm,
} from '../../adapters/responses/item-kinds.ts';
import { nonEmpty, objectOf, objectsOf } from '../../adapters/turn/json-access.ts';
import { receiptOf } from '../../machines/calls.ts';
import type { Item, Opaque, Part } from '../../protocol/item.ts';
import {
  isJsonObject,
  type JsonObject,
  type JsonValue,
  omitNull,
  omitUndefined,
} from '../../protocol/json.ts';
import { maybe, object, openFields, orText } from '../fields.ts';
import {
  assertContent,
  customCall,
  type InputItem,
  OPENAI,
  outputOf,
  type SentItem,
  sent,
} from '../gateway/request/gateway-request.ts';
import { isForAll } from '../gateway/request/openai-items.ts';
import { clientTools, isAsync, readDeclarations } from '../gateway/request/request-tools.ts';
import { openReasoning } from '../gateway/request/sealed-items.ts';
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

/** `caller`: the program that made the call. */
const call = {
  id,
  call_id: text,
  name: text,
  caller: lenient(object),
  namespace: lenient(z.string().min(1)),
  async: lenient(z.boolean()),
};

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
    z.object({ type: z.literal('function_call'), ...call, arguments: textOr('') }),
    z.object({ type: z.literal('custom_tool_call'), ...call, input: textOr('') }),
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
  // An output does not say where its call ran.
  const theirs = new Set(
    items.flatMap(item => (callKindOf(item.type)?.atProvider?.(item) ? [item.call_id ?? null] : [])),
  );
  const signed = new Map(
    items
      .flatMap(({ type, encrypted_content: seal }) =>
        type === 'reasoning' ? (openReasoning(seal)?.calls ?? []) : [],
      )
      .map(({ callId, opaque }) => [callId, opaque]),
  );
  return items.map((item, at) => {
    const place = `${field}[${at}]`;
    const read = readOfResponses(item, theirs, place) ?? readItem(item, place);
    return read.type === 'sent'
      ? { ...read, items: read.items.map(one => withSignature(one, signed)) }
      : read;
  });
}

function withSignature(item: Item, signed: ReadonlyMap<string, Opaque | undefined>): Item {
  if (item.type !== 'tool_call') return item;
  return { ...item, ...omitUndefined({ opaque: signed.get(item.callId) }) };
}

/** An item that only models of OpenAI's Responses API read. `theirs`: the ids of the calls that ran there. */
function readOfResponses(
  item: WireItem,
  theirs: ReadonlySet<JsonValue>,
  place: string,
): SentItem | undefined {
  const { type } = item;
  if (typeof type !== 'string' || !isKnownItem(type)) return undefined;
  const answers = callTypeAnsweredBy(type);
  const kind = callKindOf(answers ?? type);
  if (kind !== undefined && kind.tool === undefined) return undefined;
  const id = nonEmpty(item.id);
  const callId = nonEmpty(item.call_id) ?? (type === 'local_shell_call_output' ? id : undefined);
  const members = answers === undefined ? (kind ?? KEPT_KINDS[type])?.members : kind?.output.members;
  for (const [name, form] of Object.entries(members ?? {}))
    if (!hasMember(item, name, form)) throw badMember(item, name, form, place);
  assertDeclarations(item.tools, `${place}.tools`);
  const isTheirs = answers === undefined ? kind?.atProvider?.(item) : theirs.has(item.call_id ?? null);
  const read = (...items: Item[]): SentItem => ({
    ...omitUndefined({ id }),
    ...sent(...items),
    ...(isForAll(item) ? {} : { onlyFor: { type, place } }),
  });
  if (kind?.tool === undefined || isTheirs === true || (answers !== undefined && item.call_id === null)) {
    const opaque = { provider: OPENAI, data: { item } };
    return read({ ...omitUndefined({ id }), type: 'provider_item', kind: type, opaque });
  }
  if (callId === undefined) throw missing(`${place}.call_id`);
  const named = { ...omitUndefined({ id }), callId };
  if (answers !== undefined) {
    const output = Object.fromEntries(Object.entries(item).filter(([name]) => !ANSWER_HEAD.includes(name)));
    return read({ ...named, type: 'tool_result', output, isError: item.status === 'failed' });
  }
  const opaque = opaqueOf({ as: type, ...omitNull({ caller: item.caller, id }) });
  const made = { ...named, type: 'tool_call' as const, name: kind.tool, arguments: kind.read(item) };
  return { ...read({ ...made, ...opaque }), tool: { kind: 'own', name: kind.tool } };
}

/** The status is part of the output of a patch. */
const ANSWER_HEAD: readonly string[] = CALL_HEAD.filter(name => name !== 'status');

function badMember(item: JsonObject, name: string, form: MemberForm, place: string): ResponsesError {
  const param = `${place}.${name}`;
  if (item[name] == null) return missing(param);
  return invalid(param, 'invalid_value', `'${param}' is not valid: expected ${FORMS[form]}.`);
}

const FORMS = {
  text: NOT_EMPTY.replace('expected ', ''),
  object: 'an object',
  list: 'a list',
  any: 'a value',
};

/** Only tools whose calls come back to the client: others would run at the provider, at this server's expense. */
function assertDeclarations(tools: JsonValue | undefined, place: string): void {
  for (const [at, tool] of readDeclarations(tools, place).entries())
    if (clientTools(tool).length === 0 && tool.type !== 'namespace') {
      const message = `Tools of type ${JSON.stringify(tool.type)} can only be declared in 'tools'.`;
      throw invalid(`${place}[${at}].type`, 'unsupported_tool', message);
    } else if (clientTools(tool).some(({ tool: declared }) => isAsync(declared))) {
      const param = `${place}[${at}].async`;
      throw invalid(param, 'unsupported_parameter', `'${param}' is only supported in 'tools'.`);
    }
}

/** As the adapter of OpenAI's API keeps it. */
function memberOf({ name, namespace }: { name: string; namespace?: string | null | undefined }) {
  return namespace == null ? undefined : { namespace, called: name };
}

function opaqueOf(data: JsonObject): { opaque?: Opaque } {
  return Object.keys(data).length === 0 ? {} : { opaque: { provider: OPENAI, data } };
}

/** The output of an `async` call is another item, maybe much later. */
function receiptFor(call: { call_id: string; async?: boolean | null | undefined }): Item[] {
  const { call_id: callId, async } = call;
  return async === true ? [{ type: 'tool_result', callId, ...receiptOf() }] : [];
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
      assertContent(message, place);
      return { ...named, ...sent(message) };
    }
    case 'reasoning': {
      const opened = openReasoning(item.encrypted_content);
      return own(...(opened?.items ?? [{ ...named, type: 'reasoning', text: item.summary || item.content }]));
    }
    case 'function_call': {
      const { call_id: callId, name, arguments: written, caller } = item;
      const member = memberOf(item);
      const opaque = opaqueOf({ ...omitNull({ caller }), ...member });
      const made = { ...named, type: 'tool_call' as const, callId, name, arguments: written, ...opaque };
      const call = own(made, ...receiptFor(item));
      return member === undefined
        ? call
        : { ...call, tool: { kind: 'function', name, namespace: member.namespace } };
    }
    case 'custom_tool_call': {
      const { call_id: callId, name, input, caller } = item;
      const member = memberOf(item);
      const call = customCall({ callId, name, input, more: { ...omitNull({ caller }), ...member } });
      if (member !== undefined) call.tool = { kind: 'custom', name, namespace: member.namespace };
      const made = call.items.map(each => ({ ...named, ...each }));
      return { ...call, ...named, items: [...made, ...receiptFor(item)] };
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
