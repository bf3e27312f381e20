import type {
  Item,
  MessageItem,
  Opaque,
  ReasoningItem,
  ToolCallItem,
  ToolResultItem,
} from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, omitUndefined } from '../../protocol/json.ts';
import { withBreakpoint } from '../http/prompt-cache.ts';
import { GrowingInput } from '../turn/growing-input.ts';
import { nonEmpty, objectOf, objectsOf } from '../turn/json-access.ts';
import { WireCallIds } from '../turn/tool-calls.ts';
import { closesTurn, isControl, missingResult } from '../turn/transcript.ts';
import type { ResponsesDialect } from './dialect.ts';
import {
  CALL_KINDS,
  callKindOf,
  type DeclaredName,
  FUNCTION_CALL,
  inputPart,
  isByClient,
  namesDeclaredIn,
  writeAnswer,
} from './item-kinds.ts';

/** How a transcript is converted to input items, of the dialect whose opaque data is sent back. */
export type InputOptions = Pick<
  ResponsesDialect,
  'provider' | 'reasoningReplay' | 'callsTogether' | 'breakpoints'
> & {
  /** Whether the provider stores items, so that they are sent with their ids. */
  stored: boolean;
  /** The transcript position at which the input begins. Default: 0. */
  from?: number;
};

/** Reasoning is sent only in a readable form, right before its item, which has its id only then. */
export function providerInputOf(transcript: readonly Item[], options: InputOptions): JsonObject[] {
  const sent = withPairedResults(transcript, options.from).filter(item => !isControl(item));
  const ids = new WireCallIds(transcript, CALL_IDS);
  const reasoning = replayableReasoning(sent, options);
  const calls = callData(transcript, reasoning, options);
  const input: JsonObject[] = [];
  const ordered = options.callsTogether ? withCallsTogether(sent) : sent;
  for (const item of ordered) {
    const made = inputItems(item, options, { calls, reasoning, ids });
    const kept = item.type === 'message' ? keptFrom(options.provider, item.opaque) : undefined;
    const whole = kept?.more && joined(input.at(-1), made);
    if (whole) input.splice(-1, 1, whole);
    else input.push(...made);
  }
  return input;
}

/** The message with the rest of its content; `undefined` if there is no message before the rest. */
function joined(message: JsonObject | undefined, [rest]: readonly JsonObject[]): JsonObject | undefined {
  if (message?.role !== 'assistant' || rest === undefined) return undefined;
  const needsAnnotations = message.id !== undefined;
  const more = objectsOf(rest.content).map(part =>
    needsAnnotations && part.type === 'output_text' ? { annotations: [], ...part } : part,
  );
  return { ...message, content: [...objectsOf(message.content), ...more] };
}

export function growingInput(options: InputOptions): (transcript: readonly Item[]) => JsonObject[] {
  const growing = new GrowingInput({
    make: items => ({ opening: [], input: providerInputOf(items, options) }),
    namesOf(item) {
      if (item.type === 'tool_result') return CALL_IDS.fits(item.callId) ? [item.callId] : undefined;
      const kept = 'opaque' in item ? keptFrom(options.provider, item.opaque) : undefined;
      const names = kept?.after === undefined ? [] : [kept.after];
      if (item.type === 'reasoning' && kept?.item) names.push(keyOf(kept.item));
      if (item.type !== 'tool_call') return names;
      return CALL_IDS.fits(item.callId) ? [item.callId, ...names] : undefined;
    },
  });
  return transcript => growing.of(transcript).input;
}

/** Provider data of the calls, keys of the reasoning to send, call ids in the request. */
type Known = { calls: ReadonlyMap<string, Kept>; reasoning: ReadonlySet<string>; ids: WireCallIds };

function inputItems(item: SentItem, options: InputOptions, { calls, reasoning, ids }: Known): JsonObject[] {
  const { stored } = options;
  const kept = 'opaque' in item ? keptFrom(options.provider, item.opaque) : undefined;
  const hasReasoning = kept?.after === undefined || reasoning.has(kept.after);
  switch (item.type) {
    case 'message':
      return messageInput(item, stored && hasReasoning ? kept?.id : undefined, kept).map(message =>
        options.breakpoints === true && item.role === 'user'
          ? { ...message, content: withBreakpoint(message.content ?? '', 'input_text') }
          : message,
      );
    case 'reasoning':
      return kept?.item && reasoning.has(keyOf(kept.item)) ? [reasoningInput(kept.item, options)] : [];
    case 'tool_call':
      return [callInput(item, ids, stored, calls.get(item.callId))];
    case 'tool_result':
      return resultInput(item, ids, calls.get(item.callId));
    case 'provider_item':
      return kept?.item && (hasReasoning || stands(item)) ? [kept.item] : [];
  }
}

/** The API refuses longer call ids. */
export const CALL_IDS = {
  fits: (id: string): boolean => id.length <= 64,
  make: (digest: string): string => `call_${digest.slice(0, 32)}`,
};

