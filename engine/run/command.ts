import { findCall } from '../../machines/calls.ts';
import type { Call, CallStatus, Context } from '../../machines/context.ts';
import type { ChartState } from '../../machines/step.ts';
import type { RunParams } from '../../protocol/config.ts';
import type { Effect } from '../../protocol/effect.ts';
import { messageOf } from '../../protocol/error.ts';
import { type ChartEvent, type InputEvent, inputEventSchema, type RunStarted } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import { given, type JsonValue, toBoundedJson } from '../../protocol/json.ts';
import { userMessage } from '../../protocol/message.ts';
import type { Tool } from '../../protocol/tool.ts';
import { fitsBytes, utf8Length } from '../../text/cut-text.ts';
import type { Host } from '../driver/host.ts';
import { digestCall } from '../journal/digest.ts';
import { type Refusal, refuse, type SubmitResult } from './explain-refusal.ts';
import { listOpenCalls } from './settled.ts';

/** Items. */
const MOST_UNREAD = 1_000;

/** In UTF-8. */
const LONGEST_REASON_BYTES = 100_000;

/** What people and clients say to a run, as the inputs the chart listens to. */

type Unstamped<Event> = Event extends Exclude<InputEvent, RunStarted> ? Omit<Event, 'at'> : never;

/** An input without its time. */
export type Command = Unstamped<InputEvent>;

/** `by` is who says it, for the journal and for whoever decides second. */
export type CommandOptions = { by?: string };

/** `runId`: the run the call belongs to, of the run itself and its sub-agents'; needed only where ids of calls are alike. */
type AboutCall = CommandOptions & { runId?: string };

/** `digest` is that of the call that was seen; without it, of the call as it is now. */
export type ApproveOptions = AboutCall & { input?: unknown; digest?: string; sticky?: boolean };
export type RejectOptions = AboutCall & { reason?: string; digest?: string; sticky?: boolean };
export type AnswerOptions = AboutCall & { output: unknown; isError?: boolean; digest?: string };
/** `force`: although an earlier attempt of the call may still act. */
export type Retry = { retry: true; force?: boolean };
export type Resolution = AboutCall & (Retry | { happened: true; output: unknown } | { failed: string });

/** A command about a call; its members are those of the method of that name. */
export type CallCommand = { callId: string } & (
  | ({ type: 'approve' } & ApproveOptions)
  | ({ type: 'reject' } & RejectOptions)
  | ({ type: 'answer' } & AnswerOptions)
  | ({ type: 'resolve' } & Resolution)
);

/** What can be said to a run, as data: what `run.submit` takes, and what clients send. */
export type RunCommand =
  | CallCommand
  | ({ type: 'send'; message: string | readonly Item[] } & CommandOptions)
  | ({ type: 'set-params'; params: RunParams } & CommandOptions)
  | ({ type: 'pause' | 'unpause' | 'step' } & CommandOptions)
  | ({ type: 'cancel'; reason?: string } & CommandOptions);

/** The calls that a command may be about, by where they stand. */
export const FITTING: Readonly<Record<CallCommand['type'], readonly CallStatus[]>> = {
  approve: ['gated'],
  reject: ['gated'],
  answer: ['gated', 'waiting'],
  resolve: ['doubted'],
};

/** Whether a command is about a call of the run itself, and not one of a sub-agent's. */
export function isOwnCall(command: CallCommand, ownId: string, context: Context): boolean {
  if (command.runId !== undefined) return command.runId === ownId;
  const call = findCall(context, command.callId);
  if (call === undefined || !FITTING[command.type].includes(call.status)) return false;
  return call.childRunId === undefined || ('digest' in command && call.digest === command.digest);
}

/** What makes a command an input of the state it meets. */
export type MakeCommand<State = ChartState> = (state: State) => Command;

/** `call` is the one the command is about, as it stands. */
export function makeDecision(
  command: CallCommand,
  call: Call | undefined,
  connectTools: () => Promise<ReadonlyMap<string, Tool>>,
): Command | Refusal | Promise<Command | Refusal> {
  switch (command.type) {
    case 'approve':
      return approveCall(command.callId, call, command, connectTools);
    case 'reject':
      return rejectCall(command.callId, call, command);
    case 'answer':
      return answerCall(command.callId, call, command);
    case 'resolve':
      return resolveDoubt(command.callId, command);
  }
}

export function makeInput(
  command: Exclude<RunCommand, CallCommand>,
  { host, graceMs }: { host: Host; graceMs: number },
): MakeCommand {
  const said = given({ by: command.by });
  switch (command.type) {
    case 'send': {
      const message = sendMessage(command.message, said, host);
      return () => message;
    }
    case 'set-params':
      return () => ({ type: 'params.changed', params: command.params, ...said });
    case 'pause':
      return () => ({ type: 'pause.requested', ...said });
    case 'unpause':
      return () => ({ type: 'run.unpaused', ...said });
    case 'step':
      return () => ({ type: 'step.requested', ...said });
    case 'cancel':
      return state =>
        state.hasTag('rest')
          ? cancelRun(state, command)
          : requestCancel(command, host.now() + graceMs + CANCEL_SLACK_MS);
  }
}

/** An edited input is validated before anything is said: it is refused if the tool does not take it. */
async function approveCall(
  callId: string,
  call: Call | undefined,
  { input, digest, by, sticky }: ApproveOptions,
  connectTools: () => Promise<ReadonlyMap<string, Tool>>,
): Promise<Command | Refusal> {
  const edit = input === undefined ? undefined : await checkEdit(call, input, connectTools);
  if (edit !== undefined && 'accepted' in edit) return edit;
  const decision = { type: 'approve', ...edit } as const;
  return { ...decide(callId, call, digest, by), decision, ...given({ sticky }) };
}

