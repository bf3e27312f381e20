import type { Item, MessageItem, Part } from '../../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../../protocol/json.ts';
import { invalid } from '../api-error.ts';
import { describeBuiltinCall } from '../wire/builtin-calls.ts';
import { openSeal } from '../wire/opaque-seal.ts';
import type { ExposedTool } from '../wire/response-spec.ts';
import { wirePart } from '../wire/wire-input.ts';
import type { WireItem } from './request-body.ts';

/** The provider name for data that only the Responses API has. */
const PROVIDER = 'openai-responses';

/** What the model reads as the result of a call whose output was neither sent nor stored. */
const OUTPUT_NOT_KEPT = 'The output of this tool call is not available.';

/** OpenAI's words for the resolution of an image. */
const DETAILS: readonly JsonValue[] = ['low', 'high', 'auto', 'original'];

/** Reads one input item at the path `place`. Throws a `ResponsesError` with the path of an invalid field. */
export class ItemReader {
  readonly wire: WireItem;
  readonly place: string;
  readonly #scope: string;

  /** `scope` distinguishes the request from others in its chain. It is part of the ids of calls that have none. */
  constructor(wire: WireItem, place: string, scope = '') {
    this.wire = wire;
    this.place = place;
    this.#scope = scope;
  }

  /** The transcript items of the input item; the type of an item whose content is elsewhere. */
  read(): Item[] | 'item_reference' | 'compaction' {
    const { wire } = this;
    switch (typeOf(wire)) {
      case 'message':
        return [this.#message()];
      case 'reasoning':
        return this.#reasoning();
      case 'function_call':
        return [
          {
            ...this.#id(),
            type: 'tool_call',
            callId: this.text('call_id'),
            name: this.text('name'),
            arguments: this.text('arguments', ''),
          },
        ];
      case 'custom_tool_call':
        return [
          {
            ...this.#id(),
            type: 'tool_call',
            callId: this.text('call_id'),
            name: this.text('name'),
            arguments: JSON.stringify({ input: this.text('input', '') }),
            opaque: { provider: PROVIDER, data: { custom: true } },
          },
        ];
      case 'custom_tool_call_output':
      case 'function_call_output':
        return [
          {
            ...this.#id(),
            type: 'tool_result',
            callId: this.text('call_id'),
            output: this.output(),
            isError: wire.is_error === true,
          },
        ];
      case 'mcp_call':
        return this.#mcpCall();
      case 'mcp_list_tools': {
        const { tools, error } = wire;
        return [
          {
            ...this.#id(),
            type: 'tool_list',
            label: this.text('server_label'),
            tools: Array.isArray(tools) ? tools : [],
            ...omitUndefined({ error: error == null ? undefined : asError(error) }),
          },
        ];
      }
      case 'mcp_approval_request':
        return [
          {
            ...this.#id(),
            type: 'approval_request',
            callId: this.text('id', this.#ownId('mcpr')),
            name: this.text('name'),
            arguments: this.text('arguments', '{}'),
            label: this.text('server_label', ''),
          },
        ];
      case 'mcp_approval_response': {
        const { approve, reason } = wire;
        if (typeof approve !== 'boolean') throw this.#wrong('approve', 'expected true or false');
        return [
          {
            ...this.#id(),
            type: 'approval_response',
            callId: this.text('approval_request_id'),
            approve,
            ...omitUndefined({ reason: typeof reason === 'string' ? reason : undefined }),
          },
        ];
      }
      case 'item_reference':
        return 'item_reference';
      case 'compaction':
        return 'compaction';
      case 'web_search_call':
      case 'file_search_call':
      case 'code_interpreter_call': {
        const text = describeBuiltinCall(wire);
        return [{ ...this.#id(), type: 'message', role: 'assistant', content: [{ type: 'text', text }] }];
      }
      default:
        throw invalid(
          `${this.place}.type`,
          'unsupported_input_item',
          `Input items of type ${JSON.stringify(wire.type)} are not supported.`,
        );
    }
  }

  /** A string field. Throws if it is missing and has no default, or is empty. */
  text(field: string, otherwise?: string): string {
    const value = this.wire[field] ?? otherwise;
    if (typeof value === 'string' && (value !== '' || otherwise !== undefined)) return value;
    throw value === undefined
      ? invalid(
          `${this.place}.${field}`,
          'missing_required_parameter',
          `Missing required parameter: '${this.place}.${field}'.`,
        )
      : this.#wrong(field, 'expected a non-empty string');
  }

  /** The `output` field; a list of text parts is joined to one text, other parts stay in the API's format. */
  output(): JsonValue {
    const { output } = this.wire;
    if (typeof output === 'string') return output;
    const parts = this.#parts(output, 'output');
    if (parts.every(part => part.type === 'text')) return parts.map(({ text }) => text).join('');
    return parts.map(part => wirePart(part, { isOutput: false }));
  }

  #message(): MessageItem {
    const { wire } = this;
    const role = this.text('role');
    if (!isRole(role)) throw this.#wrong('role', 'expected user, assistant, system or developer');
    const { content, phase } = wire;
    const kept = role === 'assistant' && typeof phase === 'string' ? { phase } : undefined;
    const parts =
      typeof content === 'string'
        ? [{ type: 'text' as const, text: content }]
        : this.#parts(content, 'content');
    const isEmpty = parts.every(part => part.type === 'text' && part.text === '');
    if (isEmpty && role !== 'assistant')
      throw invalid(`${this.place}.content`, 'message_content_empty', `'${this.place}.content' is empty.`);
    return {
      ...this.#id(),
      type: 'message',
      role,
      content: parts,
      ...omitUndefined({ opaque: kept && { provider: PROVIDER, data: kept } }),
    };
  }

  #parts(content: JsonValue | undefined, field: string): Part[] {
    if (!Array.isArray(content)) throw this.#wrong(field, 'expected a string or a list of parts');
    return content.map((part, at) => {
      const place = `${field}[${at}]`;
      if (!isJsonObject(part)) throw this.#wrong(place, 'expected an object');
      return this.#part(part, place);
    });
  }

  #part(part: JsonObject, place: string): Part {
    switch (part.type) {
      case 'input_text':
      case 'output_text':
      case 'text': {
        if (typeof part.text !== 'string') throw this.#wrong(`${place}.text`, 'expected a string');
        const annotations = Array.isArray(part.annotations) ? part.annotations : [];
        return {
          type: 'text',
          text: part.text,
          ...omitUndefined({ annotations: annotations.length > 0 ? annotations : undefined }),
        };
      }
      case 'refusal':
        return { type: 'text', text: typeof part.refusal === 'string' ? part.refusal : '' };
      case 'input_image':
        return {
          type: 'image',
          url: this.#url(part.image_url, `${place}.image_url`),
          ...omitUndefined({ detail: this.#detail(part.detail, `${place}.detail`) }),
        };
      case 'input_file':
        return {
          type: 'file',
          url: this.#url(part.file_url ?? part.file_data, `${place}.file_data`),
          ...omitUndefined({ name: typeof part.filename === 'string' ? part.filename : undefined }),
        };
      default:
        throw invalid(
          `${this.place}.${place}.type`,
          'unsupported_content',
          `Content of type ${JSON.stringify(part.type)} is not supported.`,
        );
    }
  }

  #detail(value: JsonValue | undefined, field: string): string | undefined {
    if (value == null) return undefined;
    if (typeof value === 'string' && DETAILS.includes(value)) return value;
    throw this.#wrong(field, `expected ${DETAILS.join(', ')}`);
  }

  #url(value: JsonValue | undefined, field: string): string {
    if (typeof value === 'string' && /^(https?:|data:)/i.test(value)) return value;
    throw this.#wrong(field, 'expected an http, https or data URL; file ids are not supported');
  }

  #reasoning(): Item[] {
    const { encrypted_content: sealed, summary, content } = this.wire;
    const opened = openSeal(sealed);
    if (opened !== undefined) return opened;
    const texts = [summary, content].map(parts =>
      Array.isArray(parts)
        ? parts.map(part => (isJsonObject(part) && typeof part.text === 'string' ? part.text : '')).join('')
        : '',
    );
    return [{ ...this.#id(), type: 'reasoning', text: texts[0] || texts[1] || '' }];
  }

  /** A call that the gateway ran becomes a call and its result. */
  #mcpCall(): Item[] {
    const { error, output } = this.wire;
    const callId = this.text('id', this.#ownId('mcp'));
    const failed = error != null;
    return [
      {
        ...this.#id(),
        type: 'tool_call',
        callId,
        name: this.text('name'),
        arguments: this.text('arguments', '{}'),
      },
      {
        type: 'tool_result',
        callId,
        output: failed ? `Tool call failed: ${asError(error)}` : (output ?? OUTPUT_NOT_KEPT),
        isError: failed,
      },
    ];
  }

  /** The tool of a call that the gateway ran or of a custom tool call; `undefined` for other items. */
  tool(): ExposedTool | undefined {
    const { type } = this.wire;
    if (type === 'custom_tool_call') return { kind: 'custom', name: this.text('name') };
    if (type !== 'mcp_call') return undefined;
    return { label: this.text('server_label', ''), name: this.text('name') };
  }

  /** The call id of an item that was sent without an id. */
  #ownId(prefix: string): string {
    return `${prefix}_${this.#scope}${this.place.replaceAll(/\W+/g, '')}`;
  }

  #id(): { id?: string } {
    const { id } = this.wire;
    return typeof id === 'string' && id !== '' ? { id } : {};
  }

  #wrong(field: string, message: string) {
    const param = `${this.place}.${field}`;
    return invalid(param, 'invalid_value', `'${param}' is not valid: ${message}.`);
  }
}

/** The type of an item; an item with only an id is a reference. */
function typeOf(wire: WireItem): JsonValue {
  return wire.type ?? ('role' in wire ? 'message' : 'item_reference');
}

/** Whether the item is an `item_reference`. */
export function isReference(wire: WireItem): boolean {
  return typeOf(wire) === 'item_reference';
}

function isRole(role: string): role is MessageItem['role'] {
  return role === 'user' || role === 'assistant' || role === 'system' || role === 'developer';
}

function asError(error: JsonValue): string {
  return typeof error === 'string' ? error : JSON.stringify(error);
}
