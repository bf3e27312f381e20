import type { Caller } from '../../access/caller.ts';
import type { Agent } from '../../agent/agent.ts';
import { storyAgentOf } from '../../agent/sub-agents.ts';
import { endOn } from '../../engine/events/stoppable.ts';
import { KEEP_ALIVE_COMMENT, streamedBody } from '../../engine/events/streamed-body.ts';
import { type Host, systemHost } from '../../engine/host/host.ts';
import { progressOf } from '../../engine/journal/load-run.ts';
import { listOpen, listUnsettled } from '../../engine/log/settled.ts';
import type { Run } from '../../engine/run/run.ts';
import { FamilyStory } from '../../engine/story/family-story.ts';
import { statusOf } from '../../machines/status.ts';
import { type ChartState, statePath } from '../../machines/step.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined, toJson } from '../../protocol/json.ts';
import {
  type Answer,
  type AnswerCommand,
  callIdFor,
  commandFor,
  type OpenReference,
} from '../../protocol/open/answer.ts';
import { ANSWER_SCHEMAS, answerSchemaOf, readAnswer } from '../../protocol/open/answer-form.ts';
import {
  isOpenItem,
  type Open,
  type OpenItem,
  type OpenSignIn,
  type Settled,
  type WaitingRun,
} from '../../protocol/run-view.ts';
import type { Usage } from '../../protocol/turn.ts';
import { describeError } from '../../server/error-envelope.ts';
import { filterText } from '../../text/text-filter.ts';
import { describeOthers, ownPartOf } from '../served/open-calls.ts';
import { ShownThread } from './thread.ts';
import type {
  AgUiEvent,
  InputMessage,
  Interrupt,
  Message,
  ResumeEntry,
  RunInput,
  TokenUsage,
} from './wire.ts';
import { StoryWriter } from './write-story.ts';

type Kind = Open['kind'];
const KINDS: readonly Kind[] = ['approval', 'result', 'doubt', 'question', 'review', 'sign-in', 'pause'];

/** The answer's schema. AG-UI calls the input of an approval `editedArgs`. */
const { approved, input, ...others } = ANSWER_SCHEMAS.approval.properties;
function schemaOf(open: Open): JsonObject {
  if (open.kind !== 'approval') return answerSchemaOf(open);
  return { ...ANSWER_SCHEMAS.approval, properties: { approved, editedArgs: input, ...others } };
}

const REASONS: Readonly<Record<Kind, string>> = {
  approval: 'tool_call',
  result: 'input_required',
  doubt: 'agentchart:in_doubt',
  question: 'input_required',
  review: 'agentchart:review',
  'sign-in': 'auth_required',
  pause: 'agentchart:paused',
};

/** Returns the interrupts of a waiting run: one for each open call or review, and one for a pause or if nothing else is open. */
function interruptsOf(
  runId: string,
  { open, paused }: Pick<WaitingRun, 'open' | 'paused'>,
  waitsForOthers: boolean,
): Interrupt[] {
  const found = open.flatMap(one => {
    if (one.kind === 'sign-in') return [signInInterrupt(one)];
    return isOpenItem(one) ? [interruptOf(one, runId)] : [];
  });
  if (!paused && (found.length > 0 || waitsForOthers)) return found;
  const pause = open.find(one => one.kind === 'pause');
  return [
    ...found,
    {
      id: idOf('pause', runId),
      reason: REASONS.pause,
      message: pause?.reason ?? 'The run is paused. Continue?',
      responseSchema: ANSWER_SCHEMAS.pause,
    },
  ];
}

function signInInterrupt({ runId, server, reason, url }: OpenSignIn): Interrupt {
  return {
    id: idOf('sign-in', runId, server),
    reason: REASONS['sign-in'],
    message: reason,
    responseSchema: ANSWER_SCHEMAS['sign-in'],
    metadata: { agentchart: { runId, server, ...omitUndefined({ url }) } },
  };
}

