import { findCall } from '../../machines/calls.ts';
import type { Call, Context } from '../../machines/context.ts';
import { dutiesOf, findBar, hasDuties } from '../../machines/duties.ts';
import { describeCancel } from '../../machines/settled.ts';
import { type ChartState, next } from '../../machines/step.ts';
import { digestCall } from '../../protocol/content/digest.ts';
import type { Effect } from '../../protocol/effect.ts';
import { EngineError, messageOf } from '../../protocol/error.ts';
import {
  type ChartEvent,
  type CommandEvent,
  type InputEvent,
  inputEventSchema,
  type QualifiedCall,
  type RunStarted,
} from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import { isJsonObject, type JsonValue, omitUndefined, toBoundedJson } from '../../protocol/json.ts';
import { userMessage } from '../../protocol/message.ts';
import {
  type CallCommand,
  type CancelOptions,
  type CommandOptions,
  deciderOf,
  type Resolution,
  type RunCommand,
  senderOf,
} from '../../protocol/run-command.ts';
import { createJsonCheck } from '../../protocol/schemas/check-json.ts';
import type { Tool } from '../../protocol/tool.ts';
import { fitsBytes, utf8Length } from '../../text/cut-text.ts';
import type { Host } from '../host/host.ts';
import { maxResultBytesOf, type RunBlobs } from '../journal/run-blobs.ts';
import { type Refusal, refuse, refuseOther, type SubmitResult } from './refusal.ts';
import { recordRequest } from './request-ids.ts';

/* Turns the commands of people and clients into input events of the chart. */

const MAX_UNREAD = 1_000;

/** In bytes of UTF-8. */
const MAX_REASON_BYTES = 100_000;

type Unstamped<Event> = Event extends RunStarted ? never : Omit<Event, 'at'>;

export type Command = Unstamped<Extract<CommandEvent, InputEvent | { type: 'run.noted' }>>;

export type MakeCommand = (state: ChartState) => Command;

export async function makeDecision(
  command: Exclude<CallCommand, { type: 'edit-call' }>,
  call: Call | undefined,
  {
    connectTools,
    judge,
    people,
    now,
  }: { connectTools: ConnectTools; judge: JudgeEdit; people: Context['people']; now: number },
): Promise<Command | Refusal> {
  const { callId } = command;
  const decider = deciderOf(command);
  if (command.type === 'resolve') {
    const resolution = await makeResolution(command, call, connectTools);
    return 'accepted' in resolution ? resolution : { type: 'doubt.resolved', callId, resolution, ...decider };
  }
  if ('answers' in command || (command.type === 'reject' && call?.status === 'asking'))
    return await makeAnswers(command, call, people, now);
  const digest = command.digest ?? call?.digest ?? '';
  const decided = { type: 'approval.decided', callId, digest, ...decider } as const;
  switch (command.type) {
    case 'approve': {
      const { input, answer, sticky } = command;
      if (answer !== undefined)
        return refuse(
          'input-invalid',
          `${callId} names a call: expected "input", which replaces its input, and not "answer".`,
        );
      const edit = input === undefined ? undefined : await checkEdit(call, input, connectTools, judge);
      if (edit !== undefined && 'accepted' in edit) return edit;
      return { ...decided, decision: { type: 'approve', ...edit }, ...omitUndefined({ sticky }) };
    }
    case 'reject': {
      const { reason, sticky, to } = command;
      if (to === 'question')
        return refuse(
          'not-allowed',
          `Call ${callId} asks nothing, and you may not decide it. It waits for someone who may.`,
        );
      const decision = { type: 'reject', ...omitUndefined({ reason }) } as const;
      return { ...decided, decision, ...omitUndefined({ sticky }) };
    }
    // A gated call is answered with a decision, and a client tool's call with its result.
    case 'answer': {
      const { output, isError = false, to } = command;
      if (to === 'result' && call?.status !== 'waiting')
        return refuse(
          'not-allowed',
          `Call ${callId} does not wait for a result, and you may not decide it. It waits for someone who may.`,
        );
      if (call?.status === 'waiting' && digest !== call.digest) return refuseOther(call);
      const read = await checkOutput(isError ? undefined : call, output, connectTools);
      if ('accepted' in read) return read;
      const { json } = read;
      if (call?.status === 'waiting')
        return { type: 'result.received', callId, output: json, isError, ...senderOf(command) };
      return { ...decided, decision: { type: 'answer', output: json, ...(isError && { isError }) } };
    }
  }
}

