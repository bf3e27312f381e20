import type { Context } from '../../machines/context.ts';
import type { ModelAdapter, SetupChange } from '../../protocol/adapter.ts';
import { digestOf } from '../../protocol/content/digest.ts';
import type { Item, ReasoningItem } from '../../protocol/item.ts';
import { type JsonValue, omitUndefined, toJson } from '../../protocol/json.ts';
import { oncePer } from '../../protocol/once-per.ts';
import { countRedactions } from '../../protocol/redaction.ts';
import type { BreakCause, Broken, Head, LastSent, SentRequest, Setup } from '../../protocol/sent.ts';
import { type Tool, toolDefinition } from '../../protocol/tool.ts';
import type { ToolDefinition } from '../../protocol/turn.ts';

type ToolMap = ReadonlyMap<string, Tool>;

/** What a turn would send by itself. */
type Wanted = {
  adapter: Pick<ModelAdapter, 'provider' | 'model' | 'capabilities' | 'append'>;
  context: Pick<Context, 'sent' | 'transcript'>;
  /** The run's transcript after the inherited one; `transcript` is what this turn takes of it. */
  history: readonly Item[];
  transcript: readonly Item[];
  instructions: string | undefined;
  /** The instructions that the agent has as a text. */
  ownInstructions: string | undefined;
  /** `tools` are those of this turn, of `allTools`. */
  tools: ToolMap;
  allTools: ToolMap;
  /** What the model reads of an output schema. */
  schema: JsonValue | undefined;
  newId(kind: string): string;
};

/** The beginning of a request and its transcript. */
type Grown = {
  instructions: string | undefined;
  tools: readonly ToolDefinition[];
  transcript: readonly Item[];
  sent: SentRequest;
  appended: readonly Item[];
  broken?: Broken;
};

/**
 * Makes a request begin with the one before it.
 *
 * R1 Instructions, tools and items of a request are the beginning of those of the next. Where they are not, `broken`
 *    says why. From then on, what was bound to the old beginning is left out: reasoning, if the provider binds it, and
 *    what was appended.
 * R2 Changed instructions and tools are appended if the adapter can; the request then begins as before.
 */
export function growRequest(wanted: Wanted): Grown {
  const { adapter, context, schema } = wanted;
  const setup: Setup = {
    provider: adapter.provider,
    model: adapter.model,
    first: headOf(wanted),
    ...omitUndefined({ output: schema === undefined ? undefined : digestOf(schema) }),
  };
  const last = context.sent;
  if (last === null) return beginAnew(wanted, setup, undefined);
  const cause = findCause(last, setup, wanted);
  const kept = cause === undefined ? keepBeginning(wanted, last, setup) : undefined;
  return kept ?? breakOff(wanted, last, setup, cause ?? headCause(last.setup, setup, wanted));
}

function findCause(last: LastSent, { provider, model }: Setup, wanted: Wanted): BreakCause | undefined {
  if (last.setup.provider !== provider || last.setup.model !== model) return 'fallback';
  if (last.cause === 'compaction') return 'compaction';
  if (redactionsIn(itemsOf(last, wanted)) > (last.redactions ?? 0)) return 'edit';
  return extendsLast(last, wanted) ? undefined : (last.cause ?? 'trim');
}

/** A run's own history only grows; a transcript that `prepareTurn` made is compared item by item. */
function extendsLast(last: LastSent, wanted: Wanted): boolean {
  const { digest, items: count } = last;
  const { history, transcript } = wanted;
  const before = itemsOf(last, wanted);
  if (digest !== undefined) return before.length === count && digestItems(before) === digest;
  if (last.cause !== undefined) return false;
  if (transcript === history) return true;
  const now = readItems(transcript);
  return readItems(before).every((item, at) => item === now[at] || isSameItem(item, now[at]));
}

/** The items that the last request had, as they are now. */
function itemsOf({ digest, items }: LastSent, { context, history, transcript }: Wanted): readonly Item[] {
  if (digest !== undefined) return readItems(transcript).slice(0, items);
  return history.slice(0, history.length - context.transcript.length + items);
}

function headCause({ first, now = first, output }: Setup, setup: Setup, wanted: Wanted): BreakCause {
  if (now.instructions !== setup.first.instructions || textOf(first, wanted) === null) return 'instructions';
  return now.tools === setup.first.tools && output !== setup.output ? 'schema' : 'tools';
}