function interruptOf(open: OpenItem, ownId: string): Interrupt {
  const { kind, callId, runId, digest, reason, expiresAt } = open;
  const subagentRunId = runId === ownId ? undefined : runId;
  return {
    id: idOf(kind, runId, callId, kind === 'question' ? digest : undefined),
    reason: REASONS[kind],
    message: messageOf(open),
    ...(open.kind !== 'review' && { toolCallId: callIdFor(ownId, open) }),
    responseSchema: schemaOf(open),
    metadata: { agentchart: { runId, ...factsOf(open), digest, ...omitUndefined({ reason }) } },
    ...omitUndefined({
      expiresAt: expiresAt === undefined ? undefined : new Date(expiresAt).toISOString(),
      subagentRunId,
    }),
  };
}

function factsOf(open: OpenItem) {
  if (open.kind === 'review') return { answer: open.answer, ...omitUndefined({ output: open.output }) };
  const { name, input, sideEffect } = open;
  const questions = open.kind === 'question' ? open.questions : undefined;
  return { name, input, sideEffect, ...omitUndefined({ questions }) };
}

function messageOf(open: OpenItem): string {
  const why = open.reason === undefined ? '' : ` ${open.reason}`;
  switch (open.kind) {
    case 'approval':
      return `Run ${open.name}?${why}`;
    case 'result':
      return `${open.name} needs a result from you.${why}`;
    case 'doubt':
      return `It is unknown whether ${open.name} happened.${why}`;
    case 'question':
      return open.questions.map(({ message }) => message).join('\n');
    case 'review':
      return `Give this answer?${why}`;
  }
}

function idOf(kind: Kind, runId: string, callId = '', digest?: string): string {
  return [kind, runId, callId, ...(digest === undefined ? [] : [digest])].map(encodeURIComponent).join(':');
}

/** What an interrupt asks about: a question as it was asked. That of a pause is about the run or one below it, whichever is paused. */
function openOf(id: string): OpenReference | null {
  const [name, runId, callId, digest] = id.split(':').map(decode);
  const kind = KINDS.find(known => known === name);
  if (kind === undefined || !runId || callId === undefined) return null;
  if (kind === 'sign-in') return { kind, runId, server: callId };
  return kind === 'pause' ? { kind } : { kind, runId, callId, ...omitUndefined({ digest }) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return '';
  }
}

/** `null` for an answer without a decision, such as `{}`; `unknown` if no interrupt has this id. */
export function resumeCommandOf({
  interruptId,
  status,
  payload,
}: ResumeEntry): AnswerCommand | null | 'unknown' {
  const open = openOf(interruptId);
  if (open === null) return 'unknown';
  if (status === 'cancelled') {
    const answer = CANCELLED[open.kind];
    return answer && commandFor(open, answer);
  }
  const given: JsonObject = isJsonObject(payload) ? payload : {};
  const answer = readAnswer(open.kind, formOf(open.kind, given, payload));
  if (answer === null) return null;
  const isBound = open.kind === 'approval' || open.kind === 'question' || open.kind === 'review';
  const digest = isBound && typeof given.digest === 'string' ? given.digest : undefined;
  return commandFor({ ...open, ...omitUndefined({ digest }) }, answer);
}

/** The answers that a cancelled interrupt gives. A call in doubt stays in doubt, a review open, and a paused run paused. */
const CANCELLED: Readonly<Record<Kind, Answer | null>> = {
  approval: { type: 'reject' },
  result: { type: 'result', output: 'Cancelled by the user.', isError: true },
  doubt: null,
  question: { type: 'reject' },
  review: null,
  'sign-in': null,
  pause: null,
};

/** The JSON form of an answer. Any value but `{}` is the result of a client tool. */
function formOf(kind: Kind, given: JsonObject, payload: JsonValue | undefined): JsonObject {
  if (kind === 'approval' && given.editedArgs !== undefined) return { ...given, input: given.editedArgs };
  const isForm = kind !== 'result' || payload === undefined || 'output' in given;
  if (isForm || (isJsonObject(payload) && Object.keys(payload).length === 0)) return given;
  return { ...given, output: payload };
}