/** The largest answers of one command, in bytes of their JSON. */
const LARGEST_ANSWERS_BYTES = 1_000_000;

/** Answers to what the tool of a call asks. To reject declines each open question that this person may answer. */
async function makeAnswers(
  command: Extract<CallCommand, { type: 'reject' } | { answers: object }>,
  call: Call | undefined,
  people: Context['people'],
  now: number,
): Promise<Command | Refusal> {
  const { callId } = command;
  const { digest = '', questions = [] } = call?.asked ?? {};
  const answered = {
    type: 'question.answered',
    callId,
    digest: command.digest ?? digest,
    ...deciderOf(command),
  } as const;
  if (command.type === 'reject') {
    const { reason, sticky } = command;
    if (sticky === true)
      return refuse('input-invalid', `Call ${callId} asks a question: to decline it applies to no others.`);
    const own = questions.filter(
      question =>
        findBar(question, people, answered) === null &&
        now < (question.expiresAt ?? Number.POSITIVE_INFINITY),
    );
    const declined = { type: 'declined', ...omitUndefined({ reason }) } as const;
    const keys = (own.length === 0 ? questions : own).map(({ key }) => key);
    return { ...answered, answers: Object.fromEntries(keys.map(key => [key, declined])) };
  }
  const read = readJson(command.answers);
  if ('accepted' in read) return read;
  const given = isJsonObject(read.json) ? Object.entries(read.json) : [];
  if (given.length === 0 || !fitsBytes(JSON.stringify(read.json), LARGEST_ANSWERS_BYTES))
    return refuse(
      'input-invalid',
      `Expected "answers" to be an object with a value for each key, of at most ${LARGEST_ANSWERS_BYTES} bytes.`,
    );
  for (const [key, value] of given) {
    const question = questions.find(one => one.key === key);
    if (question === undefined) continue;
    const { problems } = await createJsonCheck(question.schema)(value);
    if (problems.length > 0)
      return refuse('input-invalid', `The answer to "${key}" is not valid: ${problems.join(', ')}.`);
  }
  const answers = given.map(([key, value]) => [key, { type: 'given', value }] as const);
  return { ...answered, answers: Object.fromEntries(answers) };
}

async function makeResolution(resolution: Resolution, call: Call | undefined, connectTools: ConnectTools) {
  if ('retry' in resolution) {
    const force = resolution.force === true ? (true as const) : undefined;
    return { type: 'retry', ...omitUndefined({ force }) } as const;
  }
  if ('failed' in resolution) return { type: 'failed', reason: resolution.failed } as const;
  const read = await checkOutput(call, resolution.output, connectTools);
  return 'accepted' in read ? read : ({ type: 'happened', output: read.json } as const);
}

export function makeInput(
  command: Exclude<RunCommand, CallCommand | { type: 'edit-turn' }>,
  { host, graceMs }: { host: Host; graceMs: number },
): MakeCommand {
  const by = command.type === 'note' ? { by: command.by } : senderOf(command);
  switch (command.type) {
    case 'send': {
      const message = sendMessage(command.message, by, host);
      return () => message;
    }
    case 'set-params':
      return () => ({ type: 'params.changed', params: command.params, ...by });
    case 'breakpoints':
      return () => ({ type: 'breakpoints.set', breakpoints: [...command.breakpoints], ...by });
    case 'pause':
      return () => ({ type: 'pause.requested', ...by });
    case 'unpause':
      return () => ({ type: 'run.unpaused', ...by });
    case 'step':
      return () => ({ type: 'step.requested', ...by });
    case 'sign-in': {
      const decider = deciderOf(command);
      return () => ({ type: 'sign-in.completed', server: command.server, ...decider });
    }
    case 'note':
      return () => ({ type: 'run.noted', note: command.note, by: command.by });
    case 'cancel':
      return state =>
        state.hasTag('rest')
          ? cancelRun(state, command)
          : requestCancel(command, { now: host.now(), graceMs });
  }
}

