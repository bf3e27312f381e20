import type { Call } from '../../machines/context.ts';
import { describeIncomplete, listOpen } from '../../machines/settled.ts';
import { statePath, statusOf } from '../../machines/status.ts';
import type { ChartState } from '../../machines/step.ts';
import type { QualifiedCall, RunEvent } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { refusalOf, textOf } from '../../protocol/message.ts';
import { isOpenItem, type RunView } from '../../protocol/run-view.ts';
import { filterText, filterTexts, type TextFilter } from '../../text/text-filter.ts';
import type { Around, Happened, Place, StorySettled, StoryState, TextPart, TurnPart } from './story-event.ts';

type Completed = Extract<RunEvent, { type: 'turn.completed' }>;

/**
 * What a `StoryTeller` tells only to those who have no entries: where the run is, what it rests with or ended in, what its
 * questions were answered, and what the entry of a turn adds to its pieces, through the filters of texts.
 */
export const WIRE = { stateOf, endOf, answersBetween, filterText, partsOf, fits, alignParts, restOf };

export type WireTeller = typeof WIRE;

/** An attempt that is streaming. Calls are by their index. */
export type Attempt = Place & {
  parts: StreamedPart[];
  calls: Map<number, { callId: string; text: string }>;
  refusals: number;
  sealed: number;
  /** It began with its text so far: more text continues it, even after reasoning. */
  isMerged?: true;
};

/** Text or reasoning as deltas deliver it. A refusal ends a text: more text is another one. */
export type StreamedPart = { kind: 'text' | 'reasoning'; text: string; isRefused: boolean };

export type Visibility = { text: boolean; reasoning: boolean; filters: readonly (() => TextFilter)[] };

/** The state that an entry changed; `null` if it changed none. It is told after each message too. */
function stateOf(event: RunEvent, { before, after }: Around): StoryState | null {
  const isMessage = event.type === 'message.received' && event.from === undefined;
  if (before === after && !isMessage) return null;
  const state = describeState(after);
  return before === null || isMessage || !isSameState(describeState(before), state) ? state : null;
}

/** What an entry brought the run to rest with, or to end in; `null` if it did not. */
function endOf({ before, after }: Around, filters: readonly (() => TextFilter)[]): StorySettled | null {
  if (before === after || statusOf(after) === 'running') return null;
  const settled = describeEnd(after, filters);
  if (before === null || settled.status !== 'waiting' || statusOf(before) !== 'waiting') return settled;
  return isSameList(listOpen(before.context), settled.open) ? null : settled;
}

/** The answers of a call that came; `undefined` if none did. */
function answersBetween(before: Call, { answered = {} }: Call): Call['answered'] {
  const closed = Object.entries(answered).filter(([key, answer]) => answer !== before.answered?.[key]);
  return closed.length === 0 ? undefined : Object.fromEntries(closed);
}

function describeState(state: ChartState): StoryState {
  const { next } = state.context;
  const status = statusOf(state);
  const why = status === 'waiting' ? next?.why : undefined;
  const error = status === 'failed' && next?.type === 'fail' ? next.code : undefined;
  return { path: statePath(state), status, ...omitUndefined({ why, error }) };
}

function isSameState(before: StoryState, after: StoryState): boolean {
  return before.path === after.path && before.status === after.status && before.why === after.why;
}

function describeEnd(
  { context, ...state }: ChartState,
  filters: readonly (() => TextFilter)[],
): StorySettled {
  const { next, answer } = context;
  if (state.status === 'active') return { status: 'waiting', open: listOpen(context) };
  if (state.value === 'failed' && next?.type === 'fail')
    return { status: 'failed', error: { code: next.code, message: next.message } };
  if (state.value === 'cancelled') return { status: 'cancelled' };
  return {
    status: 'finished',
    text: filterText(answer?.text ?? '', filters),
    ...omitUndefined({ output: answer?.output, incomplete: describeIncomplete(context) }),
  };
}

function isSameList(one: RunView['open'], other: RunView['open']): boolean {
  const name = (open: RunView['open'][number]) =>
    isOpenItem(open) ? `${open.id} ${open.digest} ${open.reason}` : `${open.id} ${open.reason}`;
  return one.length === other.length && one.every((open, at) => name(open) === name(other[at] ?? open));
}

