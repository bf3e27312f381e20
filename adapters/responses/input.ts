import type { Item, MessageItem, Part, ToolCallItem, ToolResultItem } from '../../protocol/item.ts';
import type { JsonObject, JsonValue } from '../../protocol/json.ts';
import { WireCallIds } from '../chat/wire-call-ids.ts';
import { GrowingInput } from '../turn/growing-input.ts';
import { jsonIn, nonEmpty, objectOf, objectsOf, textIn } from '../turn/json-access.ts';
import { withCallsTogether } from './calls-together.ts';
import { withPairedResults } from './pair-results.ts';
import { storedCallMetadata } from './stored-call-metadata.ts';
import { type Kept, keptBy, keyOf } from './wire-item.ts';

export type InputOptions = {
  /** Whose opaque data is replayed. */
  provider: string;
  /** Whether the provider keeps items, so that they are known by their ids. */
  stored: boolean;
  /** What of its reasoning the provider takes back. Default `encrypted`. */
  reasoning?: 'encrypted' | 'content';
  /** Whether results must follow calls at once, with nothing said between the calls. Default false. */
  callsTogether?: boolean;
  /** Where in the transcript the input begins. Default 0. */
  from?: number;
};

/**
 * The transcript as input items, in order. Control items and other providers' opaque data are left out.
 * Reasoning goes along only encrypted and right before the item it belongs to; what it belongs to
 * carries its id only then, because the provider refuses one without the other.
 */
export function inputOf(transcript: readonly Item[], options: InputOptions): JsonObject[] {
  const sent = withPairedResults(transcript, options.from).filter(isSent);
  const ids = new WireCallIds(transcript, CALL_IDS);
  const reasoning = replayableReasoning(sent, options);
  const calls = storedCallMetadata(transcript, reasoning, options);
  const input: JsonObject[] = [];
  const ordered = options.callsTogether ? withCallsTogether(sent) : sent;
  for (const item of ordered) input.push(...inputItems(item, options, { calls, reasoning, ids }));
  return input;
}

/** The same for a transcript from its beginning, made anew only where it has gone on. */
export function growingInput(options: InputOptions): (transcript: readonly Item[]) => JsonObject[] {
  const growing = new GrowingInput({
    make: items => ({ opening: [], input: inputOf(items, options) }),
    namesOf(item) {
      if (item.type === 'tool_result') return CALL_IDS.fits(item.callId) ? [item.callId] : undefined;
      const kept = 'opaque' in item ? keptBy(options.provider, item.opaque) : undefined;
      const names = kept?.after === undefined ? [] : [kept.after];
      if (item.type === 'reasoning' && kept?.item) names.push(keyOf(kept.item));
      if (item.type !== 'tool_call') return names;
      return CALL_IDS.fits(item.callId) ? [item.callId, ...names] : undefined;
    },
  });
  return transcript => growing.of(transcript).input;
}

/** What is known of a transcript: what calls kept, reasoning that goes along, the ids calls have in the request. */
type Known = { calls: ReadonlyMap<string, Kept>; reasoning: ReadonlySet<string>; ids: WireCallIds };

function inputItems(item: SentItem, options: InputOptions, { calls, reasoning, ids }: Known): JsonObject[] {
  const { stored } = options;
  const kept = 'opaque' in item ? keptBy(options.provider, item.opaque) : undefined;
  const whole = kept?.after === undefined || reasoning.has(kept.after);
  switch (item.type) {
    case 'message':
      return messageInput(item, kept, stored && whole);
    case 'reasoning':
      return kept?.item && reasoning.has(keyOf(kept.item)) ? [reasoningInput(kept.item, options)] : [];
    case 'tool_call':
      return [callInput(item, ids, stored, calls.get(item.callId))];
    case 'tool_result':
      return [resultInput(item, ids, calls.get(item.callId))];
    case 'provider_item':
      return kept?.item && whole ? [kept.item] : [];
  }
}

/** Longer ids are refused. */
export const CALL_IDS = {
  fits: (id: string): boolean => id.length <= 64,
  make: (digest: string): string => `call_${digest.slice(0, 32)}`,
};

type SentItem = Exclude<Item, { type: 'approval_request' | 'approval_response' | 'tool_list' }>;

function isSent(item: Item): item is SentItem {
  return (
    item.type === 'message' ||
    item.type === 'reasoning' ||
    item.type === 'tool_call' ||
    item.type === 'tool_result' ||
    item.type === 'provider_item'
  );
}

/** Where the transcript goes on behind the last item the model made; `undefined` when it has made none. */
export function endOfLastTurn(transcript: readonly Item[]): number | undefined {
  const last = transcript.findLastIndex(
    item =>
      item.type === 'reasoning' ||
      item.type === 'tool_call' ||
      item.type === 'provider_item' ||
      (item.type === 'message' && item.role === 'assistant'),
  );
  return last === -1 ? undefined : last + 1;
}

