/** The operations of A2A on the runs of one agent. A task is a run; its context is a chat, the label `chat`. */

import { byOf, type Caller } from '../../access/caller.ts';
import type { Agent } from '../../agent/agent.ts';
import { endOn } from '../../engine/events/stoppable.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { chatLabels, chatOf } from '../../protocol/listing/reserved-label.ts';
import type { Settled } from '../../protocol/run-view.ts';
import { MOST_LISTED, type RunRecord } from '../../protocol/store.ts';
import { type Hold, settledNow } from '../../server/runs/run-registry.ts';
import { showTranscript } from '../../server/runs/run-view.ts';
import { findLatestRun } from '../served/find-chat.ts';
import { openCallsFor } from '../served/open-calls.ts';
import type { ServedRuns } from '../served/served-runs.ts';
import { A2aError } from './a2a-error.ts';
import { readCommands, readItem } from './read-message.ts';
import { type RunImage, runStatusOf, stateOf, TextUpdates, taskOf, updatesTo } from './task-fold.ts';
import type { ListRequest, Place, SendRequest, StreamResponse, Task } from './wire.ts';

/** What a stream sends, in lists of what is known at once. */
export type Updates = AsyncGenerator<readonly StreamResponse[]>;

/** The operations for one caller. Closing a stream, or a request, stops nothing. */
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
    const hold = await this.#accept(request);
    try {
      if (returnImmediately !== true) await settle(hold);
      return { task: taskOf(await this.#image(hold), historyLength) };
    } finally {
      hold.release();
    }
  }

  /** As `send`, but with the task and its updates as they happen, until it rests or has ended, or `left` is aborted. */
  async sendStream(request: SendRequest, left: AbortSignal): Promise<Updates> {
    const { historyLength } = configurationOf(request);
    const hold = await this.#accept(request);
    return this.#stream(hold, { historyLength, follow: false, left });
  }

  async get(taskId: string, historyLength?: number): Promise<Task> {
    const hold = await this.#hold(taskId);
    try {
      return taskOf(await this.#image(hold), historyLength);
    } finally {
      hold.release();
    }
  }

  async list(request: ListRequest) {
    const { contextId, status, pageSize, pageToken, statusTimestampAfter, includeArtifacts } = request;
    const ofStatus = status === undefined ? undefined : runStatusOf(status);
    const own = this.#caller.labels;
    const labels = contextId === '' ? own : chatLabels(contextId, own);
    const filter = { agent: this.#agent.name, labels, ...omitUndefined({ status: ofStatus }) };
    const isNone = status !== undefined && status !== 'TASK_STATE_UNSPECIFIED' && ofStatus === undefined;
    if (isNone) return { tasks: [], nextPageToken: '', pageSize, totalSize: 0 };
    const cursor = pageToken === '' ? undefined : pageToken;
    const page = await this.#runs.store.list({ ...filter, limit: pageSize, ...omitUndefined({ cursor }) });
    const all = await this.#runs.store.list({ ...filter, limit: MOST_LISTED });
    const after = statusTimestampAfter === undefined ? 0 : Date.parse(statusTimestampAfter);
    const tasks = page.runs.filter(({ updatedAt }) => updatedAt >= after);
    return {
      tasks: await Promise.all(
        tasks.map(record => (includeArtifacts === true ? this.get(record.runId, 0) : summarize(record))),
      ),
      nextPageToken: page.next ?? '',
      pageSize,
      totalSize: all.runs.length,
    };
  }

  /** Cancels the run and waits until it has ended. Throws `not-cancelable` for an ended run. */
  async cancel(taskId: string): Promise<Task> {
    const hold = await this.#hold(taskId);
    try {
      const result = await hold.run.cancel({
        reason: 'cancelled by the A2A client',
        ...omitUndefined({ by: byOf(this.#caller) }),
      });
      if (!result.accepted) throw new A2aError('not-cancelable', result.message);
      this.#runs.drive(taskId);
      await settle(hold);
      return taskOf(await this.#image(hold));
    } finally {
      hold.release();
    }
  }

  /** The task, and its updates until it has ended. Throws `unsupported` for an ended run. */
  async subscribe(taskId: string, left: AbortSignal): Promise<Updates> {
    const hold = await this.#hold(taskId);
    const { settled } = await this.#image(hold);
    if (settled === null || settled.status === 'waiting') return this.#stream(hold, { follow: true, left });
    hold.release();
    throw new A2aError('unsupported', 'The task has ended. Get it instead.');
  }

  /** Starts the run of a message, or gives the message to the run of its task. Release the result. */
  async #accept(request: SendRequest): Promise<Hold> {
    const { message } = request;
    if (message.taskId !== '') return await this.#continue(message);
    const chat = message.contextId === '' ? this.#runs.host.newId('chat') : message.contextId;
    const labels = chatLabels(chat, this.#caller.labels);
    const hasEnded = ({ agent, status }: RunRecord) =>
      agent === this.#agent.name && status !== 'running' && status !== 'waiting';
    const before = await findLatestRun(this.#runs.store, labels, hasEnded);
    return await this.#runs.begin(this.#agent, [readItem(message.parts)], this.#caller, {
      chat,
      ...omitUndefined({ continues: before?.runId }),
    });
  }

  async #continue({ taskId, contextId, parts }: SendRequest['message']): Promise<Hold> {
    const hold = await this.#hold(taskId);
    try {
      const { run } = hold;
      if (contextId !== '' && contextId !== contextOf(run.id, run.context.labels))
        throw new A2aError('invalid-params', 'The task belongs to another context.');
      const settled = await settledNow(run);
      if (settled !== null && settled.status !== 'waiting')
        throw new A2aError(
          'unsupported',
          'The task has ended. Send the message with its contextId and no taskId.',
        );
      const open = openCallsFor(run.id, settled);
      for (const command of readCommands(parts, open, byOf(this.#caller))) {
        const result = await run.submit([command]);
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

  /** The run of a task of this agent; resumes it if no process drives it. Throws `run-unknown`. */
  async #hold(taskId: string): Promise<Hold> {
    const hold = await this.#runs.hold(taskId, this.#caller);
    if (hold.run.context.agent.name === this.#agent.name) return hold;
    hold.release();
    throw new A2aError('task-unknown', 'There is no such task.');
  }

  async #image({ run }: Hold): Promise<RunImage> {
    const { updatedAt } = await this.#runs.record(run.id, this.#caller);
    return {
      ...placeOf(run),
      agent: this.#agent.name,
      seq: run.durable.seq,
      at: updatedAt,
      settled: await settledNow(run),
      transcript: showTranscript(run.durable.state, run.source.showText),
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
      const begins = await this.#image(hold);
      yield [{ task: taskOf(begins, historyLength) }];
      let status = begins.settled?.status ?? 'running';
      const texts = new TextUpdates(placeOf(run));
      for await (const told of story) {
        yield told.flatMap(event => texts.take(event));
        const state = told.find(({ type }) => type === 'state');
        if (!follow || state?.type !== 'state' || state.status === status) continue;
        status = state.status;
        yield updatesTo(await this.#image(hold));
      }
      if (!over.aborted && !follow) yield updatesTo(await this.#image(hold));
    } finally {
      hold.release();
    }
  }
}

function placeOf({ id, context }: Hold['run']): Place {
  return { taskId: id, contextId: contextOf(id, context.labels) };
}

/** The context of a task; a run without a chat is alone in its own. */
function contextOf(runId: string, labels: Readonly<Record<string, string>> = {}): string {
  return chatOf(labels) ?? runId;
}

function summarize({ runId, labels, status, updatedAt, agent }: RunRecord): Task {
  const timestamp = new Date(updatedAt).toISOString();
  return {
    id: runId,
    contextId: contextOf(runId, labels),
    status: { state: stateOf(status), timestamp },
    metadata: { agent },
  };
}

function configurationOf({ configuration = {} }: SendRequest) {
  if (configuration.taskPushNotificationConfig !== undefined)
    throw new A2aError('no-push', 'This server sends no push notifications. Subscribe to the task instead.');
  return configuration;
}

/** Waits until the run settles; throws when the server shuts down, and the run stays resumable. */
async function settle({ run, closing }: Hold): Promise<Settled> {
  const { promise: closed, reject } = Promise.withResolvers<never>();
  const abort = () => reject(new A2aError('internal', 'The server is shutting down. Get the task later.'));
  if (closing.aborted) abort();
  closing.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([run.settled(), closed]);
  } finally {
    closing.removeEventListener('abort', abort);
  }
}
