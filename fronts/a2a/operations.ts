/** The operations of A2A on the runs of one agent. A task is a run, and its context is a thread. */

import * as z from 'zod';
import { type Caller, personOf, signCommand } from '../../access/caller.ts';
import { describeRole, mayCommand } from '../../access/role.ts';
import type { Agent } from '../../agent/agent.ts';
import { endOn } from '../../engine/events/stoppable.ts';
import { readStory } from '../../engine/story/read-story.ts';
import type { StoryEvent } from '../../engine/story/story-event.ts';
import type { Question } from '../../protocol/event.ts';
import type { Item, Part as ItemPart, MessageItem } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, omitUndefined, toJson } from '../../protocol/json.ts';
import { readThreadId } from '../../protocol/listing/label.ts';
import { isOutcome, textOf } from '../../protocol/message.ts';
import { ANSWER_EXAMPLES, answerCommand } from '../../protocol/open/answer-form.ts';
import type { RunCommand } from '../../protocol/run-command.ts';
import type { FinishedRun, OpenItem, OpenQuestion, Settled, WaitingRun } from '../../protocol/run-view.ts';
import { MOST_LISTED, type RunRecord, type RunStatus } from '../../protocol/store.ts';
import { ApiError } from '../../server/error-envelope.ts';
import { findThread } from '../../server/runs/find-thread.ts';
import { type Hold, settledNow, unlessAborted, whileHeld } from '../../server/runs/run-registry.ts';
import { showTranscript } from '../../server/runs/run-view.ts';
import { cutText } from '../../text/cut-text.ts';
import { describeCall, type OpenCalls, openCallsFor } from '../served/open-calls.ts';
import type { ServedRuns } from '../served/served-runs.ts';
import {
  A2aError,
  type Artifact,
  type GivenPart,
  type ListRequest,
  type Message,
  type SendRequest,
  type StreamResponse,
  type Task,
  type TaskState,
  type TaskStatus,
  type WirePart,
  type WirePlace,
} from './wire.ts';

export type Updates = AsyncGenerator<readonly StreamResponse[]>;

export class Operations {
  readonly #runs: ServedRuns;
  readonly #agent: Agent;
  readonly #caller: Caller;

  constructor(runs: ServedRuns, agent: Agent, caller: Caller) {
    this.#runs = runs;
    this.#agent = agent;
    this.#caller = caller;
  }

