import type { Item, Part } from '../../protocol/item.ts';
import { isJsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { textOf } from '../../protocol/message.ts';
import type { InputMessage, Message, RunInput } from './wire.ts';

/** The id prefix of items that the front end adds and that are not messages of the thread. */
const CONTEXT_ID = 'agui-context-';

export function itemsOf(messages: readonly InputMessage[]): Item[] {
  return messages.flatMap((message): Item[] => {
    const { id } = message;
    switch (message.role) {
      case 'user':
      case 'system':
      case 'developer':
        return [{ type: 'message', id, role: message.role, content: partsOf(message.content) }];
      case 'assistant': {
        const calls = (message.toolCalls ?? []).map(
          (call): Item => ({
            type: 'tool_call',
            callId: call.id,
            name: call.function.name,
            arguments: call.function.arguments,
          }),
        );
        if (message.content === undefined || message.content === '') return calls;
        return [{ type: 'message', id, role: 'assistant', content: partsOf(message.content) }, ...calls];
      }
      case 'tool': {
        const isError = message.error !== undefined;
        return [{ type: 'tool_result', id, callId: message.toolCallId, output: outputOf(message), isError }];
      }
      default:
        return [];
    }
  });
}

export function contextItems({ context, runId }: RunInput): Item[] {
  if (context.length === 0) return [];
  const text = context.map(({ description, value }) => `${description}: ${value}`).join('\n');
  const content = [{ type: 'text' as const, text: `Context of the application:\n${text}` }];
  return [{ type: 'message', id: `${CONTEXT_ID}${runId}`, role: 'developer', content }];
}

export function outputOf({ content, error }: Extract<InputMessage, { role: 'tool' }>): JsonValue {
  if (error !== undefined) return error;
  if (typeof content !== 'string') return { type: 'content', parts: partsOf(content) };
  try {
    const value = JSON.parse(content) as JsonValue;
    return typeof value === 'object' && value !== null ? value : content;
  } catch {
    return content;
  }
}

export function messagesOf(items: readonly Item[]): Message[] {
  const messages: Message[] = [];
  for (const item of items) {
    const id = item.id ?? '';
    if (item.type === 'message' && !id.startsWith(CONTEXT_ID))
      messages.push(
        item.role === 'user'
          ? { id, role: 'user', content: contentOf(item.content) }
          : { id, role: item.role, content: textOf(item) },
      );
    if (item.type === 'tool_call') {
      const { callId, name, arguments: written } = item;
      const call = { id: callId, type: 'function' as const, function: { name, arguments: written } };
      const last = messages.at(-1);
      if (last?.role === 'assistant') last.toolCalls = [...(last.toolCalls ?? []), call];
      else messages.push({ id: `${callId}-message`, role: 'assistant', toolCalls: [call] });
    }
    if (item.type === 'tool_result')
      messages.push({ id, role: 'tool', toolCallId: item.callId, content: textOfOutput(item.output) });
  }
  return messages;
}

export function textOfOutput(output: JsonValue): string {
  return typeof output === 'string' ? output : JSON.stringify(output);
}

type Content = Extract<Message, { role: 'user' }>['content'];
type ContentPart = Exclude<Content, string>[number];

/** Converts content parts to AG-UI content. Parts that are all text become one string. */
function contentOf(parts: readonly Part[]): Content {
  if (parts.every(part => part.type === 'text')) return parts.map(({ text }) => text).join('');
  return parts.map((part): ContentPart => {
    if (part.type === 'text') return { type: 'text', text: part.text };
    const mimeType = part.type === 'file' ? part.mediaType : undefined;
    const data = /^data:([^;,]+);base64,(.*)$/s.exec(part.url);
    const source = data
      ? { type: 'data' as const, mimeType: data[1] ?? '', value: data[2] ?? '' }
      : { type: 'url' as const, value: part.url, ...omitUndefined({ mimeType }) };
    return { type: part.type === 'image' ? 'image' : 'document', source };
  });
}

function partsOf(content: JsonValue): Part[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  return (Array.isArray(content) ? content : []).flatMap(part => (isJsonObject(part) ? partOf(part) : []));
}

function partOf({ type, text, source }: { [key: string]: JsonValue }): Part[] {
  if (type === 'text' && typeof text === 'string') return [{ type: 'text', text }];
  if (!isJsonObject(source ?? null)) return [];
  const { type: kind, value, mimeType } = source as { [key: string]: JsonValue };
  if (typeof value !== 'string' || (kind !== 'url' && kind !== 'data')) return [];
  const mediaType = typeof mimeType === 'string' ? mimeType : undefined;
  const url = kind === 'url' ? value : `data:${mediaType ?? 'application/octet-stream'};base64,${value}`;
  if (type === 'image') return [{ type: 'image', url }];
  return [{ type: 'file', url, ...omitUndefined({ mediaType }) }];
}
