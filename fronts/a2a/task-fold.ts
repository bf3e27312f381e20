import type { StoryEvent } from '../../engine/story/story-event.ts';
import type { Item } from '../../protocol/item.ts';
import { type JsonObject, omitUndefined, toJson } from '../../protocol/json.ts';
import { textOf } from '../../protocol/message.ts';
import { ANSWER_EXAMPLES } from '../../protocol/open/answer-form.ts';
import type { FinishedRun, OpenCall, OpenCallKind, Settled, WaitingRun } from '../../protocol/run-view.ts';
import type { RunStatus } from '../../protocol/store.ts';
import { cutText } from '../../text/cut-text.ts';
import { describeCall, openCallsFor } from '../served/open-calls.ts';
import type { Artifact, Message, Part, Place, StreamResponse, Task, TaskState, TaskStatus } from './wire.ts';

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

export function stateOf(status: RunStatus): TaskState {
  return STATES[status];
}

export function runStatusOf(state: string): RunStatus | undefined {
  return (Object.keys(STATES) as RunStatus[]).find(status => STATES[status] === state);
}

/** The largest text of an artifact, in bytes of UTF-8. The run has the full one. */
const MOST_BYTES = 4 * 1024 * 1024;

const MOST_HISTORY = 200;

export type RunImage = Place & {
  agent: string;
  /** The seq of the last entry, and when it was written, in ms since the epoch. */
  seq: number;
  at: number;
  /** `null` while the run has something to do. */
  settled: Settled | null;
  transcript: readonly Item[];
};

/** A run as a task. `historyLength`: how many messages to show; default: up to 200. */
export function taskOf(image: RunImage, historyLength = MOST_HISTORY): Task {
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

function say({ taskId, contextId, seq }: RunImage, parts: Part[]): Message {
  return { messageId: `${taskId}-${seq}`, taskId, contextId, role: 'ROLE_AGENT', parts };
}

function partsOf(runId: string, settled: Settled): Part[] {
  if (settled.status === 'failed') return [{ text: `${settled.error.message} (${settled.error.code})` }];
  if (settled.status === 'waiting') return askParts(runId, settled);
  if (settled.status !== 'finished' || settled.incomplete === undefined) return [];
  return [{ text: `The answer is incomplete: ${settled.incomplete.reason}` }];
}

/** What a run waits for, as text and as data with the possible answers. */
function askParts(runId: string, settled: WaitingRun): Part[] {
  const open = [...openCallsFor(runId, settled)];
  if (open.length === 0) return [{ text: 'The run is paused.' }];
  const lines = open.map(([, call]) => `${NEEDS[call.kind]}: ${describeCall(call)}`);
  return [
    { text: lines.join('\n') },
    { data: { questions: open.map(describeOpen) }, mediaType: 'application/json' },
  ];
}

const NEEDS: Readonly<Record<OpenCallKind, string>> = {
  approval: 'Needs approval',
  result: 'Needs a result',
  doubt: 'May have happened',
};

function describeOpen([callId, call]: [string, OpenCall]): JsonObject {
  const { kind, name, input, reason, expiresAt } = call;
  return {
    callId,
    kind,
    tool: name,
    input: toJson(input),
    ...omitUndefined({
      reason,
      expiresAt: expiresAt === undefined ? undefined : new Date(expiresAt).toISOString(),
    }),
    answers: ANSWER_EXAMPLES[kind].map(answer => ({ callId, ...answer })),
  };
}

/** The artifacts of a run: `answer`, once it has finished, or earlier if the agent has produced text. */
function artifactsOf({ settled, transcript }: RunImage): Artifact[] {
  const parts = settled?.status === 'finished' ? answerParts(settled) : textParts(latestText(transcript));
  return parts.length === 0 ? [] : [{ ...ANSWER, parts }];
}

/**
 * The text and output of a finished run, or the words of a refusal. An empty text counts if there is nothing else and the
 * answer is complete: an artifact has a part.
 */
function answerParts({ text, output, incomplete }: FinishedRun): Part[] {
  const parts = [...textParts(text), ...textParts(incomplete?.refusal ?? '')];
  if (output !== undefined) parts.push({ data: toJson(output), mediaType: 'application/json' });
  return parts.length === 0 && incomplete === undefined ? [{ text: '' }] : parts;
}

function textParts(text: string): Part[] {
  return text === '' ? [] : [{ text: cutText(text, MOST_BYTES) }];
}

function latestText(transcript: readonly Item[]): string {
  const latest = transcript.findLast(item => isAnswer(item) && textOf(item) !== '');
  return latest === undefined ? '' : textOf(latest);
}

const ANSWER = { artifactId: 'answer', name: 'answer' } as const;

function isAnswer(item: Item): boolean {
  return item.type === 'message' && item.role === 'assistant';
}

function historyOf({ taskId, contextId, transcript }: RunImage): Message[] {
  return transcript.flatMap((item, index) => {
    if (item.type !== 'message' || (item.role !== 'user' && item.role !== 'assistant')) return [];
    const text = textOf(item);
    if (text === '') return [];
    const role = item.role === 'user' ? ('ROLE_USER' as const) : ('ROLE_AGENT' as const);
    const messageId = item.id ?? `${taskId}-item-${index}`;
    return [{ messageId, taskId, contextId, role, parts: [{ text: cutText(text, MOST_BYTES) }] }];
  });
}

/** The texts of a run as updates: the first piece of an attempt replaces the artifact, the others are appended. */
export class TextUpdates {
  readonly #place: Place;
  #append = false;

  constructor(place: Place) {
    this.#place = place;
  }

  take(told: StoryEvent): StreamResponse[] {
    if (told.type === 'turn.opened') this.#append = false;
    if (told.type !== 'text' || told.text === '') return [];
    const { taskId, contextId } = this.#place;
    const artifact = { ...ANSWER, parts: [{ text: told.text }] };
    const artifactUpdate = { taskId, contextId, artifact, append: this.#append, lastChunk: false };
    this.#append = true;
    return [{ artifactUpdate }];
  }
}

/** The updates that bring a client to the state of a run: its artifacts in full, then its status. */
export function updatesTo(image: RunImage): StreamResponse[] {
  const { taskId, contextId } = image;
  const artifacts = artifactsOf(image).map(artifact => ({
    artifactUpdate: { taskId, contextId, artifact, append: false, lastChunk: true },
  }));
  return [...artifacts, { statusUpdate: { taskId, contextId, status: statusOf(image) } }];
}