function rejectCall(
  callId: string,
  call: Call | undefined,
  { reason, digest, by, sticky }: RejectOptions,
): Command {
  const decision = { type: 'reject', ...given({ reason }) } as const;
  return { ...decide(callId, call, digest, by), decision, ...given({ sticky }) };
}

/** A gated call is answered by a decision, one that the client runs by its result. */
function answerCall(
  callId: string,
  call: Call | undefined,
  { output, isError = false, digest, by }: AnswerOptions,
): Command | Refusal {
  const read = readJson(output);
  if ('accepted' in read) return read;
  if (call?.status === 'waiting') {
    return { type: 'result.received', callId, output: read.json, isError, ...given({ by }) };
  }
  return { ...decide(callId, call, digest, by), decision: { type: 'answer', output: read.json } };
}

function resolveDoubt(callId: string, resolution: Resolution): Command | Refusal {
  const named = nameResolution(resolution);
  if ('accepted' in named) return named;
  return { type: 'doubt.resolved', callId, resolution: named, ...given({ by: resolution.by }) };
}

export function sendMessage(message: string | readonly Item[], { by }: CommandOptions, host: Host): Command {
  const items = typeof message === 'string' ? [userMessage(message)] : message;
  const named = items.map(item => (item.id === undefined ? { ...item, id: host.newId('item') } : item));
  return { type: 'message.received', items: named, ...given({ by }) };
}

export function cancelRun(
  { context }: ChartState,
  { reason, by }: CommandOptions & { reason?: string },
): Extract<Command, { type: 'run.cancelled' }> {
  const unsettled = listOpenCalls(context).map(call => call.callId);
  return { type: 'run.cancelled', unsettled, ...given({ reason, by }) };
}

/** Beyond the grace time of the tools, for a request to cancel to be seen and the end to be recorded, in ms. */
export const CANCEL_SLACK_MS = 2_000;

/** `deadline`: from when on, ms since the epoch, anybody may end the run. */
export function requestCancel(
  { reason, by }: CommandOptions & { reason?: string },
  deadline: number,
): Command {
  return { type: 'cancel.requested', deadline, ...given({ reason, by }) };
}

export function stampCommand(command: Command, at: number): ChartEvent {
  return { ...command, at } as ChartEvent;
}

/** Commands as inputs: each made of the state that those before it lead to. */
export type FoldedCommands<State> = {
  events: ChartEvent[];
  /** What all of them lead to; `null` when the chart does not take one of them. */
  state: State | null;
  effects: readonly Effect[];
};

type Folds<State> = {
  next(state: State, event: ChartEvent): { state: State; effects: readonly Effect[]; handled: boolean };
  findOverflow(state: State, event: ChartEvent): Refusal | null;
};

/** Gives a refusal instead for an input that could not be read back, and for a message where too many are unread. */
export function foldCommands<State>(
  chart: Folds<State>,
  before: State,
  makes: readonly MakeCommand<State>[],
  at: number,
): FoldedCommands<State> | Exclude<SubmitResult, { accepted: true }> {
  const events: ChartEvent[] = [];
  const effects: Effect[] = [];
  let state = before;
  let isTaken = true;
  for (const [index, make] of makes.entries()) {
    const event = stampCommand(make(state), at);
    const fault = findFault(event);
    if (fault !== null) return { ...fault, index };
    const step = chart.next(state, event);
    const overflow = step.handled ? chart.findOverflow(state, event) : null;
    if (overflow !== null) return { ...overflow, index };
    if (step.handled) state = step.state;
    else isTaken = false;
    events.push(event);
    effects.push(...step.effects);
  }
  return { events, state: isTaken ? state : null, effects };
}

/** Each further message copies those that are unread. Journals may have more: they are read as they are. */
export function findOverflow(
  { context: { runId, inbox } }: ChartState,
  { type }: ChartEvent,
): Refusal | null {
  if (type !== 'message.received' || inbox.length < MOST_UNREAD) return null;
  return refuse(
    'inbox-full',
    `Run ${runId} has ${inbox.length} unread messages, and takes no more before it reads them: see what it waits for.`,
  );
}

/** What is journaled can be read back: nobody's input may end the driving for everybody. */
export function findFault(event: ChartEvent): Refusal | null {
  const issue = inputEventSchema.safeParse(event).error?.issues[0];
  const reason = reasonOf(event);
  if (!fitsBytes(reason, LONGEST_REASON_BYTES))
    return refuse(
      'input-invalid',
      `${event.type}: the reason may have ${LONGEST_REASON_BYTES} bytes; it has ${utf8Length(reason)}.`,
    );
  if (issue === undefined) return null;
  return refuse('input-invalid', `${event.type}: ${issue.path.join('.')} is not valid: ${issue.message}`);
}

/** Why a call was rejected, or has failed: the model reads it as the call's result. */
function reasonOf(event: ChartEvent): string {
  if (event.type === 'approval.decided' && event.decision.type === 'reject')
    return event.decision.reason ?? '';
  return event.type === 'doubt.resolved' && event.resolution.type === 'failed' ? event.resolution.reason : '';
}

function decide(callId: string, call: Call | undefined, digest: string | undefined, by: string | undefined) {
  const seen = digest ?? call?.digest ?? '';
  return { type: 'approval.decided', callId, digest: seen, ...given({ by }) } as const;
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
  if ('retry' in resolution)
    return {
      type: 'retry',
      ...given({ force: resolution.force === true ? (true as const) : undefined }),
    } as const;
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
