import { resultOf } from '../../../machines/calls.ts';
import type { Context } from '../../../machines/context.ts';
import type { QualifiedCall } from '../../../protocol/event.ts';
import type { Item, ToolCallItem, ToolResultItem } from '../../../protocol/item.ts';
import {
  DEEPEST_JSON,
  isJsonObject,
  isTooDeep,
  type JsonValue,
  omitUndefined,
} from '../../../protocol/json.ts';
import type { CommandOptions } from '../../../protocol/run-command.ts';
import type { Tool } from '../../../protocol/tool.ts';
import type { ToolCall } from '../../../protocol/turn.ts';
import type { Host } from '../../host/host.ts';
import { addItemIds, type Command } from '../../log/command.ts';
import { type Refusal, refuse } from '../../log/refusal.ts';
import { qualifyCalls } from '../../services/qualify-calls.ts';
import { knownOptions } from '../known-commands.ts';

/** The run that people edit, and what qualifies its calls. */
export type EditedRun = { context: Context; host: Host; connectTools(): Promise<ReadonlyMap<string, Tool>> };

/**
 * The input that replaces a run's transcript. A call of the last turn without a result gets the run's recorded
 * result, or is run if there is none. Refused with `input-invalid` if no provider would accept the transcript: an
 * earlier call without a result, a result without a call, a call id used twice.
 */
export async function editTranscript(
  items: readonly Item[],
  { context, host, connectTools }: EditedRun,
  options: CommandOptions,
): Promise<Command | Refusal> {
  const { by } = knownOptions('editTranscript', options);
  const known = knownResults(context);
  const repaired = answerEarlierCalls(addItemIds(items, host), known);
  const fault = findUnpaired(repaired) ?? findRepeated(repaired, context) ?? findReused(repaired, context);
  if (fault !== null) return refuse('input-invalid', fault);
  const open = unansweredCalls(repaired);
  const calls = await qualify(open, context, host, await connectTools());
  const results = open.flatMap(({ callId }) => known.get(callId) ?? []).map(keepResult);
  const recorded = omitUndefined({ results: results.length === 0 ? undefined : results, by });
  return { type: 'transcript.edited', items: repaired, calls, ...recorded };
}

/** The input that runs a failed call of the last round again, under the same idempotency key. */
export async function retryCall(
  callId: string,
  run: EditedRun,
  options: CommandOptions = {},
): Promise<Command | Refusal> {
  const { transcript } = run.context;
  const failed = knownResults(run.context).get(callId);
  const round = callsIn(transcript.slice(startOfLastTurn(transcript)));
  const made = round.find(call => call.callId === callId);
  if (made === undefined) {
    return refuse(
      'call-not-open',
      `Call ${callId} is not part of the last round. Only failed calls of the last round can be retried.`,
    );
  }
  if (failed?.isError !== true)
    return refuse('call-not-open', `Call ${callId} has not failed. Only failed calls can be retried.`);
  const tool = (await run.connectTools()).get(made.name);
  if (tool?.subAgent !== undefined) {
    return refuse(
      'refused',
      `Call ${callId} is a sub-agent's run, which has ended and cannot be retried. Send a message that asks for it again.`,
    );
  }
  const ofRound = new Set(round.map(call => call.callId));
  const without = transcript.filter(item => item.type !== 'tool_result' || !ofRound.has(item.callId));
  const edit = await editTranscript(without, run, options);
  if (!('type' in edit) || edit.type !== 'transcript.edited') return edit;
  return { ...edit, results: edit.results?.filter(result => result.callId !== callId) ?? [] };
}

function knownResults({ transcript }: Pick<Context, 'transcript'>): ReadonlyMap<string, ToolResultItem> {
  const results = transcript.filter(item => item.type === 'tool_result');
  return new Map(results.map(result => [result.callId, result]));
}

function keepResult(item: ToolResultItem) {
  return { callId: item.callId, ...resultOf(item) };
}

/** Adds the run's recorded results of earlier turns' calls, each right after its turn. */
function answerEarlierCalls(items: readonly Item[], known: ReadonlyMap<string, ToolResultItem>): Item[] {
  const answered = answeredIds(items);
  const lastTurn = startOfLastTurn(items);
  const repaired: Item[] = [];
  const missing: ToolResultItem[] = [];
  for (const [index, item] of items.entries()) {
    if (!isOfModel(item)) repaired.push(...missing.splice(0));
    repaired.push(item);
    if (item.type !== 'tool_call' || answered.has(item.callId) || index >= lastTurn) continue;
    const result = known.get(item.callId);
    if (result !== undefined) missing.push(result);
  }
  return [...repaired, ...missing];
}