/** `undefined` if the beginning cannot be kept. */
function keepBeginning(wanted: Wanted, last: LastSent, setup: Setup): Grown | undefined {
  const { first, now: held = first, output } = last.setup;
  const instructions = textOf(first, wanted);
  const tools = toolsOf(first, wanted.allTools);
  const heldTools = toolsOf(held, wanted.allTools);
  if (output !== setup.output || instructions === null || tools === undefined || heldTools === undefined)
    return undefined;
  const change = changeOf(held, setup.first, first, wanted);
  // Providers add tools only to others.
  if (change?.added !== undefined && first.names.length === 0) return undefined;
  if (change !== undefined && touchesDeferred(change, heldTools)) return undefined;
  const appended = change === undefined ? [] : wanted.adapter.append?.(change, wanted.transcript);
  if (appended === undefined) return undefined;
  const items = appended.map(item => ({ ...item, id: item.id ?? wanted.newId('item') }));
  const kept = leaveOutVoid(wanted, last.voidTo);
  const changed = change && { ...last.setup, now: setup.first };
  return {
    instructions,
    tools: definitionsOf(tools),
    transcript: items.length === 0 ? kept : [...kept, ...items],
    sent: describeSent(wanted, items, { setup: changed, voidTo: last.voidTo }),
    appended: items,
  };
}

/** The next beginning has the instructions and tools of this turn; what was bound to the old one is void. */
function breakOff(wanted: Wanted, last: LastSent, setup: Setup, by: BreakCause): Grown {
  const { adapter, transcript } = wanted;
  const bound = transcript.findLast(item => isBound(item) && item.id !== undefined)?.id;
  const known = placeOf(last.voidTo, transcript);
  const lost = transcript.filter(
    (item, at) => at > known && adapter.capabilities.bindsReasoning && isSealed(item, adapter.provider),
  );
  const broken = { by, lost: lost.flatMap(({ id }) => id ?? []) };
  return { ...beginAnew(wanted, setup, bound), broken };
}

function beginAnew(wanted: Wanted, setup: Setup, voidTo: string | undefined): Grown {
  return {
    instructions: wanted.instructions,
    tools: definitionsOf(wanted.tools),
    transcript: leaveOutVoid(wanted, voidTo),
    sent: describeSent(wanted, [], { setup, voidTo }),
    appended: [],
  };
}

function describeSent(
  { context, history, transcript }: Wanted,
  appended: readonly Item[],
  rest: { setup: Setup | undefined; voidTo: string | undefined },
): SentRequest {
  const how = omitUndefined({ ...rest, redactions: redactionsIn(transcript) || undefined });
  if (transcript === history) return { items: context.transcript.length + appended.length, ...how };
  const items = readItems([...transcript, ...appended]);
  return { items: items.length, digest: digestItems(items), ...how };
}

function leaveOutVoid({ adapter, transcript }: Wanted, voidTo: string | undefined): readonly Item[] {
  return leaveOutUpTo(placeOf(voidTo, transcript), transcript, adapter);
}

/** The place of the item with this id; -1 without one. */
export function placeOf(id: string | undefined, transcript: readonly Item[]): number {
  return id === undefined ? -1 : transcript.findLastIndex(item => item.id === id);
}

/** The transcript without what was bound to an old beginning, in the items up to this place. */
export function leaveOutUpTo(
  place: number,
  transcript: readonly Item[],
  { capabilities: { bindsReasoning } }: Pick<ModelAdapter, 'capabilities'>,
): readonly Item[] {
  if (place === -1) return transcript;
  return transcript.flatMap((item, at) => {
    if (at > place || !isBound(item)) return [item];
    if (item.type !== 'reasoning') return [];
    return bindsReasoning ? [withoutSeal(item)] : [item];
  });
}

const withoutSeal = oncePer(({ opaque: _, ...item }: ReasoningItem): ReasoningItem => item);

/** Whether the item depends on all that was sent before it. */
function isBound(item: Item): item is ReasoningItem | Extract<Item, { type: 'provider_item' }> {
  return item.type === 'reasoning' || (item.type === 'provider_item' && item.kind === 'setup');
}

function isSealed(item: Item, provider: string): boolean {
  return item.type === 'reasoning' && item.opaque?.provider === provider;
}

/** The latest head of these tools: most turns have the one of the turn before. */
const latestHeads = new WeakMap<
  ToolMap,
  { instructions: string; ownInstructions: string | undefined; head: Head }