  /** Starts a task, or answers one, and waits until it rests or has ended unless it is to return immediately. */
  async send(request: SendRequest): Promise<{ task: Task }> {
    const { returnImmediately, historyLength } = configurationOf(request);
    return await whileHeld(this.#accept(request), async hold => {
      if (returnImmediately !== true) await settle(hold);
      return { task: taskOf(await this.#image(hold), historyLength) };
    });
  }

  /** As `send`, but with the task and its updates as they happen, until it rests or has ended, or `left` is aborted. */
  async sendStream(request: SendRequest, left: AbortSignal): Promise<Updates> {
    const { historyLength } = configurationOf(request);
    const hold = await this.#accept(request);
    return this.#stream(hold, { historyLength, follow: false, left });
  }

  async get({ id, historyLength }: { id: string; historyLength?: number }): Promise<Task> {
    const image = await whileHeld(this.#hold(id), hold => this.#image(hold));
    return taskOf(image, historyLength);
  }

  async list(request: ListRequest) {
    const { contextId, status, pageSize, pageToken, statusTimestampAfter, includeArtifacts } = request;
    const ofStatus = status === undefined ? undefined : runStatusOf(status);
    const { labels } = this.#caller;
    const thread = contextId === '' ? undefined : readThreadId(contextId);
    const filter = { agent: this.#agent.name, labels, ...omitUndefined({ thread, status: ofStatus }) };
    const isNone = status !== undefined && status !== 'TASK_STATE_UNSPECIFIED' && ofStatus === undefined;
    if (isNone) return { tasks: [], nextPageToken: '', pageSize, totalSize: 0 };
    const cursor = pageToken === '' ? undefined : pageToken;
    const page = await this.#runs.store.list({ ...filter, limit: pageSize, ...omitUndefined({ cursor }) });
    const all = await this.#runs.store.list({ ...filter, limit: MOST_LISTED });
    const after = statusTimestampAfter === undefined ? 0 : Date.parse(statusTimestampAfter);
    const tasks = page.runs.filter(({ updatedAt }) => updatedAt >= after);
    return {
      tasks: await Promise.all(
        tasks.map(record =>
          includeArtifacts === true ? this.get({ id: record.runId, historyLength: 0 }) : summarize(record),
        ),
      ),
      nextPageToken: page.next ?? '',
      pageSize,
      totalSize: all.runs.length,
    };
  }

  /** Cancels the run and waits until it has ended. Throws `not-cancelable` for an ended run. */
  async cancel(taskId: string): Promise<Task> {
    this.#assertMay({ type: 'cancel' });
    return await whileHeld(this.#hold(taskId), async hold => {
      const by = omitUndefined({ as: personOf(this.#caller) });
      const result = await hold.run.cancel({ reason: 'cancelled by the A2A client', ...by });
      if (!result.accepted) throw new A2aError('not-cancelable', result.message);
      this.#runs.drive(taskId);
      await settle(hold);
      return taskOf(await this.#image(hold));
    });
  }

  /** The task, and its updates until it has ended. Throws `unsupported` for an ended run. */
  async subscribe(taskId: string, left: AbortSignal): Promise<Updates> {
    const hold = await this.#hold(taskId);
    const { settled } = await this.#image(hold);
    if (settled === null || settled.status === 'waiting') return this.#stream(hold, { follow: true, left });
    hold.release();
    throw new A2aError('unsupported', 'The task has ended. Get it instead.');
  }

  /** Starts the run of a message, or gives the message to the run of its task or to the open run of its context. Release the result. */
  async #accept(request: SendRequest): Promise<Hold> {
    const { message } = request;
    if (message.taskId !== '') return await this.#continue(message);
    this.#assertMay({ type: 'start' });
    const id = message.contextId === '' ? this.#runs.host.newId('thread') : message.contextId;
    const { labels } = await findThread(this.#agent, id, this.#caller);
    return await this.#runs.begin(this.#agent, [readItem(message.parts)], this.#caller, {
      thread: id,
      labels,
    });
  }

  async #continue({ taskId, contextId, parts }: SendRequest['message']): Promise<Hold> {
    const hold = await this.#hold(taskId);
    try {
      const { run } = hold;
      if (contextId !== '' && contextId !== contextOf(run.id, run.context.thread))
        throw new A2aError('invalid-params', 'The task belongs to another context.');
      const settled = await settledNow(run);
      if (settled !== null && settled.status !== 'waiting')
        throw new A2aError(
          'unsupported',
          'The task has ended. Send the message with its contextId and no taskId.',
        );
      const open = openCallsFor(run.id, settled);
      const commands = readCommands(parts, open);
      for (const command of commands) this.#assertMay(command);
      for (const command of commands) {
        const result = await run.submit([signCommand(command, this.#caller)]);
        if (!result.accepted)
          throw new A2aError(
            result.code === 'input-invalid' ? 'invalid-params' : 'unsupported',
            result.message,
          );
      }
      this.#runs.drive(run.id);
      return hold;
    } catch (error) {
      hold.release();
      throw error;
    }
  }

  #assertMay(command: Parameters<typeof mayCommand>[1]): void {
    if (!mayCommand(this.#caller, command)) throw new ApiError('forbidden', describeRole(this.#caller));
  }

  /** The run of a task of this agent; resumes it if no process drives it. Throws `run-unknown`. */
  async #hold(taskId: string): Promise<Hold> {
    const hold = await this.#runs.hold(taskId, this.#caller);
    if (hold.run.context.agent.name === this.#agent.name) return hold;
    hold.release();
    throw new A2aError('task-unknown', 'There is no such task.');
  }

  async #image({ run }: Hold, known?: Answers): Promise<RunImage> {
    const answers = known ?? (await readAnswers(run));
    const { updatedAt } = await this.#runs.record(run.id, this.#caller);
    return {
      ...placeOf(run),
      agent: this.#agent.name,
      seq: run.durable.seq,
      at: updatedAt,
      settled: await settledNow(run),
      transcript: answers.show(run),
    };
  }

  /** The task, then its updates: until it settles, or with `follow` until it has ended. Releases the hold at the end. */
  async *#stream(
    hold: Hold,
    {
      historyLength,
      follow,
      left,
    }: { historyLength?: number | undefined; follow: boolean; left: AbortSignal },
  ): Updates {
    const { run, closing } = hold;
    const end = follow ? {} : { until: () => run.settled() };
    const over = AbortSignal.any([closing, left]);
    const story = endOn(run.storyBatches({ after: run.durable.seq, follow, ...end }), over);
    try {
      const answers = await readAnswers(run);
      const begins = await this.#image(hold, answers);
      yield [{ task: taskOf(begins, historyLength) }];
      let status = begins.settled?.status ?? 'running';
      const texts = new TextUpdates(placeOf(run));
      for await (const told of story) {
        for (const event of told) answers.take(event);
        yield told.flatMap(event => texts.take(event));
        const state = told.find(({ type }) => type === 'state');
        if (!follow || state?.type !== 'state' || state.status === status) continue;
        status = state.status;
        yield updatesTo(await this.#image(hold, answers));
      }
      if (!over.aborted && !follow) yield updatesTo(await this.#image(hold, answers));
    } finally {
      hold.release();
    }
  }
}

function placeOf({ id, context }: Hold['run']): WirePlace {
  return { taskId: id, contextId: contextOf(id, context.thread) };
}

/** The context of a task; a run outside threads is alone in its own. */
function contextOf(runId: string, thread: string | undefined): string {
  return thread ?? runId;
}

/**
 * The answers of a run that a check or a person judges, as clients see them: none before it was given, none that was
 * blocked, sent back or superseded, and a changed one as it was given.
 */
class Answers {
  /** What is shown in place of assistant messages, by their ids; `null` for nothing. */
  readonly #instead = new Map<string, string | null>();
  #latest: readonly string[] = [];
  /** The latest answer was not judged yet. */
  #isUnjudged = false;
  #seq = 0;

  take(event: StoryEvent): void {
    if (!('seq' in event) || event.seq < this.#seq) return;
    this.#seq = event.seq;
    const items = itemsOf(event);
    if (items !== undefined) {
      this.#latest = answersIn(items).flatMap(({ id }) => id ?? []);
      this.#isUnjudged = !items.some(({ type }) => type === 'tool_call');
    } else if (event.type === 'answer.blocked') this.#put(null);
    else if (event.type === 'answer.changed') this.#put(event.text);
    else if (isPassed(event)) this.#isUnjudged = false;
  }

  show({ context, durable, source }: Hold['run']): Item[] {
    const isWithheld =
      context.review !== null ||
      (this.#isUnjudged && context.config.checksAnswer && durable.state.value !== 'finished');
    const withheld = new Set(isWithheld ? this.#latest : []);
    return showTranscript(durable.state, source.showText).flatMap((item): Item[] => {
      if (!isAnswer(item) || item.id === undefined) return [item];
      const text = withheld.has(item.id) ? null : this.#instead.get(item.id);
      if (text === undefined) return [item];
      return text === null ? [] : [{ ...item, content: [{ type: 'text', text }] }];
    });
  }

  #put(text: string | null): void {
    this.#isUnjudged = false;
    for (const [at, id] of this.#latest.entries()) this.#instead.set(id, at === 0 ? text : null);
  }
}

/** The answer was given, or at least approved, as the model wrote it. */
function isPassed(event: StoryEvent): boolean {
  if (event.type === 'review.decided') return event.approved;
  return event.type === 'note' && event.event.type === 'answer.checked';
}

/** Reads the journal only of a run whose answers are judged. */
async function readAnswers({ id: runId, context, source: { store, textFilters: filters } }: Hold['run']) {
  const answers = new Answers();
  if (context.config.checksAnswer)
    for (const event of await readStory(store, { runId, filters })) answers.take(event);
  return answers;
}

/** The items of a turn, or what an edit put in place of it or of the transcript. */
function itemsOf(event: StoryEvent): readonly Item[] | undefined {
  if (event.type === 'turn.closed') return event.completed.items;
  const edit = event.type === 'note' ? event.event : undefined;
  return edit?.type === 'turn.edited' || edit?.type === 'transcript.edited' ? edit.items : undefined;
}

/** The messages of the model at the end. */
function answersIn(items: readonly Item[]): MessageItem[] {
  const isGiven = (item: Item) =>
    item.type === 'tool_result' || (item.type === 'message' && item.role !== 'assistant');
  return items.slice(items.findLastIndex(isGiven) + 1).filter(isAnswer);
}

function summarize({ runId, thread, status, updatedAt, agent }: RunRecord): Task {
  const timestamp = new Date(updatedAt).toISOString();
  return {
    id: runId,
    contextId: contextOf(runId, thread),
    status: { state: stateOf(status), timestamp },
    metadata: { agent },
  };
}

function configurationOf({ configuration = {} }: SendRequest) {
  if (configuration.taskPushNotificationConfig !== undefined) throw noPush();
  return configuration;
}

export function noPush(): A2aError {
  return new A2aError('no-push', 'This server sends no push notifications. Subscribe to the task instead.');
}

/** Waits until the run settles; throws when the server shuts down, and the run stays resumable. */
async function settle({ run, closing }: Hold): Promise<void> {
  const makeError = () => new A2aError('internal', 'The server is shutting down. Get the task later.');
  await unlessAborted(closing, run.settled(), makeError);
}

const ANY_TYPE = 'application/octet-stream';

function readItem(parts: readonly GivenPart[]): MessageItem {
  return { type: 'message', role: 'user', content: parts.map(readPart) };
}

function readPart({ text, data, raw, url, filename, mediaType }: GivenPart): ItemPart {
  const given = [text, data, raw, url].filter(each => each !== undefined);
  if (given.length !== 1)
    throw new A2aError('invalid-params', 'Each part must have exactly one of text, data, raw and url.');
  if (text !== undefined) return { type: 'text', text };
  if (data !== undefined) return { type: 'text', text: JSON.stringify(data) };
  const source = url ?? `data:${mediaType ?? ANY_TYPE};base64,${raw}`;
  if (mediaType?.startsWith('image/') === true) return { type: 'image', url: source };
  return { type: 'file', url: source, ...omitUndefined({ name: filename, mediaType }) };
}

const decisionSchema = z.object({
  callId: z.exactOptional(z.string()),
  approved: z.exactOptional(z.boolean()),
  answers: z.exactOptional(z.record(z.string(), z.json())),
  input: z.exactOptional(z.json()),
  answer: z.exactOptional(z.json()),
  reason: z.exactOptional(z.string()),
  output: z.exactOptional(z.json()),
  isError: z.exactOptional(z.boolean()),
  happened: z.exactOptional(z.literal(true)),
  failed: z.exactOptional(z.string()),
  retry: z.exactOptional(z.literal(true)),
});
type Decision = z.infer<typeof decisionSchema>;

const DECISIONS = ['approved', 'answers', 'output', 'happened', 'failed', 'retry'] as const;

/** With one open call, a text answers a client tool or a question, and `approve` and `reject` decide an approval or a review. Throws `invalid-params`. */
function readCommands(parts: readonly GivenPart[], open: OpenCalls): RunCommand[] {
  const read = parts.map(part => ({ part, found: readDecision(part, open) }));
  const decisions = read.flatMap(({ found }) => found);
  const others = read.filter(({ found }) => found.length === 0).map(({ part }) => part);
  const commands: RunCommand[] = decisions.map(decision => decide(decision, open));
  if (others.length === 0) return commands;
  const [only] = open.values();
  if (commands.length === 0 && only !== undefined && open.size === 1) {
    const decision = decisionOfText(others, only);
    if (decision !== null) return [decide(decision, open)];
  }
  return [...commands, { type: 'send', message: [readItem(others)] }];
}

/** Data is a decision if it says one, or names what is open. */
function readDecision({ data }: GivenPart, open: OpenCalls): Decision[] {
  if (!isJsonObject(data)) return [];
  const given = DECISIONS.filter(decision => data[decision] !== undefined);
  const isAboutOpen = typeof data.callId === 'string' && open.has(data.callId);
  if (given.length === 0 && !isAboutOpen) return [];
  const decision = decisionSchema.safeParse(data);
  if (!decision.success) {
    const [issue] = decision.error.issues;
    const problem = `${issue?.path.join('.')}: ${issue?.message}`;
    throw new A2aError('invalid-params', `The decision is invalid: ${problem}.`);
  }
  // The output of a call that happened belongs to that decision.
  const kinds = given.filter(kind => kind !== 'output' || data.happened === undefined);
  if (kinds.length > 1)
    throw new A2aError('invalid-params', `A decision says one thing; this says ${kinds.join(' and ')}.`);
  return [decision.data];
}

function decisionOfText(parts: readonly GivenPart[], open: OpenItem): Decision | null {
  const text = parts.map(part => part.text ?? '').join('\n');
  if (parts.some(part => part.text === undefined)) return null;
  const { kind } = open;
  if (kind === 'result') return { output: text };
  if (open.kind === 'question') return answerInText(open, text);
  const word = text.trim().toLowerCase();
  if ((kind !== 'approval' && kind !== 'review') || (word !== 'approve' && word !== 'reject')) return null;
  return { approved: word === 'approve' };
}

/** A text answers the only question, if that takes a text. */
function answerInText({ questions: [question, second] }: OpenQuestion, text: string): Decision | null {
  if (question?.schema.type !== 'string' || second !== undefined) return null;
  return { answers: { [question.key]: text } };
}

function decide({ callId, ...answer }: Decision, open: OpenCalls): RunCommand {
  const [only] = open.keys();
  const id = callId ?? (open.size === 1 ? only : undefined);
  const call = id === undefined ? undefined : open.get(id);
  if (call === undefined) {
    const ids = [...open.keys()].join(', ') || 'none';
    throw new A2aError(
      'invalid-params',
      `"callId" must be that of a call that waits for a decision: ${ids}.`,
    );
  }
  return answerCommand(call, answer);
}

/*
 * A run as a task of A2A: a pure mapping of its state, and its story as the updates of a stream.
 * The artifact `answer` is the latest text of the agent; of a finished run, its text and output.
 */

const STATES: Readonly<Record<RunStatus, TaskState>> = {
  running: 'TASK_STATE_WORKING',
  waiting: 'TASK_STATE_INPUT_REQUIRED',
  finished: 'TASK_STATE_COMPLETED',
  failed: 'TASK_STATE_FAILED',
  cancelled: 'TASK_STATE_CANCELED',
};

function stateOf(status: RunStatus): TaskState {
  return STATES[status];
}

function runStatusOf(state: string): RunStatus | undefined {
  return (Object.keys(STATES) as RunStatus[]).find(status => STATES[status] === state);
}

/** The largest text of an artifact, in bytes of UTF-8. The run has the full one. */
const MOST_BYTES = 4 * 1024 * 1024;

const MOST_HISTORY = 200;

type RunImage = WirePlace & {
  agent: string;
  /** The seq of the last entry, and when it was written, in ms since the epoch. */
  seq: number;
  at: number;
  settled: Settled | null;
  transcript: readonly Item[];
};

function taskOf(image: RunImage, historyLength = MOST_HISTORY): Task {
  const { taskId, contextId, agent } = image;
  const most = Math.min(historyLength, MOST_HISTORY);
  return {
    id: taskId,
    contextId,
    status: statusOf(image),
    artifacts: artifactsOf(image),
    history: most === 0 ? [] : historyOf(image).slice(-most),
    metadata: { agent },
  };
}

function statusOf(image: RunImage): TaskStatus {
  const { settled, at } = image;
  const parts = settled === null ? [] : partsOf(image.taskId, settled);
  const message = parts.length === 0 ? undefined : say(image, parts);
  return {
    state: STATES[settled?.status ?? 'running'],
    timestamp: new Date(at).toISOString(),
    ...omitUndefined({ message }),
  };
}

function say({ taskId, contextId, seq }: RunImage, parts: WirePart[]): Message {
  return { messageId: `${taskId}-${seq}`, taskId, contextId, role: 'ROLE_AGENT', parts };
}

function partsOf(runId: string, settled: Settled): WirePart[] {
  if (settled.status === 'failed') return [{ text: `${settled.error.message} (${settled.error.code})` }];
  if (settled.status === 'waiting') return askParts(runId, settled);
  if (settled.status !== 'finished' || settled.incomplete === undefined) return [];
  return [{ text: `The answer is incomplete: ${settled.incomplete.reason}` }];
}

function askParts(runId: string, settled: WaitingRun): WirePart[] {
  const open = [...openCallsFor(runId, settled)];
  const lines = open.map(([, call]) => `${NEEDS[call.kind]}: ${describeCall(call)}`);
  for (const one of settled.open) if (one.kind === 'sign-in') lines.push(one.reason);
  if (settled.paused) lines.push('The run is paused.');
  if (lines.length === 0) return [];
  const text = { text: lines.join('\n') };
  if (open.length === 0) return [text];
  return [text, { data: { questions: open.map(describeOpen) }, mediaType: 'application/json' }];
}

const NEEDS: Readonly<Record<OpenItem['kind'], string>> = {
  approval: 'Needs approval',
  result: 'Needs a result',
  doubt: 'May have happened',
  question: 'Asks',
  review: 'Needs a review',
};

function describeOpen([callId, open]: [string, OpenItem]): JsonObject {
  const { kind, reason, expiresAt } = open;
  return {
    callId,
    kind,
    ...(open.kind === 'review'
      ? { answer: open.answer, ...omitUndefined({ output: open.output }) }
      : { tool: open.name, input: toJson(open.input) }),
    ...(open.kind === 'question' && { questions: open.questions.map(describeQuestion) }),
    ...omitUndefined({
      reason,
      expiresAt: expiresAt === undefined ? undefined : new Date(expiresAt).toISOString(),
    }),
    answers: examplesOf(open).map(answer => ({ callId, ...answer })),
  };
}

function examplesOf(open: OpenItem): readonly JsonObject[] {
  const examples = ANSWER_EXAMPLES[open.kind];
  if (open.kind !== 'question') return examples;
  const answers = Object.fromEntries(open.questions.map(({ key }) => [key, 'VALUE']));
  return examples.map(example => ('answers' in example ? { ...example, answers } : example));
}

function describeQuestion({ key, message, schema, url, fault }: Question): JsonObject {
  return { key, message, schema, ...omitUndefined({ url, fault }) };
}

function artifactsOf({ settled, transcript }: RunImage): Artifact[] {
  const parts = settled?.status === 'finished' ? answerParts(settled) : textParts(latestText(transcript));
  return parts.length === 0 ? [] : [{ ...ANSWER, parts }];
}

/** The text and output of a run, or a refusal; an empty text only alone: an artifact has a part. */
function answerParts({ text, output, incomplete }: FinishedRun): WirePart[] {
  const parts = [...textParts(text), ...textParts(incomplete?.refusal ?? '')];
  if (output !== undefined) parts.push({ data: toJson(output), mediaType: 'application/json' });
  return parts.length === 0 && incomplete === undefined ? [{ text: '' }] : parts;
}

function textParts(text: string): WirePart[] {
  return text === '' ? [] : [{ text: cutText(text, MOST_BYTES) }];
}

function latestText(transcript: readonly Item[]): string {
  const latest = transcript.findLast(item => isAnswer(item) && textOf(item) !== '');
  return latest === undefined ? '' : textOf(latest);
}

const ANSWER = { artifactId: 'answer', name: 'answer' } as const;

function isAnswer(item: Item): item is MessageItem {
  return item.type === 'message' && item.role === 'assistant';
}

function historyOf({ taskId, contextId, transcript }: RunImage): Message[] {
  return transcript.flatMap((item, index) => {
    if (item.type !== 'message' || isOutcome(item)) return [];
    if (item.role !== 'user' && item.role !== 'assistant') return [];
    const text = textOf(item);
    if (text === '') return [];
    const role = item.role === 'user' ? ('ROLE_USER' as const) : ('ROLE_AGENT' as const);
    const messageId = item.id ?? `${taskId}-item-${index}`;
    return [{ messageId, taskId, contextId, role, parts: [{ text: cutText(text, MOST_BYTES) }] }];
  });
}

/** The texts of a run as updates: the first piece of an attempt replaces the artifact, the others are appended. */
class TextUpdates {
  readonly #place: WirePlace;
  #append = false;

  constructor(place: WirePlace) {
    this.#place = place;
  }

  take(told: StoryEvent): StreamResponse[] {
    if (told.type === 'turn.opened') this.#append = false;
    if (told.type === 'answer.blocked' || told.type === 'review.asked') return this.#takeBack();
    if (told.type !== 'text' || told.text === '') return [];
    const update = this.#update(told.text);
    this.#append = true;
    return [update];
  }

  #takeBack(): StreamResponse[] {
    if (!this.#append) return [];
    this.#append = false;
    return [this.#update('')];
  }

  #update(text: string): StreamResponse {
    const artifact = { ...ANSWER, parts: [{ text }] };
    return { artifactUpdate: { ...this.#place, artifact, append: this.#append, lastChunk: false } };
  }
}

function updatesTo(image: RunImage): StreamResponse[] {
  const { taskId, contextId } = image;
  const artifacts = artifactsOf(image).map(artifact => ({
    artifactUpdate: { taskId, contextId, artifact, append: false, lastChunk: true },
  }));
  return [...artifacts, { statusUpdate: { taskId, contextId, status: statusOf(image) } }];
}
