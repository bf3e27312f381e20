import { resultOf } from '../../machines/calls.ts';
import type { Context } from '../../machines/context.ts';
import type { QualifiedCall } from '../../protocol/event.ts';
import type { Item, ToolCallItem, ToolResultItem } from '../../protocol/item.ts';
import { DEEPEST_JSON, given, isJsonObject, isTooDeep, type JsonValue } from '../../protocol/json.ts';
import type { Tool } from '../../protocol/tool.ts';
import type { ToolCall } from '../../protocol/turn.ts';
import type { Host } from '../driver/host.ts';
import { qualifyCalls } from '../services/qualify-calls.ts';
import type { Command, CommandOptions } from './command.ts';
import { type Refusal, refuse } from './explain-refusal.ts';

/** What an edit needs to know of the run it is made to. */
export type EditedRun = { context: Context; host: Host; connectTools(): Promise<ReadonlyMap<string, Tool>> };

/**
 * The transcript as somebody wants it. A call of its last turn that has no result gets the one the run has
 * for it already, and is run where there is none. Refused with `input-invalid` when it would not be one a
 * provider takes: an earlier call without a result, a result without a call.
 */
export async function editTranscript(
  items: readonly Item[],
  { context, host, connectTools }: EditedRun,
  { by }: CommandOptions = {},
): Promise<Command | Refusal> {
  const known = knownResults(context);
  const named = items.map(item => (item.id === undefined ? { ...item, id: host.newId('item') } : item));
  const repaired = answerEarlierCalls(named, known);
  const orphan = findOrphan(repaired) ?? findRepeated(repaired, context) ?? findReused(repaired, context);
  if (orphan !== null) return refuse('input-invalid', orphan);
  const open = unansweredCalls(repaired);
  const calls = await qualify(open, context, host, await connectTools());
  const results = open.flatMap(({ callId }) => known.get(callId) ?? []).map(keepResult);
  return {
    type: 'transcript.edited',
    items: repaired,
    calls,
    ...(results.length === 0 ? {} : { results }),
    ...given({ by }),
  };
}

/** The edit that runs a failed call of the last round again, under the same key. */
export async function retryCall(
  callId: string,
  run: EditedRun,
  said: CommandOptions = {},
): Promise<Command | Refusal> {
  const { transcript } = run.context;
  const failed = knownResults(run.context).get(callId);
  const last = transcript.findLastIndex(item => item.type === 'tool_call');
  const round = transcript.slice(startOfTurn(transcript, last), last + 1);
  if (!round.some(item => item.type === 'tool_call' && item.callId === callId)) {
    return refuse('call-not-open', `Call ${callId} is none of the last round: only those can be retried.`);
  }
  if (failed?.isError !== true) return refuse('call-not-open', `Call ${callId} has not failed.`);
  const made = round.find(item => item.type === 'tool_call' && item.callId === callId);
  const tool = made?.type === 'tool_call' ? (await run.connectTools()).get(made.name) : undefined;
  if (tool?.subAgent !== undefined) {
    return refuse('refused', `Call ${callId} is a run of another agent, which has ended: ask it anew.`);
  }
  const ofRound = new Set(round.flatMap(item => (item.type === 'tool_call' ? [item.callId] : [])));
  const without = transcript.filter(item => item.type !== 'tool_result' || !ofRound.has(item.callId));
  const edit = await editTranscript(without, run, said);
  if (!('type' in edit) || edit.type !== 'transcript.edited') return edit;
  return { ...edit, results: edit.results?.filter(result => result.callId !== callId) ?? [] };
}

function knownResults({ transcript }: Pick<Context, 'transcript'>): ReadonlyMap<string, ToolResultItem> {
  return new Map(
    transcript.flatMap(item => (item.type === 'tool_result' ? [[item.callId, item] as const] : [])),
  );
}

function keepResult(item: ToolResultItem) {
  return { callId: item.callId, ...resultOf(item) };
}

/** Results the run has for calls of earlier turns go right behind those turns. */
function answerEarlierCalls(items: readonly Item[], known: ReadonlyMap<string, ToolResultItem>): Item[] {
  const answered = answeredIds(items);
  const lastTurn = startOfTurn(
    items,
    items.findLastIndex(item => item.type === 'tool_call'),
  );
  const repaired: Item[] = [];
  const owed: ToolResultItem[] = [];
  for (const [place, item] of items.entries()) {
    if (!isOfModel(item)) repaired.push(...owed.splice(0));
    repaired.push(item);
    if (item.type !== 'tool_call' || answered.has(item.callId) || place >= lastTurn) continue;
    const result = known.get(item.callId);
    if (result !== undefined) owed.push(result);
  }
  return [...repaired, ...owed];
}