export type Refused = { interruptId: string; code: string; message: string; by?: string | string[] };

export type ThreadStory = { family: FamilyStory; writer: StoryWriter; thread: ShownThread };

export function beginThread(agent: Agent, runId: string, earlier: readonly Message[] = []): ThreadStory {
  const { store, options } = agent;
  const { host = systemHost } = options;
  const thread = new ShownThread(earlier);
  const family = new FamilyStory({ store, host, runId, agent: storyAgentOf(agent) });
  return { family, writer: new StoryWriter(runId, thread), thread };
}

export async function readThread(story: ThreadStory): Promise<ThreadStory> {
  for await (const told of story.family.read()) for (const event of told) story.writer.add(event);
  return story;
}

export type StreamPlan = {
  agent: Agent;
  run: Run;
  story: ThreadStory;
  fresh: readonly InputMessage[];
  refused: readonly Refused[];
  caller: Caller;
};

/** At the reader's pace. Without a plan, the thread is empty. */
export function streamRun(
  input: RunInput,
  plan: () => Promise<StreamPlan | null>,
  host: Host,
): ReadableStream<Uint8Array> {
  const stop = new AbortController();
  return streamedBody(eventsOf(input, plan, stop.signal), {
    frame,
    keepAlive: { text: KEEP_ALIVE_COMMENT, host },
    failed,
    leave: () => stop.abort(),
  });
}

function frame(events: readonly AgUiEvent[]): string {
  return events.map(event => `data: ${JSON.stringify(event)}\n\n`).join('');
}

function failed(error: unknown): string {
  const { code, message } = describeError(error).envelope.error;
  return frame([{ type: 'RUN_ERROR', message, code }]);
}

async function* eventsOf(
  input: RunInput,
  makePlan: () => Promise<StreamPlan | null>,
  signal: AbortSignal,
): AsyncGenerator<AgUiEvent[], void> {
  const { threadId, runId, parentRunId } = input;
  const started = { type: 'RUN_STARTED' as const, threadId, runId, protocolVersion: '1.0' };
  yield [{ ...started, ...omitUndefined({ parentRunId }) }];
  const plan = await makePlan();
  if (plan === null) yield [{ type: 'RUN_FINISHED', threadId, runId, outcome: { type: 'success' } }];
  else yield* followPlan(input, plan, signal);
}

async function* followPlan(
  input: RunInput,
  { agent, run, story: { family, writer, thread }, fresh, refused, caller }: StreamPlan,
  signal: AbortSignal,
): AsyncGenerator<AgUiEvent[], void> {
  const shared = new SharedState(input.state, text => filterText(text, agent.options.textFilters ?? []));
  const refusals = refused.map(one => ({ type: 'CUSTOM' as const, name: 'agentchart.refused', value: one }));
  yield [...thread.meet(input, fresh), ...shared.update(family.state), ...refusals];
  if (signal.aborted) return;
  const settling = run.settled();
  const open = (runId: string) => agent.open(runId);
  const story = endOn(family.follow({ run, open, follow: true, settled: () => settling }), signal);
  const calls: TokenUsage[] = [];
  for await (const told of story) {
    const events = told.flatMap(event => {
      if (event.type === 'turn.closed') addUsage(calls, event.completed);
      return writer.write(event);
    });
    yield [...events, ...shared.update(family.state)];
  }
  if (signal.aborted) return;
  const settled = await settling;
  const elsewhere = settled.status === 'waiting' ? decidedElsewhere(run, settled, caller) : new Map();
  const own = settled.status === 'waiting' ? ownPartsOf(run, settled, caller) : settled;
  const end = endOf(input, run.id, own, elsewhere, calls.length > 0 ? { usage: calls } : {});
  const outcome = end.type === 'RUN_FINISHED' ? end.outcome : undefined;
  const interrupts = outcome?.type === 'interrupt' ? outcome.interrupts : [];
  const waits = [...elsewhere.values()].map(value => ({
    type: 'CUSTOM' as const,
    name: 'agentchart.waiting',
    value,
  }));
  const events = [...writer.end(interrupts), ...(interrupts.length > 0 ? [thread.snapshot] : []), ...waits];
  yield [...events, ...shared.finish(), end];
}

