import { findCall, qualifiedOf, resultOf } from '../../machines/calls.ts';
import type { Context } from '../../machines/context.ts';
import { digestCall } from '../../protocol/content/digest.ts';
import type { QualifiedCall } from '../../protocol/event.ts';
import type { Item, MessageItem, ToolCallItem, ToolResultItem } from '../../protocol/item.ts';
import { DEEPEST_JSON, isJsonObject, isTooDeep, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { textOf } from '../../protocol/message.ts';
import {
  type CommandOptions,
  deciderOf,
  type EditCallOptions,
  type EditTurnOptions,
} from '../../protocol/run-command.ts';
import type { ToolCall } from '../../protocol/turn.ts';
import type { RunOptions } from '../driver/run-options.ts';
import type { Host } from '../host/host.ts';
import { addItemIds, type Command, checkEdit, readJson } from '../log/command.ts';
import { type Refusal, refuse, refuseUnknown } from '../log/refusal.ts';
import { qualifyCalls } from '../services/qualify-calls.ts';
import { toolsIn } from '../sub-agents/hand-back.ts';
import { knownOptions, refuseNoList } from './known-commands.ts';

type EditedRun = Pick<RunOptions, 'host' | 'connectTools' | 'rules' | 'loadPast'> & { context: Context };

/** A call of the last turn without a result gets the recorded one, or runs. Refuses what no provider would accept. */
export async function editTranscript(
  items: readonly Item[],
  run: EditedRun,
  options: CommandOptions,
): Promise<Command | Refusal> {
  const { context, host } = run;
  const decider = deciderOf(knownOptions('editTranscript', options));
  refuseNoList('run.editTranscript', items);
  const known = knownResults(context);
  const repaired = answerEarlierCalls(addItemIds(items, host), known);
  const fault = findUnpaired(repaired) ?? findRepeated(repaired, context) ?? findReused(repaired, context);
  if (fault !== null) return refuse('input-invalid', fault);
  const answered = answeredIds(repaired);
  const open = callsIn(repaired).filter(({ callId }) => !answered.has(callId));
  const made = callsIn(context.transcript);
  const left = open.filter(call => made.some(before => isSameCall(before, call)));
  const calls = await qualify(open, run, { left });
  const joined = findJoined(calls, context);
  if (joined !== null) return refuse('input-invalid', joined);
  const recalled = open.flatMap(({ callId }) => known.get(callId) ?? []);
  const results = recalled.map(item => ({ callId: item.callId, ...resultOf(item) }));
  const recorded = omitUndefined({ results: results.length === 0 ? undefined : results });
  return { type: 'transcript.edited', items: repaired, calls, ...recorded, ...decider };
}

/** The input that runs a failed call of the last round again, as it ran, under the same idempotency key. */
export async function retryCall(
  callId: string,
  run: EditedRun,
  options: CommandOptions = {},
): Promise<Command | Refusal> {
  const { transcript } = run.context;
  const failed = knownResults(run.context).get(callId);
  const round = callsIn(transcript.slice(startOfLastTurn(transcript)));
  const made = round.find(call => call.callId === callId);
  if (made === undefined)
    return refuse(
      'call-not-open',
      `Call ${callId} is not part of the last round. Only failed calls of the last round can be retried.`,
    );
  if (failed?.isError !== true)
    return refuse('call-not-open', `Call ${callId} has not failed. Only failed calls can be retried.`);
  const tool = (await run.connectTools()).get(made.name);
  if (tool?.subAgent !== undefined)
    return refuse(
      'refused',
      `Call ${callId} is a sub-agent's run, which has ended and cannot be retried. Send a message that asks for it again.`,
    );
  const ofRound = new Set(round.map(call => call.callId));
  const ran = run.context.edits.findLast(edit => edit.callId === callId);
  const without = transcript.flatMap((item): Item[] => {
    if (item.type === 'tool_result' && ofRound.has(item.callId)) return [];
    return [item === made && ran !== undefined ? callItem({ ...made, input: ran.input }) : item];
  });
  const edit = await editTranscript(without, run, options);
  if (!('type' in edit) || edit.type !== 'transcript.edited') return edit;
  return { ...edit, results: edit.results?.filter(result => result.callId !== callId) ?? [] };
}

function knownResults({ transcript }: Pick<Context, 'transcript'>): ReadonlyMap<string, ToolResultItem> {
  const results = transcript.filter(item => item.type === 'tool_result');
  return new Map(results.map(result => [result.callId, result]));
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

function callsIn(items: readonly Item[]): ToolCallItem[] {
  return items.filter(item => item.type === 'tool_call');
}

function answeredIds(items: readonly Item[]): Set<string> {
  return new Set(items.flatMap(item => (item.type === 'tool_result' ? [item.callId] : [])));
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
  const before = Map.groupBy(callsIn(transcript), ({ callId }) => callId);
  for (const [callId, { length }] of Map.groupBy(callsIn(items), call => call.callId))
    if (length > (before.get(callId)?.length ?? 1))
      return `Call ${callId} occurs ${length} times. Keep one, or give the others different call ids.`;
  return null;
}

/** A call that has run must keep its name and arguments: its idempotency key stands for them. One that was left out stays out. */
function findReused(items: readonly Item[], { transcript, calls, ledger, edits }: Context): string | null {
  const known = knownResults({ transcript });
  const answered = answeredIds(items);
  const made = new Map(callsIn(transcript).map(call => [call.callId, call]));
  for (const item of callsIn(items)) {
    const { callId } = item;
    const before = made.get(callId);
    const wasDone = ledger.fresh.some(deed => deed.callId === callId);
    if (before === undefined && wasDone && !answered.has(callId))
      return `Call ${callId} was already run, and its result is no longer in the transcript. Give the call a different call id, or leave it out.`;
    const hasRun = known.has(callId) || calls.some(call => call.callId === callId && call.attempt > 0);
    if (before === undefined || !hasRun || isSameCall(before, item)) continue;
    const ran = edits.findLast(edit => edit.callId === callId);
    if (ran === undefined || !isCallOf(item, { ...before, input: ran.input }))
      return `Call ${callId} was already run with other arguments. Give the changed call a different call id.`;
  }
  return null;
}

function isSameCall(one: ToolCallItem, other: ToolCallItem): boolean {
  return one.callId === other.callId && one.name === other.name && one.arguments === other.arguments;
}

function startOfLastTurn(items: readonly Item[]): number {
  let start = items.findLastIndex(item => item.type === 'tool_call');
  while (start > 0 && isOfModel(items[start - 1])) start -= 1;
  return Math.max(start, 0);
}

const OF_MODEL: ReadonlySet<string | undefined> = new Set(['reasoning', 'tool_call', 'provider_item']);

function isOfModel(item: Item | undefined): boolean {
  return OF_MODEL.has(item?.type) || (item !== undefined && isAnswer(item));
}

/**
 * A known call stays as it was qualified, unless `isAlone`: then it is qualified again, beside the others. `left`: those that
 * an edit leaves as the model made them, although their input may have been edited since.
 */
async function qualify(
  open: readonly ToolCallItem[],
  { context, host, connectTools, rules, loadPast }: EditedRun,
  { isAlone = false, left = [] }: { isAlone?: boolean; left?: readonly ToolCallItem[] } = {},
): Promise<QualifiedCall[]> {
  const { runId, runContext, calls } = context;
  const tools = toolsIn(await connectTools(), context);
  const ids = new Set(open.map(({ callId }) => callId));
  const joined = isAlone ? calls : calls.filter(({ callId }) => ids.has(callId));
  const fresh = await qualifyCalls(open.map(toolCallOf), {
    runId,
    runContext,
    now: host.now(),
    tools,
    rules: { rules, context, past: () => loadPast(context), open: joined },
  });
  if (isAlone) return fresh;
  return fresh.map(call => {
    const isLeft = left.some(({ callId }) => callId === call.callId);
    const known = calls.find(
      ({ callId, digest }) => callId === call.callId && (isLeft || digest === call.digest),
    );
    return known === undefined ? call : qualifiedOf(known);
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

/** A call that hands the conversation over stays alone in its turn: the sub-agent sees no call without a result. */
function findJoined(calls: readonly QualifiedCall[], context: Context): string | null {
  const handOff = calls.find(({ callId, answers }) => {
    const known = findCall(context, callId);
    return answers !== undefined && known !== undefined && known.status !== 'settled';
  });
  if (handOff === undefined || calls.length === 1) return null;
  return `Call ${handOff.callId} hands the conversation over, so it must be the only call of its turn. Leave it or the others out.`;
}

const MOST_CALLS = 1_000;

type NamedCall = { callId: string; name: string; input: JsonValue };

/** Changed calls are qualified again. Provider data is dropped after the first change: a signature covers what precedes it. */
export async function editTurn(options: EditTurnOptions, run: EditedRun): Promise<Command | Refusal> {
  const { context, host } = run;
  const { turn, text, calls } = options;
  const { lastTurn, runId, transcript } = context;
  const number = turn ?? context.turn.number;
  if (lastTurn?.from === undefined || number !== context.turn.number)
    return refuse(
      'refused',
      `Turn ${number} of run ${runId} cannot be edited: only the latest turn can, before a call of it starts.`,
    );
  if (isInTurn(context))
    return refuse('refused', `Turn ${number} of run ${runId} is not complete. Edit it once the run rests.`);
  const before = lastTurn.draft ? [] : transcript.slice(lastTurn.from);
  const named = calls === undefined ? context.calls : nameCalls(calls, before, context, host);
  if ('accepted' in named) return named;
  const items = rewriteItems(before, text, named);
  const qualified = await qualify(callsIn(items), run);
  const broken = qualified.find(
    ({ callId, digest, error }) => error !== undefined && findCall(context, callId)?.digest !== digest,
  );
  if (broken !== undefined)
    return refuse('input-invalid', `The edited call ${broken.callId} is not valid. ${broken.error}`);
  const joined = findJoined(qualified, context);
  if (joined !== null) return refuse('input-invalid', joined);
  return {
    type: 'turn.edited',
    turn: number,
    text: text ?? textOfTurn(before),
    items: addItemIds(items, host),
    calls: qualified,
    ...deciderOf(options),
  };
}

/** Whether the latest turn has no reply yet: `lastTurn` is then the one before. */
function isInTurn({ next, failure }: Context): boolean {
  return failure !== null || next?.type === 'callModel' || next?.type === 'streamFinal';
}

/** The input that replaces the input of a call. The call is qualified again: its approval predicate is asked again. */
export async function editCall(
  callId: string,
  options: EditCallOptions,
  run: EditedRun,
): Promise<Command | Refusal> {
  const { input: edited, digest } = options;
  const { context, connectTools } = run;
  const call = findCall(context, callId);
  const tools = async () => toolsIn(await connectTools(), context);
  const checked = await checkEdit(call, edited, tools);
  if (checked !== undefined && 'accepted' in checked) return checked;
  if (call === undefined || checked === undefined)
    return refuseUnknown(`open call ${JSON.stringify(callId)}`, context);
  const qualified = await requalify({ callId, name: call.name, input: checked.input }, run);
  if (qualified.verdicts !== undefined && qualified.error !== undefined)
    return refuse('refused', `Call ${callId} cannot have this input. ${qualified.error}`);
  const seen = digest ?? call.digest;
  return { type: 'call.edited', callId, digest: seen, call: qualified, ...deciderOf(options) };
}

/** The call as a turn that makes it with this input would have it. */
export async function requalify(call: NamedCall, run: EditedRun): Promise<QualifiedCall> {
  const [qualified] = await qualify([callItem(call)], run, { isAlone: true });
  if (qualified === undefined) throw new Error('Qualifying one call returned none.');
  return qualified;
}

function nameCalls(
  calls: NonNullable<EditTurnOptions['calls']>,
  before: readonly Item[],
  { transcript, ledger }: Context,
  host: Host,
): NamedCall[] | Refusal {
  if (calls.length > MOST_CALLS)
    return refuse('input-invalid', `Expected at most ${MOST_CALLS} calls, got ${calls.length}.`);
  const own = new Set(callsIn(before).map(({ callId }) => callId));
  const others = callsIn(transcript).filter(({ callId }) => !own.has(callId));
  const taken = new Set([...others, ...ledger.fresh].map(({ callId }) => callId));
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

function rewriteText(before: readonly Item[], text: string): Item[] {
  const items: Item[] = before.filter(item => !isAnswer(item));
  const first = before.findIndex(item => isAnswer(item) || item.type === 'tool_call');
  const place = first < 0 ? items.length : first;
  const message: MessageItem = { type: 'message', role: 'assistant', content: [{ type: 'text', text }] };
  return text === '' ? items : items.toSpliced(place, 0, message);
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