/** The calls among items. */
export function callsIn(items: readonly Item[]): ToolCallItem[] {
  return items.filter(item => item.type === 'tool_call');
}

function answeredIds(items: readonly Item[]): Set<string> {
  return new Set(items.flatMap(item => (item.type === 'tool_result' ? [item.callId] : [])));
}

function unansweredCalls(items: readonly Item[]): ToolCallItem[] {
  const answered = answeredIds(items);
  return callsIn(items).filter(({ callId }) => !answered.has(callId));
}

function findUnpaired(items: readonly Item[]): string | null {
  const lastTurn = startOfLastTurn(items);
  const called = new Set<string>();
  const unanswered = new Set<string>();
  for (const [index, item] of items.entries()) {
    const [first] = index === lastTurn ? unanswered : [];
    if (first !== undefined)
      return `Call ${first} of an earlier turn has no result. Add a result, or remove the call.`;
    if (item.type === 'tool_call') {
      called.add(item.callId);
      unanswered.add(item.callId);
    } else if (item.type === 'tool_result') {
      if (!called.has(item.callId))
        return `The result of call ${item.callId} has no call before it. Add the call, or remove the result.`;
      unanswered.delete(item.callId);
    }
  }
  return null;
}

/** One result cannot answer two calls. Ids that the run's transcript already repeats may stay repeated. */
function findRepeated(items: readonly Item[], { transcript }: Context): string | null {
  const before = countCalls(transcript);
  for (const [callId, count] of countCalls(items)) {
    if (count > (before.get(callId) ?? 1))
      return `Call ${callId} occurs ${count} times. Keep one, or give the others different call ids.`;
  }
  return null;
}

function countCalls(items: readonly Item[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { callId } of callsIn(items)) counts.set(callId, (counts.get(callId) ?? 0) + 1);
  return counts;
}

/** A call with a result must keep its name and arguments: its idempotency key stands for them. */
function findReused(items: readonly Item[], { transcript }: Context): string | null {
  const known = knownResults({ transcript });
  const made = new Map(callsIn(transcript).map(call => [call.callId, call]));
  for (const item of callsIn(items)) {
    if (!known.has(item.callId)) continue;
    const before = made.get(item.callId);
    if (before === undefined || (before.name === item.name && before.arguments === item.arguments)) continue;
    return `Call ${item.callId} was already run with other arguments. Give the changed call a different call id.`;
  }
  return null;
}

/** The index of the first item of the last model turn with calls; 0 without calls. */
function startOfLastTurn(items: readonly Item[]): number {
  let start = Math.max(
    0,
    items.findLastIndex(item => item.type === 'tool_call'),
  );
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

/** Qualifies the open calls; a call that the run has qualified before keeps that. */
export async function qualify(
  open: readonly ToolCallItem[],
  { runId, runContext, calls }: Pick<Context, 'runId' | 'runContext' | 'calls'>,
  host: Host,
  tools: ReadonlyMap<string, Tool>,
): Promise<QualifiedCall[]> {
  const fresh = await qualifyCalls(open.map(toolCallOf), { runId, runContext, now: host.now(), tools });
  return fresh.map(call => {
    const known = calls.find(({ callId, digest }) => callId === call.callId && digest === call.digest);
    if (known === undefined) return call;
    const { status, attempt, key, edited, doubt, childRunId, result, ...qualified } = known;
    return qualified;
  });
}

/** The call of an item, with its parsed arguments or what is wrong with them. */
export function toolCallOf({ callId, name, arguments: text }: ToolCallItem): ToolCall {
  const call = { callId, name, arguments: text, executedBy: 'engine' } as const;
  if (isTooDeep(text)) return { ...call, error: `they are nested more than ${DEEPEST_JSON} levels deep` };
  try {
    const input: JsonValue = JSON.parse(text.trim() === '' ? '{}' : text);
    return isJsonObject(input) ? { ...call, input } : { ...call, error: 'expected a JSON object' };
  } catch {
    return { ...call, error: 'they are not valid JSON' };
  }
}