/** A call or review that others than the caller decide: `waitsFor` has the words for who. */
type Elsewhere = { toolCallId?: string; name: string; waitsFor: string; by?: string[]; reason?: string };

/** By the ids of what is open. No client can resume them, so they are not interrupts. */
function decidedElsewhere(run: Run, { open }: WaitingRun, caller: Caller): ReadonlyMap<string, Elsewhere> {
  const { people } = run.context;
  return new Map(
    open.flatMap(one => {
      if (!isOpenItem(one)) return [];
      const waitsFor = describeOthers(caller, people, one);
      if (waitsFor === undefined) return [];
      const { id, by, reason } = one;
      const call =
        one.kind === 'review' ? { name: 'answer' } : { toolCallId: callIdFor(run.id, one), name: one.name };
      const value = { ...call, waitsFor, ...omitUndefined({ by, reason }) };
      return [[id, value] as const];
    }),
  );
}

function ownPartsOf(run: Run, settled: WaitingRun, caller: Caller): WaitingRun {
  const { people } = run.context;
  const open = settled.open.map(one => (isOpenItem(one) ? ownPartOf(caller, people, one) : one));
  return { ...settled, open };
}

function endOf(
  { threadId, runId, tools }: RunInput,
  ownId: string,
  settled: Settled,
  elsewhere: ReadonlyMap<string, Elsewhere>,
  usage: { usage?: TokenUsage[] },
): AgUiEvent {
  const finished = { type: 'RUN_FINISHED', threadId, runId, ...usage } as const;
  switch (settled.status) {
    case 'finished': {
      const { usage: _, turns: __, ...result } = settled;
      return { ...finished, result: toJson(result), outcome: { type: 'success' } };
    }
    case 'cancelled':
      return { ...finished, outcome: { type: 'cancelled' } };
    case 'failed':
      return { type: 'RUN_ERROR', ...settled.error, ...usage };
    case 'waiting': {
      const own = settled.open.flatMap(open =>
        open.kind === 'result' && tools.some(({ name }) => name === open.name) ? [open] : [],
      );
      const others = settled.open.filter(({ id }) => !elsewhere.has(id) && own.every(open => id !== open.id));
      const pendingToolCallIds = own.map(({ callId }) => callId);
      if (own.length > 0 && others.length === 0)
        return { ...finished, outcome: { type: 'success', pendingToolCallIds } };
      const interrupts = interruptsOf(ownId, { ...settled, open: others }, elsewhere.size > 0);
      if (interrupts.length === 0) return { ...finished, outcome: { type: 'success' } };
      return { ...finished, outcome: { type: 'interrupt', interrupts } };
    }
  }
}

function addUsage(
  sums: TokenUsage[],
  { provider, model, usage }: { provider: string; model: string; usage: Usage | null },
): void {
  if (usage === null) return;
  const known = sums.find(one => one.provider === provider && one.model === model);
  const sum: TokenUsage = known ?? { provider, model };
  if (known === undefined) sums.push(sum);
  const counts = {
    inputTokens: usage.inputTokens,
    outputTokens: usage.outputTokens,
    totalTokens: usage.inputTokens + usage.outputTokens,
    reasoningTokens: usage.reasoningTokens,
    cachedInputTokens: usage.cachedInputTokens,
    cacheWriteInputTokens: usage.cacheWriteTokens,
  };
  for (const [name, count] of Object.entries(counts) as [keyof typeof counts, number | null][])
    if (count !== null) sum[name] = (sum[name] ?? 0) + count;
}

