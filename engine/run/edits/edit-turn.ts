// engine/run/edits: changes that people make to a held run: its latest reply, the input of a call, its
// transcript.

import { findCall } from '../../../machines/calls.ts';
import type { Context } from '../../../machines/context.ts';
import { digestCall } from '../../../protocol/content/digest.ts';
import type { Item, MessageItem, ToolCallItem } from '../../../protocol/item.ts';
import { type JsonValue, omitUndefined } from '../../../protocol/json.ts';
import { textOf } from '../../../protocol/message.ts';
import type { EditCallOptions, EditTurnOptions } from '../../../protocol/run-command.ts';
import type { Host } from '../../host/host.ts';
import { addItemIds, type Command, checkEdit, readJson } from '../../log/command.ts';
import { type Refusal, refuse } from '../../log/refusal.ts';
import { callsIn, type EditedRun, qualify, toolCallOf } from './edit-transcript.ts';

/** More calls than a turn has. */
const MOST_CALLS = 1_000;

type NamedCall = { callId: string; name: string; input: JsonValue };

/**
 * The input that replaces the latest turn. Changed and new calls are qualified like those of a model, and refused with
 * `input-invalid` if their tool does not accept them. Provider data is kept up to the first change and dropped after
 * it: a signature covers what precedes it.
 */
export async function editTurn(
  { turn, text, calls, by }: EditTurnOptions,
  { context, host, connectTools }: EditedRun,
): Promise<Command | Refusal> {
  const { lastTurn, runId, transcript } = context;
  const number = turn ?? context.turn.number;
  if (lastTurn?.from === undefined || number !== context.turn.number)
    return refuse(
      'refused',
      `Turn ${number} of run ${runId} cannot be edited: only the latest turn can, before a call of it starts.`,
    );
  const before = lastTurn.draft ? [] : transcript.slice(lastTurn.from);
  const named = calls === undefined ? context.calls : nameCalls(calls, before, context, host);
  if ('accepted' in named) return named;
  const items = rewriteItems(before, text, named);
  const qualified = await qualify(callsIn(items), context, host, await connectTools());
  const broken = qualified.find(
    ({ callId, digest, error }) => error !== undefined && findCall(context, callId)?.digest !== digest,
  );
  if (broken !== undefined)
    return refuse('input-invalid', `The edited call ${broken.callId} is not valid. ${broken.error}`);
  return {
    type: 'turn.edited',
    turn: number,
    text: text ?? textOfTurn(before),
    items: addItemIds(items, host),
    calls: qualified,
    ...omitUndefined({ by }),
  };
}

/** The input that replaces the input of a call. The call is qualified again: its approval predicate is asked again. */
export async function editCall(
  callId: string,
  { input: edited, digest, by }: EditCallOptions,
  { context, host, connectTools }: EditedRun,
): Promise<Command | Refusal> {
  const call = findCall(context, callId);
  const checked = await checkEdit(call, edited, connectTools);
  if (checked !== undefined && 'accepted' in checked) return checked;
  if (call === undefined || checked === undefined)
    return refuse('call-unknown', `Run ${context.runId} has no open call ${callId}. Check the id.`);
  const item = callItem({ callId, name: call.name, input: checked.input });
  const [qualified] = await qualify([item], { ...context, calls: [] }, host, await connectTools());
  if (qualified === undefined) throw new Error('Qualifying one call returned none.');
  const seen = digest ?? call.digest;
  return { type: 'call.edited', callId, digest: seen, call: qualified, ...omitUndefined({ by }) };
}

/** Gives new calls ids. Refuses an id that another call of the run has. */
function nameCalls(
  calls: NonNullable<EditTurnOptions['calls']>,
  before: readonly Item[],
  { transcript }: Context,
  host: Host,
): NamedCall[] | Refusal {
  if (calls.length > MOST_CALLS)
    return refuse('input-invalid', `Expected at most ${MOST_CALLS} calls, got ${calls.length}.`);
  const own = new Set(callsIn(before).map(({ callId }) => callId));
  const others = callsIn(transcript).filter(({ callId }) => !own.has(callId));
  const taken = new Set(others.map(({ callId }) => callId));
  const named: NamedCall[] = [];
  for (const { callId = host.newId('call'), name, input } of calls) {
    const read = readJson(input);
    if ('accepted' in read) return read;
    if (taken.has(callId))
      return refuse('input-invalid', `Call ${callId} exists already. Leave out the id of a new call.`);
    taken.add(callId);
    named.push({ callId, name, input: read.json });
  }
  return named;
}

/** The items with the new text and calls. New calls follow the others. */
function rewriteItems(
  before: readonly Item[],
  text: string | undefined,
  calls: readonly NamedCall[],
): Item[] {
  const written = text === undefined || text === textOfTurn(before) ? before : rewriteText(before, text);
  const wanted = new Map(calls.map(call => [call.callId, call]));
  const kept = written.flatMap((item): Item[] => {
    if (item.type !== 'tool_call') return [item];
    const call = wanted.get(item.callId);
    wanted.delete(item.callId);
    if (call === undefined) return [];
    return [isCallOf(item, call) ? item : callItem(call)];
  });
  const items = [...kept, ...[...wanted.values()].map(callItem)];
  const change = items.findIndex((item, index) => item !== before[index]);
  return items.flatMap((item, index) => (change < 0 || index < change ? [item] : withoutProviderData(item)));
}

/** One message replaces all of the turn: at the place of the first, or before the calls. */
function rewriteText(before: readonly Item[], text: string): Item[] {
  const items = before.filter(item => !isAnswer(item));
  const first = before.findIndex(item => isAnswer(item) || item.type === 'tool_call');
  const place = first < 0 ? items.length : first;
  const message = { type: 'message', role: 'assistant', content: [{ type: 'text', text }] } as const;
  return text === ''
    ? items
    : [...items.slice(0, place), { ...message, content: [...message.content] }, ...items.slice(place)];
}

/** Only the portable part of an item. What the provider ran itself has none. */
function withoutProviderData(item: Item): Item[] {
  if (item.type === 'provider_item') return [];
  const { opaque: _, ...portable } = { opaque: undefined, ...item };
  return [portable];
}

function callItem({ callId, name, input }: NamedCall): ToolCallItem {
  return { type: 'tool_call', callId, name, arguments: JSON.stringify(input) };
}

/** Whether the item makes the call. Arguments that are not JSON count as a text. */
function isCallOf(item: ToolCallItem, { name, input }: NamedCall): boolean {
  const made = toolCallOf(item);
  return digestCall(item.name, made.input ?? item.arguments) === digestCall(name, input);
}

function isAnswer(item: Item): item is MessageItem {
  return item.type === 'message' && item.role === 'assistant';
}

function textOfTurn(items: readonly Item[]): string {
  return items.filter(isAnswer).map(textOf).join('');
}
