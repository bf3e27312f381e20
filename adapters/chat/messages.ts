import type {
  Item,
  MessageItem,
  Part,
  ReasoningItem,
  ToolCallItem,
  ToolResultItem,
} from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { textOf } from '../../protocol/message.ts';
import { withBreakpoint } from '../http/prompt-cache.ts';
import { readDataURL, textOfResult } from '../turn/content.ts';
import { GrowingInput } from '../turn/growing-input.ts';
import { jsonIn, nonEmpty, textIn } from '../turn/json-access.ts';
import { resultsByCall, WireCallIds } from '../turn/tool-calls.ts';
import { closesTurn, missingResult } from '../turn/transcript.ts';
import type { ChatDialect } from './dialect.ts';
import { chunkText, isReplayable, keptBy } from './turn.ts';

/** Consecutive assistant items are one message, followed by exactly one result for each of its calls. */
function messagesOf(transcript: readonly Item[], dialect: ChatDialect, model: string): JsonObject[] {
  const ids = new WireCallIds(transcript, dialect.callIds);
  const results = resultsByCall(transcript);
  const positions = new Map<Item, number>(transcript.map((item, at) => [item, at]));
  const messages: JsonObject[] = [];
  let turn: AssistantItem[] = [];

  function endAssistant(): void {
    const message = assistantMessage(turn, dialect, ids);
    const calls = turn.flatMap(item => (item.type === 'tool_call' ? item.callId : []));
    turn = [];
    if (!message) return;
    messages.push(message);
    for (const result of takeResults(calls, results, positions)) messages.push(resultInput(result, ids));
  }

  for (const item of transcript) {
    if (closesTurn(item)) {
      endAssistant();
      if (item.type === 'tool_result') continue;
      const role = item.role === 'user' ? 'user' : roleFor(item.role, dialect, model);
      const content = item.role === 'user' ? userContent(item.content, dialect) : nonEmpty(textOf(item));
      const isMarked = dialect.breakpoints === true && item.role === 'user' && content !== undefined;
      if (content !== undefined)
        messages.push({ role, content: isMarked ? withBreakpoint(content, 'text') : content });
    } else if (item.type === 'reasoning' || item.type === 'tool_call' || item.type === 'message')
      turn.push(item);
  }
  endAssistant();
  return dialect.strictOrder ? inStrictOrder(messages) : messages;
}

export function growingMessages(
  dialect: ChatDialect,
  model: string,
): (transcript: readonly Item[], head: readonly JsonObject[]) => JsonObject[] {
  const { fits = () => true } = dialect.callIds ?? {};
  const growing = new GrowingInput({
    make: items => ({ opening: [], input: messagesOf(items, dialect, model) }),
    namesOf(item) {
      if (item.type !== 'tool_call' && item.type !== 'tool_result') return [];
      return fits(item.callId) ? [item.callId] : undefined;
    },
    joins: (last, next) =>
      dialect.strictOrder === true && (last.role === 'assistant' || needsBridge(last, next)),
  });
  return (transcript, head) => growing.of(transcript, head).input;
}

export function roleFor(role: 'system' | 'developer', { role: map }: ChatDialect, model: string): string {
  return map ? map(role, model) : 'system';
}

/** The results of the calls, one each, in the transcript's order; behind them, those that are missing. */
function takeResults(
  callIds: readonly string[],
  results: ReadonlyMap<string, ToolResultItem[]>,
  positions: ReadonlyMap<Item, number>,
): ToolResultItem[] {
  const at = (result: ToolResultItem) => positions.get(result) ?? Number.POSITIVE_INFINITY;
  return callIds
    .map(callId => results.get(callId)?.shift() ?? missingResult(callId))
    .sort((a, b) => (at(a) === at(b) ? 0 : at(a) - at(b)));
}

function resultInput(result: ToolResultItem, ids: WireCallIds): JsonObject {
  return { role: 'tool', tool_call_id: ids.of(result.callId), content: textOfResult(result) };
}

function inStrictOrder(messages: readonly JsonObject[]): JsonObject[] {
  const ordered = messages.flatMap((message, at) => {
    return needsBridge(messages[at - 1], message)
      ? [{ role: 'assistant', content: 'OK' }, message]
      : [message];
  });
  const last = ordered.at(-1);
  if (last?.role !== 'assistant' || last.tool_calls !== undefined) return ordered;
  return [...ordered.slice(0, -1), { ...last, prefix: true }];
}