type Operation = Extract<AgUiEvent, { type: 'STATE_DELTA' }>['delta'][number];

const OPTIONAL = ['why', 'answer', 'output', 'error', 'incomplete'];

/** The chart's states that are reported as steps: the states in which the run is active. */
const STEPS: readonly string[] = ['turn', 'executingTools', 'backingOff', 'finishing', 'compacting'];

/**
 * The AG-UI shared state: the run's members, together with the application's own members.
 *
 * S1 The first event is a snapshot; each later event is the JSON Patch from the previous state.
 */
class SharedState {
  readonly #own: JsonObject;
  readonly #showText: (text: string) => string;
  #state: ChartState | null = null;
  #sent: JsonObject | null = null;
  #step: string | null = null;

  constructor(given: JsonValue | undefined, showText: (text: string) => string) {
    this.#own = isJsonObject(given) ? { ...given } : {};
    for (const name of OPTIONAL) delete this.#own[name];
    this.#showText = showText;
  }

  update(state: ChartState | null): AgUiEvent[] {
    if (state === null || state === this.#state) return [];
    this.#state = state;
    const before = this.#sent;
    const now = { ...this.#own, ...describeState(state, this.#showText) };
    const step = statePath(state).split('.')[0] ?? '';
    const events = this.#moveTo(STEPS.includes(step) ? step : null);
    this.#sent = now;
    if (before === null) return [{ type: 'STATE_SNAPSHOT', snapshot: now }, ...events];
    const delta = diffJson(before, now);
    return delta.length === 0 ? events : [...events, { type: 'STATE_DELTA', delta }];
  }

  finish(): AgUiEvent[] {
    const events = this.#moveTo(null);
    if (this.#sent !== null) events.push({ type: 'STATE_SNAPSHOT', snapshot: this.#sent });
    return events;
  }

  #moveTo(step: string | null): AgUiEvent[] {
    if (step === this.#step) return [];
    const events: AgUiEvent[] = [];
    if (this.#step !== null) events.push({ type: 'STEP_FINISHED', stepName: this.#step });
    if (step !== null) events.push({ type: 'STEP_STARTED', stepName: step });
    this.#step = step;
    return events;
  }
}

function describeState(state: ChartState, showText: (text: string) => string): JsonObject {
  const { context } = state;
  const { runId, agent, next, answer, paused, usage, turns } = context;
  const { state: path, why, incomplete } = progressOf(state);
  const status = statusOf(state);
  const open = listOpen(context).filter(isOpenItem);
  const calls = listUnsettled(context).map(call => open.find(one => one.callId === call.callId) ?? call);
  return toJson({
    runId,
    agent: agent.name,
    state: path,
    status,
    paused,
    turns,
    usage,
    calls,
    ...omitUndefined({
      why,
      incomplete,
      answer: status === 'finished' ? showText(answer?.text ?? '') : undefined,
      output: status === 'finished' ? answer?.output : undefined,
      error: next?.type === 'fail' ? { code: next.code, message: next.message } : undefined,
    }),
  }) as JsonObject;
}

/** Returns the JSON Patch (RFC 6902) that turns `before` into `after`. Lists that differ are replaced as a whole. */
function diffJson(before: JsonObject, after: JsonObject, path = ''): Operation[] {
  const operations: Operation[] = [];
  for (const name of Object.keys(before)) {
    if (!Object.hasOwn(after, name)) operations.push({ op: 'remove', path: pointerTo(path, name) });
  }
  for (const [name, value] of Object.entries(after)) {
    const place = pointerTo(path, name);
    const old = before[name];
    if (!Object.hasOwn(before, name)) operations.push({ op: 'add', path: place, value });
    else if (isJsonObject(old) && isJsonObject(value)) operations.push(...diffJson(old, value, place));
    else if (JSON.stringify(old) !== JSON.stringify(value))
      operations.push({ op: 'replace', path: place, value });
  }
  return operations;
}

function pointerTo(path: string, name: string): string {
  return `${path}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}