export type CommandInput = Exclude<
  InputEvent,
  { type: 'run.started' | 'run.quarantined' | 'cancel.requested' | 'transcript.edited' }
>;

/**
 * Returns the command that gives the same input again, in a run that has come as far. Throws for the outcome of work in the
 * background: only the run that did it can give it.
 */
export function repeatCommand(event: CommandInput): RunCommand {
  const sender = personIn(event);
  switch (event.type) {
    case 'message.received':
      if (event.from !== undefined)
        throw new Error(`the outcome of the work of call ${event.from.callId} is not a command`);
      return { type: 'send', message: event.items, ...sender };
    case 'approval.decided': {
      const { callId, decision } = event;
      const options = { callId, ...omitUndefined({ sticky: event.sticky }) };
      if (decision.type === 'approve')
        return { type: 'approve', ...options, ...omitUndefined({ input: decision.input }), ...sender };
      if (decision.type === 'reject')
        return { type: 'reject', ...options, ...omitUndefined({ reason: decision.reason }), ...sender };
      return { type: 'answer', callId, output: decision.output, ...sender };
    }
    case 'review.decided': {
      const { reviewId: callId, decision } = event;
      if (decision.type === 'reject')
        return { type: 'reject', callId, ...omitUndefined({ reason: decision.reason }), ...sender };
      const answer = decision.type === 'approve' ? decision.text : undefined;
      return { type: 'approve', callId, ...omitUndefined({ answer }), ...sender };
    }
    case 'sign-in.completed':
      return { type: 'sign-in', server: event.server, ...sender };
    case 'question.answered': {
      const { callId } = event;
      const all = Object.entries(event.answers);
      const given = all.flatMap(([key, its]) => (its.type === 'given' ? [[key, its.value] as const] : []));
      if (given.length > 0) return { type: 'answer', callId, answers: Object.fromEntries(given), ...sender };
      const reason = all.flatMap(([, its]) => (its.type === 'declined' ? (its.reason ?? []) : []))[0];
      return { type: 'reject', callId, ...omitUndefined({ reason }), ...sender };
    }
    case 'result.received': {
      const { callId, output, isError } = event;
      return { type: 'answer', callId, output, isError, ...sender };
    }
    case 'doubt.resolved':
      return { type: 'resolve', callId: event.callId, ...repeatResolution(event.resolution), ...sender };
    case 'turn.edited': {
      const calls = event.calls.map(({ callId, name, input }) => ({ callId, name, input }));
      return { type: 'edit-turn', text: event.text, calls, ...sender };
    }
    case 'call.edited':
      return { type: 'edit-call', callId: event.callId, input: event.call.input, ...sender };
    case 'breakpoints.set':
      return { type: 'breakpoints', breakpoints: event.breakpoints, ...sender };
    case 'params.changed':
      return { type: 'set-params', params: event.params, ...sender };
    case 'pause.requested':
      return { type: 'pause', ...sender };
    case 'step.requested':
      return { type: 'step', ...sender };
    case 'run.unpaused':
      return { type: 'unpause', ...sender };
    case 'run.cancelled':
      return { type: 'cancel', ...sender, ...omitUndefined({ reason: event.reason }) };
  }
}

function personIn(event: CommandInput): Pick<CommandOptions, 'by' | 'as'> {
  const { by } = event;
  if (by === undefined || !('known' in event)) return omitUndefined({ by });
  return { as: { name: by, ...omitUndefined({ groups: event.groups, known: event.known }) } };
}

function repeatResolution(
  resolution: Extract<CommandInput, { type: 'doubt.resolved' }>['resolution'],
): Resolution {
  if (resolution.type === 'retry') return { retry: true, force: true };
  if (resolution.type === 'failed') return { failed: resolution.reason };
  return { happened: true, output: resolution.output };
}

/** The input that delivers a message. A text becomes a user message; items without an id get one. */
export function sendMessage(
  message: string | readonly Item[],
  options: Pick<CommandOptions, 'by' | 'as'>,
  host: Host,
): Extract<Command, { type: 'message.received' }> {
  const items = addItemIds(itemsOf(message), host);
  return { type: 'message.received', items, ...senderOf(options) };
}