/** The keys of the reasoning items that the provider can read again and that stand right before what they belong to. */
function replayableReasoning(items: readonly SentItem[], { provider, reasoning }: InputOptions): Set<string> {
  const keys = new Set<string>();
  let follower = '';
  for (const item of items.toReversed()) {
    const kept = 'opaque' in item ? keptBy(provider, item.opaque) : undefined;
    if (item.type !== 'reasoning') {
      follower = wireKeyOf(item, kept);
      continue;
    }
    const source = kept?.item;
    const legal = source !== undefined && isReadable(source, reasoning) && kept?.before === follower;
    if (legal && follower !== '') {
      follower = keyOf(source);
      keys.add(follower);
    } else follower = '';
  }
  return keys;
}

function isReadable(reasoning: JsonObject, form: InputOptions['reasoning']): boolean {
  return form === 'content'
    ? objectsOf(reasoning.content).length > 0
    : nonEmpty(reasoning.encrypted_content) !== undefined;
}

/** What `keyOf` gave for the output item that this item came from; empty if it did not come from one. */
function wireKeyOf(item: SentItem, kept: Kept | undefined): string {
  if (!kept) return '';
  if (kept.item) return keyOf(kept.item);
  if (kept.id !== undefined) return kept.id;
  return item.type === 'tool_call' ? item.callId : item.type;
}

function messageInput(item: MessageItem, kept: Kept | undefined, withId: boolean): JsonObject[] {
  if (item.role !== 'assistant') {
    const [first, ...more] = item.content;
    if (!first) return [];
    const plain = first.type === 'text' && more.length === 0;
    return [{ role: item.role, content: plain ? first.text : item.content.map(inputPart) }];
  }
  const id = withId ? kept?.id : undefined;
  const content: JsonObject[] = item.content.flatMap(part =>
    part.type === 'text' && part.text !== '' ? [outputPart(part, id !== undefined)] : [],
  );
  if (kept?.refusal !== undefined) content.push({ type: 'refusal', refusal: kept.refusal });
  if (content.length === 0) return [];
  const phase: JsonObject = kept?.phase === undefined ? {} : { phase: kept.phase };
  return id === undefined
    ? [{ role: 'assistant', content, ...phase }]
    : [{ type: 'message', id, role: 'assistant', status: 'completed', content, ...phase }];
}

/** A message sent by its id is checked as an output item, which must have annotations. */
function outputPart(part: Extract<Part, { type: 'text' }>, asOutputItem: boolean): JsonObject {
  const annotations = part.annotations ?? (asOutputItem ? [] : undefined);
  return { type: 'output_text', text: part.text, ...(annotations ? { annotations } : {}) };
}

function inputPart(part: Part): JsonObject {
  switch (part.type) {
    case 'text':
      return { type: 'input_text', text: part.text };
    case 'image':
      return { type: 'input_image', image_url: part.url, detail: 'auto' };
    case 'file':
      return part.url.startsWith('data:')
        ? { type: 'input_file', filename: part.name ?? 'file', file_data: part.url }
        : { type: 'input_file', file_url: part.url };
  }
}

function reasoningInput(source: JsonObject, { stored, reasoning }: InputOptions): JsonObject {
  if (reasoning === 'content') return source;
  const id: JsonObject = stored && source.id !== undefined ? { id: source.id } : {};
  return {
    type: 'reasoning',
    ...id,
    summary: source.summary ?? [],
    encrypted_content: source.encrypted_content ?? null,
  };
}

function callInput(
  item: ToolCallItem,
  ids: WireCallIds,
  stored: boolean,
  { id, namespace, caller, custom }: Kept = {},
): JsonObject {
  const call: JsonObject = {
    ...(stored && id !== undefined ? { id } : {}),
    call_id: ids.of(item.callId),
    name: item.name,
    ...(namespace === undefined ? {} : { namespace }),
    ...(caller === undefined ? {} : { caller }),
  };
  return custom
    ? { type: 'custom_tool_call', ...call, input: textIn(objectOf(jsonIn(item.arguments)).input) }
    : { type: 'function_call', ...call, arguments: item.arguments || '{}' };
}

function resultInput(item: ToolResultItem, ids: WireCallIds, { custom, caller }: Kept = {}): JsonObject {
  const said = item.shown ?? asText(item.output);
  return {
    type: custom ? 'custom_tool_call_output' : 'function_call_output',
    call_id: ids.of(item.callId),
    ...(caller === undefined ? {} : { caller }),
    output: item.isError ? `Error: ${said}` : said,
  };
}

function asText(output: JsonValue): string {
  return typeof output === 'string' ? output : JSON.stringify(output);
}