/** Moves what the model said between its calls before them, so that their results follow directly. */
function withCallsTogether(items: readonly SentItem[]): SentItem[] {
  const ordered: SentItem[] = [];
  let calls: SentItem[] = [];
  for (const item of items) {
    if (item.type === 'tool_call') {
      calls.push(item);
      continue;
    }
    if (closesTurn(item)) {
      ordered.push(...calls);
      calls = [];
    }
    ordered.push(item);
  }
  return [...ordered, ...calls];
}

/** By call id, also of calls before `from`. A call whose reasoning is not sent loses its id and its caller. */
function callData(
  transcript: readonly Item[],
  reasoning: ReadonlySet<string>,
  { provider, from = 0 }: InputOptions,
): Map<string, Kept> {
  const calls = new Map<string, Kept>();
  for (const [at, item] of transcript.entries()) {
    const kept = item.type === 'tool_call' ? keptFrom(provider, item.opaque) : undefined;
    if (item.type !== 'tool_call' || !kept) continue;
    const hasReasoning = at < from || kept.after === undefined || reasoning.has(kept.after);
    const { id: _, caller: __, ...rest } = kept;
    calls.set(item.callId, hasReasoning ? kept : rest);
  }
  return calls;
}

type SentItem = Exclude<Item, { type: 'approval_request' | 'approval_response' | 'tool_list' }>;

/** Whether the item means the same without the reasoning that it followed. */
function stands(item: Item): boolean {
  return item.type === 'provider_item' && (item.kind === 'compaction' || isByClient(item));
}

const DECLARING: readonly string[] = ['additional_tools', 'tool_search_output'];

/** The names of the tools that items of the transcript declare: those that add tools, and the outputs of searches. */
export function namesAddedIn(
  transcript: readonly Item[],
  { provider }: Pick<ResponsesDialect, 'provider'>,
): DeclaredName[] {
  const searches = new Set<string>();
  const names: DeclaredName[] = [];
  for (const item of transcript) {
    if (item.type === 'tool_call' && item.name === CALL_KINDS.tool_search_call?.tool)
      searches.add(item.callId);
    if (item.type === 'provider_item' && DECLARING.includes(item.kind))
      names.push(...namesDeclaredIn(keptFrom(provider, item.opaque)?.item?.tools));
    if (item.type === 'tool_result' && searches.has(item.callId))
      names.push(...namesDeclaredIn(objectOf(item.output).tools));
  }
  return names;
}

/** Returns the position after the last item that the model produced; `undefined` if it has produced none. */
export function endOfLastTurn(transcript: readonly Item[]): number | undefined {
  const last = transcript.findLastIndex(item => !isControl(item) && !closesTurn(item) && !isByClient(item));
  return last === -1 ? undefined : last + 1;
}

/** The keys of readable reasoning items that directly precede the item they belong to. */
function replayableReasoning(
  items: readonly SentItem[],
  { provider, reasoningReplay }: InputOptions,
): Set<string> {
  const keys = new Set<string>();
  let follower = { key: '', ofModel: false };
  for (const item of items.toReversed()) {
    const kept = 'opaque' in item ? keptFrom(provider, item.opaque) : undefined;
    if (item.type !== 'reasoning') {
      follower = { key: wireKeyOf(item, kept), ofModel: !closesTurn(item) };
      continue;
    }
    const source = kept?.item;
    const fits =
      kept?.before === ANY ? follower.ofModel : follower.key !== '' && kept?.before === follower.key;
    if (fits && source !== undefined && isReadable(source, reasoningReplay)) {
      follower = { key: keyOf(source), ofModel: true };
      keys.add(follower.key);
    } else follower = { key: '', ofModel: false };
  }
  return keys;
}

function isReadable(reasoning: JsonObject, form: InputOptions['reasoningReplay']): boolean {
  return form === 'content'
    ? objectsOf(reasoning.content).length > 0
    : nonEmpty(reasoning.encrypted_content) !== undefined;
}

function wireKeyOf(item: SentItem, kept: Kept | undefined): string {
  if (!kept) return '';
  if (kept.item) return keyOf(kept.item);
  if (kept.id !== undefined) return kept.id;
  return item.type === 'tool_call' ? item.callId : item.type;
}

function messageInput(item: MessageItem, id: string | undefined, kept: Kept | undefined): JsonObject[] {
  if (item.role !== 'assistant') {
    const [first, ...more] = item.content;
    if (!first) return [];
    const plain = first.type === 'text' && more.length === 0;
    return [{ role: item.role, content: plain ? first.text : item.content.map(inputPart) }];
  }
  // A message sent with its id is validated as an output item, which must have annotations.
  const noAnnotations = id === undefined ? undefined : [];
  const content: JsonObject[] = item.content.flatMap(part => {
    if (part.type !== 'text' || part.text === '') return [];
    const annotations = part.annotations ?? noAnnotations;
    return [{ type: 'output_text', text: part.text, ...omitUndefined({ annotations }) }];
  });
  if (kept?.refusal !== undefined) content.push({ type: 'refusal', refusal: kept.refusal });
  if (content.length === 0) return [];
  const phase: JsonObject = omitUndefined({ phase: kept?.phase });
  return id === undefined
    ? [{ role: 'assistant', content, ...phase }]
    : [{ type: 'message', id, role: 'assistant', status: 'completed', content, ...phase }];
}

