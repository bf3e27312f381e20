import type { Call } from '../machines/context.ts';
import type { ChartState } from '../machines/step.ts';
import { messageOf } from '../protocol/error.ts';
import { type ChartEvent, type InputEvent, inputEventSchema, type RunStarted } from '../protocol/event.ts';
import type { Item } from '../protocol/item.ts';
import { type JsonValue, toBoundedJson } from '../protocol/json.ts';
import { userMessage } from '../protocol/message.ts';
import type { Tool } from '../protocol/tool.ts';
import { digestCall } from './digest.ts';
import { type Refusal, refuse } from './explain-refusal.ts';
import type { Host } from './host.ts';
import { listOpenCalls } from './settled.ts';

/** What people and clients say to a run, as the inputs the chart listens to. */

type Unstamped<Event> = Event extends Exclude<InputEvent, RunStarted> ? Omit<Event, 'at'> : never;

/** An input without its time. */
export type Command = Unstamped<InputEvent>;

/** `by` is who says it, for the journal and for whoever decides second. */
export type Said = { by?: string };

/** `runId`: the run the call belongs to, of the run itself and its sub-agents'; needed only where ids of calls are alike. */
type AboutCall = Said & { runId?: string };

/** `digest` is that of the call that was seen; without it, of the call as it is now. */
export type ApproveOptions = AboutCall & { input?: unknown; digest?: string; sticky?: boolean };
export type RejectOptions = AboutCall & { reason?: string; digest?: string; sticky?: boolean };
export type AnswerOptions = AboutCall & { output: unknown; isError?: boolean; digest?: string };
export type Resolution = AboutCall &
  ({ retry: true } | { happened: true; output: unknown } | { failed: string });

/** An edited input is validated before anything is said: it is refused if the tool does not take it. */
export async function approveCall(
  callId: string,
  call: Call | undefined,
  { input, digest, by, sticky }: ApproveOptions,
  connectTools: () => Promise<ReadonlyMap<string, Tool>>,
): Promise<Command | Refusal> {
  const edit = input === undefined ? undefined : await checkEdit(call, input, connectTools);
  if (edit !== undefined && 'accepted' in edit) return edit;
  const decision = { type: 'approve', ...edit } as const;
  return { ...decide(callId, call, digest, by), decision, ...given('sticky', sticky) };
}

export function rejectCall(
  callId: string,
  call: Call | undefined,
  { reason, digest, by, sticky }: RejectOptions,
): Command {
  const decision = { type: 'reject', ...given('reason', reason) } as const;
  return { ...decide(callId, call, digest, by), decision, ...given('sticky', sticky) };
}

/** A gated call is answered by a decision, one that the client runs by its result. */
export function answerCall(
  callId: string,
  call: Call | undefined,
  { output, isError = false, digest, by }: AnswerOptions,
): Command | Refusal {
  const read = readJson(output);
  if ('accepted' in read) return read;
  if (call?.status === 'waiting') {
    return { type: 'result.received', callId, output: read.json, isError, ...given('by', by) };
  }
  return { ...decide(callId, call, digest, by), decision: { type: 'answer', output: read.json } };
}

export function resolveDoubt(callId: string, resolution: Resolution): Command | Refusal {
  const named = nameResolution(resolution);
  if ('accepted' in named) return named;
  return { type: 'doubt.resolved', callId, resolution: named, ...given('by', resolution.by) };
}

export function sendMessage(message: string | readonly Item[], { by }: Said, host: Host): Command {
  const items = typeof message === 'string' ? [userMessage(message)] : message;
  const named = items.map(item => (item.id === undefined ? { ...item, id: host.newId('item') } : item));
  return { type: 'message.received', items: named, ...given('by', by) };
}

export function steer(type: 'pause.requested' | 'step.requested' | 'run.unpaused', { by }: Said): Command {
  return { type, ...given('by', by) };
}

export function cancelRun({ context }: ChartState, { reason, by }: Said & { reason?: string }): Command {
  const unsettled = listOpenCalls(context).map(call => call.callId);
  return { type: 'run.cancelled', unsettled, ...given('reason', reason), ...given('by', by) };
}

export function stampCommand(command: Command, at: number): ChartEvent {
  return { ...command, at } as ChartEvent;
}

/** What is journaled can be read back: nobody's input may end the driving for everybody. */
export function findFault(event: ChartEvent): Refusal | null {
  const issue = inputEventSchema.safeParse(event).error?.issues[0];
  if (issue === undefined) return null;
  return refuse('input-invalid', `${event.type}: ${issue.path.join('.')} is not valid: ${issue.message}`);
}

function decide(callId: string, call: Call | undefined, digest: string | undefined, by: string | undefined) {
  const seen = digest ?? call?.digest ?? '';
  return { type: 'approval.decided', callId, digest: seen, ...given('by', by) } as const;
}

function given<Key extends string, Value>(key: Key, value: Value | undefined): { [key in Key]?: Value } {
  return value === undefined ? {} : ({ [key]: value } as { [key in Key]: Value });
}

async function checkEdit(
  call: Call | undefined,
  edited: unknown,
  connectTools: () => Promise<ReadonlyMap<string, Tool>>,
): Promise<{ input: JsonValue; editDigest: string } | Refusal | undefined> {
  if (call === undefined) return undefined;
  const { name } = call;
  const read = readJson(edited);
  if ('accepted' in read) return read;
  const input = read.json;
  const tool = (await connectTools()).get(name);
  if (tool === undefined) {
    return refuse('input-invalid', `The edited input cannot be checked: the agent has no tool ${name}.`);
  }
  const validation = await tool.validate(input);
  if (validation.valid) return { input, editDigest: digestCall(name, input) };
  return refuse('input-invalid', `The edited input is not valid for ${name}: ${validation.message}`);
}

function nameResolution(resolution: Resolution) {
  if ('retry' in resolution) return { type: 'retry' } as const;
  if ('failed' in resolution) return { type: 'failed', reason: resolution.failed } as const;
  const read = readJson(resolution.output);
  return 'accepted' in read ? read : ({ type: 'happened', output: read.json } as const);
}

function readJson(value: unknown): { json: JsonValue } | Refusal {
  try {
    return { json: toBoundedJson(value) };
  } catch (error) {
    return refuse('input-invalid', `Expected a value JSON can carry: ${messageOf(error)}.`);
  }
}