/** The items of an input: a text becomes a user message. Throws `input-invalid` for what is neither a text nor a list. */
export function itemsOf(input: string | readonly Item[]): readonly Item[] {
  if (typeof input === 'string') return [userMessage(input)];
  if (Array.isArray(input)) return input;
  const message = `Expected the input to be a text or a list of items, got ${JSON.stringify(input)}.`;
  throw new EngineError('input-invalid', message);
}

export function addItemIds(items: readonly Item[], host: Host): Item[] {
  return items.map(item => (item?.id === undefined ? { ...item, id: host.newId('item') } : item));
}

export function cancelRun(
  { context }: ChartState,
  options: CancelOptions,
): Extract<Command, { type: 'run.cancelled' }> {
  const { reason, by, as, requestId, afterCalls } = options;
  const request = recordRequest({ type: 'cancel', reason, by, as, requestId, afterCalls });
  return { ...describeCancel(context, { ...omitUndefined({ reason }), ...senderOf(options) }), ...request };
}

/** Time for the driver to see a cancel request and to record the end, on top of the tools' grace time, in ms. */
const CANCEL_SLACK_MS = 2_000;

/** How long a run that is cancelled after its calls waits for them, in ms: as long as the slowest call of an MCP server. */
export const CALLS_MS = 30 * 60_000;

/** The input that asks the driver to cancel the run. After its `deadline`, ms since the epoch, any process may end it. */
export function requestCancel(
  options: CancelOptions,
  { now, graceMs }: { now: number; graceMs: number },
): Command {
  const { reason, by, as, requestId, afterCalls } = options;
  const request = recordRequest({ type: 'cancel', reason, by, as, requestId, afterCalls });
  const deadline = now + (afterCalls ? CALLS_MS : 0) + graceMs + CANCEL_SLACK_MS;
  const asked = { ...omitUndefined({ reason, afterCalls }), ...senderOf(options) };
  return { type: 'cancel.requested', deadline, ...asked, ...request };
}

export function stampCommand<Made extends Command>(command: Made, at: number): Made & { at: number } {
  return { ...command, at };
}

export type FoldedCommands = {
  events: CommandEvent[];
  /** The state after the last event; `null` if the chart does not accept one of them. */
  state: ChartState | null;
  effects: readonly Effect[];
};

/** Builds and folds each command after the one before. Refuses invalid inputs, and messages to a full inbox. */
export function foldCommands(
  before: ChartState,
  makes: readonly MakeCommand[],
  at: number,
): FoldedCommands | Exclude<SubmitResult, { accepted: true }> {
  const events: CommandEvent[] = [];
  const effects: Effect[] = [];
  let state = before;
  let isAccepted = true;
  for (const [index, make] of makes.entries()) {
    const event = stampCommand(make(state), at);
    if (event.type === 'run.noted') {
      events.push(event);
      continue;
    }
    const fault = findFault(event);
    if (fault !== null) return { ...fault, index };
    const step = next(state, event);
    const overflow = step.handled ? findOverflow(state, event) : null;
    if (overflow !== null) return { ...overflow, index };
    if (step.handled) state = step.state;
    else isAccepted = false;
    events.push(event);
    effects.push(...step.effects);
  }
  return { events, state: isAccepted ? state : null, effects };
}

/** The cost of a message grows with the unread ones. Existing journals may have more. */
function findOverflow({ context: { runId, inbox } }: ChartState, event: ChartEvent): Refusal | null {
  if (event.type !== 'message.received' || inbox.length < MAX_UNREAD) return null;
  if (event.from !== undefined) return null;
  return refuse(
    'inbox-full',
    `Run ${runId} has ${inbox.length} unread messages, the maximum. Check what it waits for, and send the message again after it has read them.`,
  );
}

export function findFault(event: ChartEvent): Refusal | null {
  const issue = inputEventSchema.safeParse(event).error?.issues[0];
  const reason = reasonOf(event);
  if (!fitsBytes(reason, MAX_REASON_BYTES))
    return refuse(
      'input-invalid',
      `${event.type}: expected a reason of at most ${MAX_REASON_BYTES} bytes; got ${utf8Length(reason)}. Shorten it.`,
    );
  if (issue === undefined) return null;
  return refuse('input-invalid', `${event.type}: ${issue.path.join('.')} is not valid: ${issue.message}`);
}

