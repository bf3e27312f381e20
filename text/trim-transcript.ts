import { readContent } from '../protocol/content/read-content.ts';
import { EngineError } from '../protocol/error.ts';
import type { Item, Part, ToolResultItem } from '../protocol/item.ts';
import { type NamesOf, optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';

export type TrimOptions = {
  /** Items that are always kept, by predicate or by `id`. */
  pinned?: ((item: Item) => boolean) | Iterable<string>;
};

export type FitOptions = TrimOptions & {
  /** Returns the tokens of one item. Default: `estimateTokens`. */
  tokensOf?: (item: Item) => number;
};

const TRIM_NAMES = optionNames<TrimOptions>()('pinned');
const FIT_NAMES: NamesOf<FitOptions> = { ...TRIM_NAMES, tokensOf: true };

/** Returns the kept items in their order, or the transcript itself if nothing is removed. */
export type Trim = (transcript: readonly Item[]) => readonly Item[];

/**
 * Returns a function that trims a transcript to its last `count` items. It may keep more: a model's turn with its
 * reasoning, calls and results is never split. Pinned items, system and developer messages, the first and the last user
 * message, and the last item are always kept. Throws `agent-invalid` for an invalid `count`.
 *
 * @example
 * createAgent({ name, model, prepareTurn: ({ transcript }) => ({ transcript: keepLast(20)(transcript) }) })
 */
export function keepLast(count: number, options: TrimOptions = {}): Trim {
  refuseUnknownOptions('keepLast', options, TRIM_NAMES);
  check(Number.isInteger(count) && count >= 0, `keepLast expects a whole number of items, got ${count}.`);
  const isPinned = readPinned(options);
  return transcript => {
    const groups = groupItems(transcript);
    const recent = groups.filter(({ last }) => last >= transcript.length - count);
    return pick(transcript, [...findNeeded(transcript, groups, isPinned), ...recent]);
  };
}

/**
 * Returns a function that trims a transcript to `limit` tokens: the newest items that fit, without gaps, and the items
 * that `keepLast` always keeps. If those alone exceed the limit, so does the result. Tokens are estimated, so leave
 * some room. Throws `agent-invalid` for a limit that is not above 0.
 *
 * @example
 * createAgent({ name, model, prepareTurn: ({ transcript }) => ({ transcript: fitTokens(100_000)(transcript) }) })
 */
export function fitTokens(limit: number, options: FitOptions = {}): Trim {
  refuseUnknownOptions('fitTokens', options, FIT_NAMES);
  check(limit > 0, `fitTokens expects a number of tokens above 0, got ${limit}.`);
  const isPinned = readPinned(options);
  const tokensOf = options.tokensOf ?? estimateTokens;
  return transcript => {
    const groups = groupItems(transcript);
    const tokens = transcript.map(item => tokensOf(item));
    const weigh = ({ places }: Group) => places.reduce((sum, place) => sum + (tokens[place] ?? 0), 0);
    const kept = findNeeded(transcript, groups, isPinned);
    let left = limit;
    for (const group of kept) left -= weigh(group);
    for (const group of groups.toSorted((one, other) => other.last - one.last)) {
      if (kept.has(group)) continue;
      left -= weigh(group);
      if (left < 0) break;
      kept.add(group);
    }
    return pick(transcript, kept);
  };
}

const CHARACTERS_PER_TOKEN = 4;
const TOKENS_PER_MEDIUM = 1000;

/**
 * Estimates the tokens of an item: four characters per token, 1000 tokens per image or file. Counts the longer of the
 * readable and the opaque form, because a provider receives only one. Control items are never sent and count 0.
 */
export function estimateTokens(item: Item): number {
  const opaque = 'opaque' in item && item.opaque ? JSON.stringify(item.opaque.data).length : 0;
  switch (item.type) {
    case 'message':
      return estimateMedia(item.content) + tokensIn(Math.max(charactersIn(item.content), opaque));
    case 'reasoning':
      return tokensIn(Math.max(item.text.length, opaque));
    case 'tool_call':
      return tokensIn(Math.max(item.name.length + item.arguments.length, opaque));
    case 'tool_result':
      return estimateResult(item);
    case 'provider_item':
      return tokensIn(opaque);
    case 'approval_request':
    case 'approval_response':
    case 'tool_list':
      return 0;
  }
}

function estimateResult({ output, shown }: ToolResultItem): number {
  const content = readContent(output);
  if (content === undefined) return tokensIn((shown ?? JSON.stringify(output)).length);
  return estimateMedia(content.parts) + tokensIn(shown?.length ?? charactersIn(content.parts));
}

function estimateMedia(parts: readonly Part[]): number {
  return parts.filter(part => part.type !== 'text').length * TOKENS_PER_MEDIUM;
}

function charactersIn(parts: readonly Part[]): number {
  return parts.reduce((sum, part) => sum + (part.type === 'text' ? part.text.length : 0), 0);
}

function tokensIn(characters: number): number {
  return Math.ceil(characters / CHARACTERS_PER_TOKEN);
}

/** The indexes of items that are kept or removed together; `into` is the group that this one was merged into. */
type Group = { places: number[]; last: number; into?: Group };

/** A model's turn is one group, with every item of its calls; each other item is its own. */
function groupItems(transcript: readonly Item[]): Group[] {
  const groups = new Set<Group>();
  const ofCall = new Map<string, Group>();
  let turn: Group | null = null;
  for (const [place, item] of transcript.entries()) {
    const made = isMadeByModel(item);
    const known = 'callId' in item ? rootOf(ofCall.get(item.callId)) : undefined;
    let group: Group = known ?? (made ? turn : null) ?? { places: [], last: place };
    if (made && turn !== null && turn !== group) group = merge(turn, group);
    group.places.push(place);
    group.last = place;
    groups.add(group);
    if ('callId' in item) ofCall.set(item.callId, group);
    if (made) turn = group;
    else if (!isControl(item)) turn = null;
  }
  return [...groups];

  /** A repeated call id joins its turns. The smaller group is merged into the larger. */
  function merge(one: Group, other: Group): Group {
    const [larger, smaller] = one.places.length < other.places.length ? [other, one] : [one, other];
    for (const place of smaller.places) larger.places.push(place);
    larger.last = Math.max(larger.last, smaller.last);
    smaller.into = larger;
    groups.delete(smaller);
    return larger;
  }
}

function rootOf(group: Group | undefined): Group | undefined {
  let root = group;
  while (root?.into !== undefined) root = root.into;
  return root;
}

function isMadeByModel(item: Item): boolean {
  if (item.type === 'message') return item.role === 'assistant';
  return item.type === 'reasoning' || item.type === 'tool_call' || item.type === 'provider_item';
}

function isControl({ type }: Item): boolean {
  return type === 'approval_request' || type === 'approval_response' || type === 'tool_list';
}

function findNeeded(
  transcript: readonly Item[],
  groups: readonly Group[],
  isPinned: (item: Item) => boolean,
): Set<Group> {
  const needed = new Set([
    transcript.findIndex(isFromUser),
    transcript.findLastIndex(isFromUser),
    transcript.findLastIndex(item => !isControl(item)),
  ]);
  for (const [place, item] of transcript.entries())
    if (isInstruction(item) || isPinned(item)) needed.add(place);
  return new Set(groups.filter(({ places }) => places.some(place => needed.has(place))));
}

function isFromUser(item: Item): boolean {
  return item.type === 'message' && item.role === 'user';
}

function isInstruction(item: Item): boolean {
  return item.type === 'message' && (item.role === 'system' || item.role === 'developer');
}

function readPinned({ pinned = [] }: TrimOptions): (item: Item) => boolean {
  if (typeof pinned === 'function') return pinned;
  const ids = new Set(pinned);
  return ({ id }) => id !== undefined && ids.has(id);
}

function pick(transcript: readonly Item[], groups: Iterable<Group>): readonly Item[] {
  const kept = new Set([...groups].flatMap(({ places }) => places));
  return kept.size === transcript.length ? transcript : transcript.filter((_, place) => kept.has(place));
}

function check(holds: boolean, message: string): void {
  if (!holds) throw new EngineError('agent-invalid', message);
}