function reasoningInput(source: JsonObject, { stored, reasoningReplay }: InputOptions): JsonObject {
  if (reasoningReplay === 'content') return source;
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
  { id, namespace, called, caller, as = 'function_call' }: Kept = {},
): JsonObject {
  const kind = callKindOf(as) ?? FUNCTION_CALL;
  return {
    type: as,
    ...(id !== undefined && (stored || kind.needsId) ? { id } : {}),
    call_id: ids.of(item.callId),
    ...(kind.tool === undefined ? { name: called ?? item.name } : {}),
    ...omitUndefined({ namespace, caller }),
    ...kind.write(item.arguments),
  };
}

function resultInput(item: ToolResultItem, ids: WireCallIds, { as, caller }: Kept = {}): JsonObject[] {
  const kind = callKindOf(as) ?? FUNCTION_CALL;
  const { members, note } = writeAnswer(kind, item);
  const answer: JsonObject = {
    type: kind.output.type,
    call_id: ids.of(item.callId),
    ...omitUndefined({ caller }),
    ...members,
  };
  return note === undefined ? [answer] : [answer, { role: 'user', content: note }];
}

/** Exactly one result per call: others are dropped, a missing one is an error result of its turn. */
function withPairedResults(transcript: readonly Item[], from = 0): Item[] {
  const calls = idsOf(transcript, 'tool_call');
  const results = idsOf(transcript, 'tool_result');
  const paired: Item[] = [];
  const answered = new Set<string>();
  let open: string[] = [];
  const add = (item: Item, at: number): void => {
    if (at >= from) paired.push(item);
  };
  for (const [at, item] of transcript.entries()) {
    if (item.type === 'tool_call' && !results.has(item.callId)) open.push(item.callId);
    if (closesTurn(item)) {
      for (const callId of open) add(missingResult(callId), at);
      open = [];
    }
    if (item.type !== 'tool_result') add(item, at);
    else if (calls.has(item.callId) && !answered.has(item.callId)) {
      answered.add(item.callId);
      add(item, at);
    }
  }
  for (const callId of open) paired.push(missingResult(callId));
  return paired;
}

function idsOf(transcript: readonly Item[], type: 'tool_call' | 'tool_result'): Set<string> {
  const ids = new Set<string>();
  for (const item of transcript) if (item.type === type) ids.add(item.callId);
  return ids;
}

/**
 * The provider data that an item keeps in its `opaque.data`:
 * - `item`: the full output item, for reasoning and for items of the provider's own tools;
 * - `id`, `phase`, `refusal`: members of a message or call beyond its portable part;
 * - `more`: the message is the rest of the output item before it, after a refusal;
 * - `as`: the type of the call's item, if it is not a function call (see `CALL_KINDS`);
 * - `namespace`, `caller`: the namespace of the called tool and the program that called it. The provider
 *   refuses a call that had them without them. `called`: the tool's name in a namespace of the caller of the API;
 * - `after`: the key of the reasoning that the item followed. The provider refuses the item's id without that
 *   reasoning;
 * - `before`: for reasoning, the key of the item that must follow it, or `ANY`.
 */
export type Kept = {
  item?: JsonObject;
  id?: string;
  phase?: string;
  refusal?: string;
  more?: true;
  as?: string;
  namespace?: string;
  called?: string;
  caller?: JsonObject;
  after?: string;
  before?: string;
};

/** As `before`: what follows has lost the id that would name it. */
const ANY = '*';

/** Reasoning for a client that keeps the history without ids: it belongs before what the client returns after it. */
export function withoutFollower(item: ReasoningItem): ReasoningItem {
  const { opaque } = item;
  if (!isJsonObject(opaque?.data) || opaque.data.before === undefined) return item;
  return { ...item, opaque: { ...opaque, data: { ...opaque.data, before: ANY } } };
}

type KeptText = (typeof TEXTS)[number];

const TEXTS = ['id', 'as', 'phase', 'refusal', 'namespace', 'called', 'after', 'before'] as const;

const IS_TEXT: ReadonlySet<string> = new Set(TEXTS);

export function keptFrom(provider: string, opaque: Opaque | undefined): Kept | undefined {
  if (opaque?.provider !== provider) return undefined;
  const data = objectOf(opaque.data);
  const kept: Kept = {};
  for (const name of Object.keys(data)) {
    const text = IS_TEXT.has(name) ? nonEmpty(data[name]) : undefined;
    if (text !== undefined) kept[name as KeptText] = text;
  }
  if (data.item !== undefined) kept.item = objectOf(data.item);
  if (data.more === true) kept.more = true;
  if (isJsonObject(data.caller)) kept.caller = data.caller;
  return kept;
}

/** Identifies an output item among its neighbours: its id, else its call id, else its type. */
export function keyOf(item: JsonObject): string {
  return nonEmpty(item.id) ?? nonEmpty(item.call_id) ?? nonEmpty(item.type) ?? '';
}
