import { isInstruction } from '../machines/compaction.ts';
import { readContent } from '../protocol/content/read-content.ts';
import { EngineError } from '../protocol/error.ts';
import type { Item, Part, ToolResultItem } from '../protocol/item.ts';
import { oncePer } from '../protocol/once-per.ts';
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
 * message, and the last turn are always kept. Control items do not count.
 *
 * It cuts in steps: a transcript that exceeds `count` is cut to half of it, and then grows to `count` again before the
 * next cut. In between each result begins with the one before, so caches and signed reasoning stay valid. Throws
 * `agent-invalid` for an invalid `count`.
 *
 * @example
 * createAgent({ name, model, prepareTurn: ({ transcript }) => ({ transcript: keepLast(40)(transcript) }) })
 */
export function keepLast(count: number, options: TrimOptions = {}): Trim {
  refuseUnknownOptions('keepLast', options, TRIM_NAMES);
  check(Number.isInteger(count) && count >= 0, `keepLast expects a whole number of items, got ${count}.`);
  const counts = { bound: () => count, mayBegin: true };
  return trimTo(counts, () => 1, readPinned(options));
}

/**
 * Returns a function that trims a transcript to `limit` tokens, by the rules and in the steps of `keepLast`. Only if what
 * is always kept exceeds the limit, so does the result. Tokens are estimated, so leave some room. Throws `agent-invalid` for a limit that is not above 0.
 *
 * @example
 * createAgent({ name, model, prepareTurn: ({ transcript }) => ({ transcript: fitTokens(100_000)(transcript) }) })
 */
export function fitTokens(limit: number, options: FitOptions = {}): Trim {
  refuseUnknownOptions('fitTokens', options, FIT_NAMES);
  check(limit > 0, `fitTokens expects a number of tokens above 0, got ${limit}.`);
  const counts = { bound: (fixed: number) => limit - fixed, mayBegin: false };
  return trimTo(counts, oncePer(options.tokensOf ?? estimateTokens), readPinned(options));
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
type Group = { places: number[]; weight: number; isFixed: boolean; into?: Group };

/**
 * `bound`: what may be kept besides the fixed groups, by their weight. `mayBegin`: of a group that begins before the
 * bound, only the last item counts.
 */
type Counts = { bound(fixed: number): number; mayBegin: boolean };

/**
 * Walks the transcript as it grew, so that each cut depends only on the items before it and stays where it is. `fixed`
 * groups are always kept. The others are in `window`, in the order of their last items: its first ones are cut, down to
 * half of the bound. The last user message at a cut stays until the next one, also when later messages follow.
 */
function trimTo(counts: Counts, weigh: (item: Item) => number, isPinned: (item: Item) => boolean): Trim {
  return transcript => {
    const fixed = new KeptGroups();
    const window = new KeptGroups();
    const firstFromUser = transcript.find(isFromUser);
    let lastFromUser: Group | undefined;
    let latest: Group | undefined;
    for (const { place, item, group, merged } of groupItems(transcript)) {
      const isNew = group.places.length === 0;
      let isKept = fixed.remove(group) || window.remove(group);
      if (merged !== undefined) {
        isKept = fixed.remove(merged) || window.remove(merged) || isKept;
        absorb(group, merged);
      }
      group.places.push(place);
      group.isFixed ||= item === firstFromUser || isInstruction(item) || isPinned(item);
      if (!isControl(item)) {
        group.weight += weigh(item);
        latest = group;
      }
      if (isFromUser(item)) lastFromUser = group;
      if (group.isFixed) fixed.add(group);
      else if (isNew || isKept || !isControl(item)) window.add(group);
      window.cut(
        { ...counts, bound: counts.bound(fixed.weight) },
        one => one === lastFromUser || one === latest,
      );
    }
    const kept = new Set([...fixed, ...window].flatMap(({ places }) => places));
    return kept.size === transcript.length ? transcript : transcript.filter((_, place) => kept.has(place));
  };
}

class KeptGroups {
  readonly #groups = new Set<Group>();
  weight = 0;

  [Symbol.iterator](): Iterator<Group> {
    return this.#groups.values();
  }

  add(group: Group): void {
    this.#groups.add(group);
    this.weight += group.weight;
  }

  remove(group: Group): boolean {
    const had = this.#groups.delete(group);
    if (had) this.weight -= group.weight;
    return had;
  }

  /** Removes the first groups, if they exceed the bound, until the others fit in half of it. */
  cut({ bound, mayBegin }: { bound: number; mayBegin: boolean }, mustStay: (group: Group) => boolean): void {
    let most = bound;
    let after = this.weight;
    for (const group of this.#groups) {
      after -= group.weight;
      if (mustStay(group)) continue;
      if ((mayBegin ? after + 1 : this.weight) <= most) return;
      most = bound / 2;
      this.remove(group);
    }
  }
}

/** The places of the items that belong together: nothing separates a call from its result, or reasoning from its turn. */
export function listGroups(transcript: readonly Item[]): readonly (readonly number[])[] {
  const groups = new Set<Group>();
  for (const { place, group, merged } of groupItems(transcript)) {
    if (merged !== undefined) {
      absorb(group, merged);
      groups.delete(merged);
    }
    group.places.push(place);
    groups.add(group);
  }
  return [...groups].map(({ places }) => places.toSorted((one, other) => one - other));
}

/**
 * Yields the items, each with its group, which may be new, and the group that it merges into that one. A model's turn is
 * one group, with every item of its calls; each other item is its own.
 */
function* groupItems(transcript: readonly Item[]) {
  const ofCall = new Map<string, Group>();
  let turn: Group | undefined;
  for (const [place, item] of transcript.entries()) {
    const made = isMadeByModel(item);
    const known = 'callId' in item ? rootOf(ofCall.get(item.callId)) : undefined;
    const open = made ? turn : undefined;
    let group = known ?? open ?? { places: [], weight: 0, isFixed: false };
    let merged: Group | undefined;
    if (open !== undefined && open !== group) {
      // A repeated call id joins its turns. The smaller group is merged into the larger.
      merged = open.places.length < group.places.length ? open : group;
      group = merged === open ? group : open;
    }
    yield { place, item, group, merged };
    if ('callId' in item) ofCall.set(item.callId, group);
    if (made) turn = group;
    else if (!isControl(item)) turn = undefined;
  }
}

function absorb(group: Group, merged: Group): void {
  for (const place of merged.places) group.places.push(place);
  group.weight += merged.weight;
  group.isFixed ||= merged.isFixed;
  merged.into = group;
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

function isFromUser(item: Item): boolean {
  return item.type === 'message' && item.role === 'user';
}

export function readPinned({ pinned = [] }: TrimOptions): (item: Item) => boolean {
  if (typeof pinned === 'function') return pinned;
  const ids = new Set(pinned);
  return ({ id }) => id !== undefined && ids.has(id);
}

function check(holds: boolean, message: string): void {
  if (!holds) throw new EngineError('agent-invalid', message);
}