/** Whether what was streamed of an attempt is the beginning of its turn, whose parts are numbered then. */
function fits(
  parts: readonly TurnPart[],
  { parts: streamed, calls }: Attempt,
  completed: Completed,
): boolean {
  if (!alignParts(parts, streamed)) return false;
  return [...calls].every(([index, { callId, text }]) => {
    const call = completed.calls[index];
    return call?.callId === callId && writtenIn(parts, call).startsWith(text);
  });
}

/** The pieces of a turn that no delta carried. */
function* restOf(parts: readonly TurnPart[], live: Attempt, { calls }: Completed): Generator<Happened> {
  const { turn, attempt } = live;
  for (const one of parts) {
    if ((one.kind !== 'text' && one.kind !== 'reasoning') || one.part === null) continue;
    const { kind: type, part } = one;
    const known = live.parts[part];
    const text = one.text.slice(known?.text.length ?? 0);
    if (text === '' && known !== undefined) continue;
    yield { type, turn, attempt, part, text, late: true };
  }
  for (const [index, call] of calls.entries()) {
    const { callId, name } = call;
    const known = live.calls.get(index);
    const place = { turn, attempt, index, callId, late: true as const };
    if (known === undefined) yield { type: 'call.opened', ...place, name };
    const text = writtenIn(parts, call).slice(known?.text.length ?? 0);
    if (text !== '') yield { type: 'call.arguments', ...place, text };
  }
}

/** The JSON text of a call's arguments, as the model wrote it. */
function writtenIn(parts: readonly TurnPart[], { callId, input }: QualifiedCall): string {
  const part = parts.find(one => one.kind === 'call' && one.item.callId === callId);
  return part?.kind === 'call' ? part.item.arguments : JSON.stringify(input);
}

/** Texts that only calls or items separate are one, and so is reasoning, because deltas do not tell them apart either. */
function partsOf(
  { items, calls }: { items: readonly Item[]; calls: readonly QualifiedCall[] },
  { text, reasoning, filters }: Visibility,
): TurnPart[] {
  const parts: TurnPart[] = [];
  const byId = new Map(calls.map(call => [call.callId, call]));
  let last: TextPart | null = null;
  for (const item of items) {
    switch (item.type) {
      case 'message': {
        const words = textOf(item);
        const refusal = refusalOf(item);
        if (last?.kind === 'text' && (words === '' || last.refusal === '')) {
          last.items.push(item);
          last.refusal += refusal;
        } else {
          const part: TextPart = { kind: 'text', part: null, text: '', refusal, items: [item] };
          parts.push(part);
          if (words !== '' || refusal !== '') last = part;
        }
        break;
      }
      case 'reasoning':
        if (last?.kind === 'reasoning') {
          last.items.push(item);
          last.text += item.text;
        } else if (item.text !== '' || item.opaque !== undefined) {
          last = { kind: 'reasoning', part: null, text: item.text, items: [item] };
          parts.push(last);
        }
        break;
      case 'tool_call': {
        const call = byId.get(item.callId);
        parts.push({ kind: 'call', item, ...(call !== undefined && { call }) });
        break;
      }
      default:
        parts.push({ kind: 'item', item });
    }
  }
  const texts = parts.filter(part => part.kind === 'text');
  const shown = filterTexts(
    texts.map(({ items }) => items.map(textOf).join('')),
    filters,
  );
  for (const [place, part] of texts.entries()) part.text = shown[place] ?? '';
  let number = 0;
  for (const part of parts) {
    if (part.kind !== 'text' && part.kind !== 'reasoning') continue;
    const isSeen = part.kind === 'text' ? text && (part.text !== '' || part.refusal !== '') : reasoning;
    if (isSeen) part.part = number++;
  }
  return parts;
}

/** Numbers the parts as they were streamed, then the others. False if a streamed text is not the beginning of its part. */
function alignParts(parts: readonly TurnPart[], streamed: readonly StreamedPart[]): boolean {
  const open = parts.filter(
    (part): part is TextPart => (part.kind === 'text' || part.kind === 'reasoning') && part.part !== null,
  );
  const numbers = new Map<TextPart, number>();
  for (const [number, { kind, text }] of streamed.entries()) {
    const match = open.find(
      part =>
        part.kind === kind && !numbers.has(part) && (text === '' || part.text !== '' || kind === 'text'),
    );
    if (match === undefined ? text !== '' : !match.text.startsWith(text)) return false;
    if (match !== undefined) numbers.set(match, number);
  }
  let next = streamed.length;
  for (const part of open) part.part = numbers.get(part) ?? next++;
  return true;
}