>();

function headOf({ instructions = '', ownInstructions, tools }: Wanted): Head {
  const latest = latestHeads.get(tools);
  if (latest?.instructions === instructions && latest.ownInstructions === ownInstructions) return latest.head;
  const head: Head = {
    instructions: digestOf(instructions),
    tools: digestTools(tools),
    names: [...tools.values()].filter(isInPrompt).map(({ name }) => name),
    ...omitUndefined({ text: instructions === (ownInstructions ?? '') ? undefined : instructions }),
  };
  latestHeads.set(tools, { instructions, ownInstructions, head });
  return head;
}

/** The instructions with this digest, if any of those known has it, else `null`. */
function textOf({ instructions: digest, text }: Head, wanted: Wanted) {
  const { instructions, ownInstructions } = wanted;
  if (headOf(wanted).instructions === digest) return instructions;
  const known = [ownInstructions, text].find(one => digestOf(one ?? '') === digest);
  return known ?? (digestOf('') === digest ? undefined : null);
}

/** The tools of a head; `undefined` if the agent no longer has all of them as they were. */
function toolsOf({ names, tools: digest }: Head, allTools: ToolMap): ToolMap | undefined {
  if (digestTools(allTools) === digest) return allTools;
  const listed = names.flatMap(name => allTools.get(name) ?? []);
  const others = [...allTools.values()].filter(tool => !isInPrompt(tool));
  const tools = new Map([...listed, ...others].map(tool => [tool.name, tool]));
  return digestTools(tools) === digest ? tools : undefined;
}

/** A tool that is searched by the client is not part of the prompt, so it may come and go. */
function isInPrompt({ deferred }: Tool): boolean {
  return deferred !== 'client';
}

function changeOf(
  held: Head,
  now: Head,
  first: Head,
  { instructions = '', tools }: Wanted,
): SetupChange | undefined {
  const more = [...tools.values()].filter(tool => isInPrompt(tool) && !held.names.includes(tool.name));
  const added = more.filter(({ name }) => !first.names.includes(name)).map(toolDefinition);
  const restored = more.map(({ name }) => name).filter(name => first.names.includes(name));
  const removed = held.names.filter(name => !tools.has(name));
  const change = omitUndefined({
    instructions: held.instructions === now.instructions ? undefined : instructions,
    added: added.length === 0 ? undefined : added,
    restored: restored.length === 0 ? undefined : restored,
    removed: removed.length === 0 ? undefined : removed,
  });
  return Object.keys(change).length === 0 ? undefined : change;
}

/** Whether the change adds deferred tools, or turns tools off or on among deferred ones: only a new head can do that. */
function touchesDeferred({ added = [], restored = [], removed = [] }: SetupChange, held: ToolMap): boolean {
  if (added.some(({ deferred }) => deferred)) return true;
  return restored.length + removed.length > 0 && [...held.values()].some(({ deferred }) => deferred === true);
}

export const definitionsOf = oncePer((tools: ToolMap) => [...tools.values()].map(toolDefinition));

const digestTools = oncePer((tools: ToolMap) =>
  digestOf([...tools.values()].filter(isInPrompt).map(digestDefinition)),
);

const digestDefinition = oncePer((tool: Tool) => digestOf(toJson(toolDefinition(tool))));

/** Control items are never sent. */
function readItems(items: readonly Item[]): Item[] {
  return items.filter(({ type }) => !type.startsWith('approval_') && type !== 'tool_list');
}

function isSameItem(item: Item, other: Item | undefined): boolean {
  return other !== undefined && digestItem(item) === digestItem(other);
}

function digestItems(items: readonly Item[]): string {
  return digestOf(items.map(digestItem));
}

/** By the first item: how many redactions the latest request with it had. */
const counted = new WeakMap<Item, { items: readonly Item[]; count: number }>();

/** Counts only what a transcript has gained. Items never change. */
function redactionsIn(items: readonly Item[]): number {
  const [first] = items;
  if (first === undefined) return 0;
  const known = counted.get(first);
  const isKnown = known?.items.every((item, at) => item === items[at]) === true;
  let count = isKnown ? known.count : 0;
  for (const item of isKnown ? items.slice(known.items.length) : items) count += countRedactions(item);
  counted.set(first, { items, count });
  return count;
}

const digestItem = oncePer((item: Item) => digestOf(toJson(item)));
