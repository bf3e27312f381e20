import type { MessageItem, ReasoningItem, ToolCallItem } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { textOf } from '../../protocol/message.ts';
import { jsonIn, nonEmpty } from '../turn/json-access.ts';
import { chunkText } from './content-chunks.ts';
import type { ChatDialect } from './dialect.ts';
import { keptBy } from './opaque-data.ts';
import { isReplayable } from './reasoning-details.ts';
import type { WireCallIds } from './wire-call-ids.ts';

/** An item of an assistant turn. The API has one message for all items of a turn. */
export type AssistantItem = ReasoningItem | MessageItem | ToolCallItem;

/** Builds the message of these items; `undefined` if they have no content, call or refusal. */
export function assistantMessage(
  items: readonly AssistantItem[],
  dialect: ChatDialect,
  ids: WireCallIds,
): JsonObject | undefined {
  const calls = items.filter(item => item.type === 'tool_call');
  const refusal = items
    .map(item => (item.type === 'message' ? (keptBy(dialect.provider, item.opaque).refusal ?? '') : ''))
    .join('');
  const content = contentOf(items, calls.length > 0, dialect);
  if (content === null && calls.length === 0 && refusal === '') return undefined;
  return {
    ...extraOf(items, dialect),
    role: 'assistant',
    content,
    ...omitUndefined({ refusal: refusal || undefined }),
    ...reasoningOf(items, calls, dialect, ids),
    ...(calls.length === 0 ? {} : { tool_calls: calls.map(call => callInput(call, dialect, ids)) }),
  };
}

function extraOf(items: readonly AssistantItem[], { provider }: ChatDialect): JsonObject {
  const extras = items.map(item =>
    item.type === 'message' ? keptBy(provider, item.opaque).extra : undefined,
  );
  return extras.findLast(extra => extra !== undefined) ?? {};
}

/** Returns `null` if there is no content. Thinking alone is not content, unless the message has calls. */
function contentOf(
  items: readonly AssistantItem[],
  hasCalls: boolean,
  { provider, reasoning }: ChatDialect,
): JsonValue {
  const texts = items.map(textOf).filter(text => text !== '');
  const plain = texts.length === 0 ? null : texts.join('\n\n');
  if (reasoning !== 'content') return plain;
  const chunks = items.flatMap(item => chunksOf(item, provider));
  if (chunks.every(chunk => chunk.type === 'text')) return plain;
  return hasCalls || chunks.some(chunk => chunk.type !== 'thinking') ? chunks : null;
}

/** Returns the original chunks, unless their text was edited since. */
function chunksOf(item: AssistantItem, provider: string): JsonObject[] {
  if (item.type === 'tool_call') return [];
  const { chunk, chunks } = keptBy(provider, item.opaque);
  if (item.type === 'reasoning') return chunk ? [chunk] : [];
  const text = textOf(item);
  if (chunks && chunks.map(chunkText).join('') === text) return chunks;
  return text === '' ? [] : [{ type: 'text', text }];
}

function reasoningOf(
  items: readonly AssistantItem[],
  calls: readonly ToolCallItem[],
  dialect: ChatDialect,
  ids: WireCallIds,
): JsonObject {
  const { provider, reasoning: form } = dialect;
  const reasoning = items.filter(item => item.type === 'reasoning');
  if (form === 'details') {
    const details = reasoning
      .flatMap(item => keptBy(provider, item.opaque).details ?? [])
      .filter(isReplayable);
    const known = wireIds(calls, provider, ids);
    const input = details.map(detail => withKnownId(detail, known));
    return input.length === 0 ? {} : { reasoning_details: input };
  }
  if ((form !== 'member' && form !== 'required') || calls.length === 0) return {};
  const members: JsonObject = form === 'required' ? { reasoning_content: '' } : {};
  for (const item of reasoning) {
    const { member } = keptBy(provider, item.opaque);
    const name = form === 'required' && member !== undefined ? 'reasoning_content' : member;
    if (name !== undefined) members[name] = `${members[name] ?? ''}${item.text}`;
  }
  return members;
}

/**
 * A detail refers to its call by the call's original id, which this replaces with the id used in the request.
 */
function withKnownId(detail: JsonObject, known: ReadonlyMap<string, string>): JsonObject {
  const id = known.get(nonEmpty(detail.id) ?? '');
  return id === undefined ? detail : { ...detail, id };
}

function wireIds(calls: readonly ToolCallItem[], provider: string, ids: WireCallIds): Map<string, string> {
  const known = new Map<string, string>();
  for (const call of calls) {
    const { wireId } = keptBy(provider, call.opaque);
    if (wireId !== undefined) known.set(wireId, ids.of(call.callId));
  }
  return known;
}

function callInput(call: ToolCallItem, { provider }: ChatDialect, ids: WireCallIds): JsonObject {
  return {
    ...keptBy(provider, call.opaque).extra,
    id: ids.of(call.callId),
    type: 'function',
    function: { name: call.name, arguments: argumentsInput(call.arguments) },
  };
}

/** Many servers parse the arguments of earlier calls and refuse anything but an object. */
function argumentsInput(text: string): string {
  if (text.trim() === '') return '{}';
  return isJsonObject(jsonIn(text)) ? text : JSON.stringify({ invalid_arguments: text });
}