/** The reason for a rejection or a failure, which the model reads; empty without one. */
function reasonOf(event: ChartEvent): string {
  if (event.type === 'question.answered')
    return Object.values(event.answers)
      .map(answer => (answer.type === 'declined' ? (answer.reason ?? '') : ''))
      .join('');
  if (event.type !== 'approval.decided' && event.type !== 'review.decided')
    return event.type === 'doubt.resolved' && event.resolution.type === 'failed'
      ? event.resolution.reason
      : '';
  return event.decision.type === 'reject' ? (event.decision.reason ?? '') : '';
}

/** The command, with an output that is too large for the journal stored as a blob. */
export async function boundCommand(command: Command, context: Context, blobs: RunBlobs): Promise<Command> {
  const bound = async <Holder extends { output: JsonValue }>(callId: string, holder: Holder) => {
    const { output } = holder;
    const maxBytes = maxResultBytesOf(context, callId);
    const status = findCall(context, callId)?.status ?? 'settled';
    const text = JSON.stringify(output);
    if (status === 'settled' || fitsBytes(text, maxBytes)) return holder;
    return { ...holder, ...(await blobs.put(output, typeof output === 'string' ? output : text, maxBytes)) };
  };
  if (command.type === 'result.received') return await bound(command.callId, command);
  if (command.type === 'approval.decided' && command.decision.type === 'answer')
    return { ...command, decision: await bound(command.callId, command.decision) };
  if (command.type === 'doubt.resolved' && command.resolution.type === 'happened')
    return { ...command, resolution: await bound(command.callId, command.resolution) };
  return command;
}

type ConnectTools = () => Promise<ReadonlyMap<string, Tool>>;

/** The call with another input: its approval and the rules are asked again. */
export type JudgeEdit = (call: Call, input: JsonValue) => Promise<QualifiedCall>;

type CheckedEdit = { input: JsonValue; editDigest: string } & Pick<
  Extract<Of<'approval.decided'>['decision'], { type: 'approve' }>,
  'duties' | 'verdicts'
>;

type Of<Type extends InputEvent['type']> = Extract<InputEvent, { type: Type }>;

export async function checkEdit(
  call: Call | undefined,
  edited: unknown,
  connectTools: ConnectTools,
  judge?: JudgeEdit,
): Promise<CheckedEdit | Refusal | undefined> {
  if (call === undefined) return undefined;
  const { name } = call;
  const read = readJson(edited);
  if ('accepted' in read) return read;
  const input = read.json;
  const tool = (await connectTools()).get(name);
  if (tool === undefined) {
    return refuse(
      'input-invalid',
      `Cannot validate the edited input: the agent has no tool ${name}. Approve the call without an edit, or reject it.`,
    );
  }
  const validation = await tool.validate(input);
  if (validation.valid) {
    const edit = { input, editDigest: digestCall(name, input) };
    const judged = await judge?.(call, input);
    if (judged === undefined) return edit;
    const { verdicts, error } = judged;
    if (verdicts !== undefined && error !== undefined)
      return refuse('refused', `Call ${call.callId} cannot have this input. ${error}`);
    const duties = dutiesOf(judged);
    return { ...edit, ...(hasDuties(duties) && { duties }), ...omitUndefined({ verdicts }) };
  }
  return refuse('input-invalid', `The edited input is not valid for ${name}: ${validation.message}`);
}

/** Without an output schema, for an unknown tool and for a settled call, any JSON is valid. */
async function checkOutput(
  call: Call | undefined,
  output: unknown,
  connectTools: ConnectTools,
): Promise<{ json: JsonValue } | Refusal> {
  const read = readJson(output);
  if ('accepted' in read || call === undefined || call.status === 'settled') return read;
  const tool = (await connectTools()).get(call.name);
  const validation = await tool?.validateOutput?.(read.json);
  if (validation === undefined) return read;
  if (validation.valid) return readJson(validation.value);
  return refuse('input-invalid', `The output is not valid for ${call.name}: ${validation.message}`);
}

export function readJson(value: unknown): { json: JsonValue } | Refusal {
  try {
    return { json: toBoundedJson(value) };
  } catch (error) {
    return refuse('input-invalid', `Expected a JSON value: ${messageOf(error)}.`);
  }
}