function answeredIds(items: readonly Item[]): Set<string> {
  return new Set(items.flatMap(item => (item.type === 'tool_result' ? [item.callId] : [])));
}

function unansweredCalls(items: readonly Item[]): ToolCallItem[] {
  const answered = answeredIds(items);
  return items.flatMap(item => (item.type === 'tool_call' && !answered.has(item.callId) ? [item] : []));
}

function findOrphan(items: readonly Item[]): string | null {
  const lastTurn = startOfTurn(
    items,
    items.findLastIndex(item => item.type === 'tool_call'),
  );
  const called = new Set<string>();
  const owed = new Set<string>();
  for (const [place, item] of items.entries()) {
    const [first] = place === lastTurn ? owed : [];
    if (first !== undefined)
      return `Call ${first} of an earlier turn has no result. Add one, or leave it out.`;
    if (item.type === 'tool_call') {
      called.add(item.callId);
      owed.add(item.callId);
    } else if (item.type === 'tool_result') {
      if (!called.has(item.callId)) return `There is a result of ${item.callId}, and no call before it.`;
      owed.delete(item.callId);
    }
  }
  return null;
}

/** One result cannot answer two calls. What came in with the run's input may be so. */
function findRepeated(items: readonly Item[], { transcript }: Context): string | null {
  const before = countCalls(transcript);
  for (const [callId, count] of countCalls(items)) {
    if (count > Math.max(1, before.get(callId) ?? 0))
      return `Call ${callId} is there ${count} times. Leave one, or give the others a callId of their own.`;
  }
  return null;
}

function countCalls(items: readonly Item[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const item of items) {
    if (item.type === 'tool_call') counts.set(item.callId, (counts.get(item.callId) ?? 0) + 1);
  }
  return counts;
}

/** A call that has happened keeps its arguments: its key stands for them. */
function findReused(items: readonly Item[], { transcript }: Context): string | null {
  const known = knownResults({ transcript });
  const made = new Map(
    transcript.flatMap(item => (item.type === 'tool_call' ? [[item.callId, item] as const] : [])),
  );
  for (const item of items) {
    if (item.type !== 'tool_call' || !known.has(item.callId)) continue;
    const before = made.get(item.callId);
    if (before === undefined || (before.name === item.name && before.arguments === item.arguments)) continue;
    return `Call ${item.callId} has happened with other arguments. Give the changed call another callId.`;
  }
  return null;
}

/** Where the model's turn that has the item at `place` begins. */
function startOfTurn(items: readonly Item[], place: number): number {
  let start = Math.max(0, place);
  while (start > 0 && isOfModel(items[start - 1])) start -= 1;
  return start;
}

function isOfModel(item: Item | undefined): boolean {
  switch (item?.type) {
    case 'message':
      return item.role === 'assistant';
    case 'reasoning':
    case 'tool_call':
    case 'provider_item':
      return true;
    default:
      return false;
  }
}

/** Calls that are open already stay as they were qualified. */
async function qualify(
  open: readonly ToolCallItem[],
  { runId, calls }: Context,
  host: Host,
  tools: ReadonlyMap<string, Tool>,
): Promise<QualifiedCall[]> {
  const fresh = await qualifyCalls(open.map(toolCallOf), { runId, now: host.now(), tools });
  return fresh.map(call => {
    const known = calls.find(({ callId, digest }) => callId === call.callId && digest === call.digest);
    if (known === undefined) return call;
    const { status, attempt, key, edited, doubt, childRunId, result, ...qualified } = known;
    return qualified;
  });
}

function toolCallOf({ callId, name, arguments: text }: ToolCallItem): ToolCall {
  const call = { callId, name, arguments: text, executedBy: 'engine' } as const;
  if (isTooDeep(text)) return { ...call, error: `they are nested more than ${DEEPEST_JSON} levels deep` };
  try {
    const input: JsonValue = JSON.parse(text.trim() === '' ? '{}' : text);
    return isJsonObject(input) ? { ...call, input } : { ...call, error: 'expected a JSON object' };
  } catch {
    return { ...call, error: 'they are not valid JSON' };
  }
}