/** A result may only be followed by another result or by an assistant message. */
function needsBridge(last: JsonObject | undefined, next: JsonObject): boolean {
  return last?.role === 'tool' && next.role !== 'tool' && next.role !== 'assistant';
}

type AssistantItem = ReasoningItem | MessageItem | ToolCallItem;

function assistantMessage(
  items: readonly AssistantItem[],
  dialect: ChatDialect,
  ids: WireCallIds,
): JsonObject | undefined {
  const calls = items.filter(item => item.type === 'tool_call');
  const kept = items
    .filter(item => item.type === 'message')
    .map(item => keptBy(dialect.provider, item.opaque));
  const refusal = kept.map(message => message.refusal ?? '').join('');
  const content = contentOf(items, calls.length > 0, dialect);
  if (content === null && calls.length === 0 && refusal === '') return undefined;
  return {
    ...kept.findLast(message => message.extra !== undefined)?.extra,
    role: 'assistant',
    content,
    ...omitUndefined({ refusal: refusal || undefined }),
    ...reasoningOf(items, calls, dialect, ids),
    ...(calls.length === 0 ? {} : { tool_calls: calls.map(call => callInput(call, dialect, ids)) }),
  };
}

/** Returns `null` if there is no content. Thinking alone is not content, unless the message has calls. */
function contentOf(
  items: readonly AssistantItem[],
  hasCalls: boolean,
  { provider, reasoning }: ChatDialect,
): JsonValue {
  const plain = plainText(items, provider) || null;
  if (reasoning !== 'content') return plain;
  const chunks = items.flatMap(item => chunksOf(item, provider));
  if (chunks.every(chunk => chunk.type === 'text')) return plain;
  return hasCalls || chunks.some(chunk => chunk.type !== 'thinking') ? chunks : null;
}

/** A text that reasoning interrupted goes back as one. */
function plainText(items: readonly AssistantItem[], provider: string): string {
  let plain = '';
  for (const item of items) {
    const text = textOf(item);
    if (text === '') continue;
    const isMore = plain === '' || (item.type === 'message' && keptBy(provider, item.opaque).more === true);
    plain += isMore ? text : `\n\n${text}`;
  }
  return plain;
}

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
    // A detail refers to its call by the call's original id, and the request has another one.
    const known = new Map(
      calls.map(call => [keptBy(provider, call.opaque).wireId ?? '', ids.of(call.callId)]),
    );
    const details = reasoning.flatMap(item => keptBy(provider, item.opaque).details ?? []);
    const input = details.filter(isReplayable).map(detail => {
      const id = textIn(detail.id) === '' ? undefined : known.get(textIn(detail.id));
      return id === undefined ? detail : { ...detail, id };
    });
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

type FilePart = Extract<Part, { type: 'file' }>;

/** A single text becomes a string, anything else parts, nothing `undefined`. */
function userContent(parts: readonly Part[], dialect: ChatDialect): JsonValue | undefined {
  const [first, ...more] = parts;
  if (!first) return undefined;
  return first.type === 'text' && more.length === 0
    ? first.text
    : parts.map(part => inputPart(part, dialect));
}

function inputPart(part: Part, dialect: ChatDialect): JsonObject {
  switch (part.type) {
    case 'text':
      return { type: 'text', text: part.text };
    case 'image':
      return imagePart(part.url);
    case 'file':
      return isImage(part)
        ? imagePart(part.url)
        : (audioPart(part) ?? (dialect.filePart ?? openaiFile)(part));
  }
}

function imagePart(url: string): JsonObject {
  return { type: 'image_url', image_url: { url } };
}

function isImage({ url, mediaType }: FilePart): boolean {
  return /^image\//.test(mediaType ?? '') || url.startsWith('data:image/');
}

/** Audio is only sent inline, as WAV or MP3. */
function audioPart({ url }: FilePart): JsonObject | undefined {
  const content = readDataURL(url);
  const kind = /^audio\/(?:x-)?(wav|mp3|mpeg)$/.exec(content?.mediaType ?? '')?.[1];
  if (content === undefined || kind === undefined) return undefined;
  return {
    type: 'input_audio',
    input_audio: { data: content.base64, format: kind === 'wav' ? 'wav' : 'mp3' },
  };
}

function openaiFile({ url, name }: FilePart): JsonObject {
  return { type: 'file', file: { filename: name ?? 'file', file_data: url } };
}
