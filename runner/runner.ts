import type { CommandResult } from '../engine/log/refusal.ts';
import type { Settled } from '../engine/log/settled.ts';
import type { Run } from '../engine/run/run.ts';
import type { Context } from '../machines/context.ts';
import { decideNextAction } from '../machines/decide-next-action.ts';
import { type RunParams, runParamsSchema } from '../protocol/config.ts';
import { EngineError } from '../protocol/error.ts';
import type { Item, ToolResultItem } from '../protocol/item.ts';
import { userMessage } from '../protocol/message.ts';
import { refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import { type CompletedTurn, describeTurn, type RunnerTurn, TurnStream } from './runner-turn.ts';

/** Parameters of the next model request. `messages` is the run's transcript without the current reply. */
export type RunnerParams = RunParams & { messages: readonly Item[] };

/** The author of the runner's entries in the journal. */
const RUNNER = { by: 'runner' };

/**
 * A run that is driven turn by turn by iterating this object once. Create one with `turns`.
 *
 * R1 The run is paused. Every model call and every batch of tools is a step that the runner requests.
 * R2 Changes by the loop body are submitted when the body ends, before the calls run. A body that is left
 *    early changes nothing.
 * R3 The reply stays in the transcript unless the body changed the transcript.
 * R4 The calls of a turn run once, whether the body or the runner requests it first.
 * R5 The end of a body is journaled, so that a reopened run does not repeat it.
 */
export class Runner<Given extends RunnerTurn | TurnStream> implements AsyncIterable<Given> {
  readonly #open: () => Promise<Run>;
  readonly #streams: boolean;
  readonly #ended = Promise.withResolvers<Settled>();
  #run: Run | undefined;
  #iterated = false;
  #current: CurrentTurn | undefined;
  /** The last journal entry that was read, and the number of turns up to it. */
  #seq = 0;
  #turns = 0;

  constructor(open: () => Promise<Run>, streams: boolean) {
    this.#open = open;
    this.#streams = streams;
    this.#ended.promise.catch(() => {});
  }

  /** The run, for its id, its events and decisions. Throws `refused` before the iteration has opened it. */
  get run(): Run {
    if (this.#run !== undefined) return this.#run;
    throw new EngineError('refused', 'There is no run yet: the runner starts it when you iterate.');
  }

  /** The parameters of the next request. Throws `refused` before the iteration has opened the run. */
  get params(): RunnerParams {
    const { context } = this.run;
    const messages = this.#current === undefined ? context.transcript : messagesOf(this.#current, context);
    return { ...context.params, ...this.#current?.params, messages };
  }

  /**
   * Appends messages to the transcript, which does not include the current reply. To keep the reply, push its
   * items too. Throws `refused` outside the loop body.
   *
   * @example
   * for await (const turn of runner) {
   *   if (!turn.text.includes('refunded')) runner.pushMessages(...turn.items, 'Say whether you refunded it.');
   * }
   */
  pushMessages(...messages: readonly (string | Item)[]): void {
    this.setMessagesParams(({ messages: before }) => ({ messages: [...before, ...messages.map(toItem)] }));
  }

  /** Changes the following requests. Only `messages` drops the current reply. Throws `refused` outside the loop body. */
  setMessagesParams(change: Partial<RunnerParams> | ((params: RunnerParams) => Partial<RunnerParams>)): void {
    const before = this.params;
    const changed = typeof change === 'function' ? change(before) : change;
    refuseUnknownOptions(
      'setMessagesParams',
      changed,
      { ...runParamsSchema.shape, messages: true },
      'input-invalid',
    );
    const { messages = before.messages, ...params } = changed;
    const current = this.#requireTurn();
    if (messages !== before.messages) current.edit = messages;
    const { messages: _, ...earlier } = before;
    current.params = { ...earlier, ...params };
  }

  /**
   * Runs the calls of the current turn. Resolves to their results in call order, or to `null` if there are no
   * calls. Calls run once: calling this again returns the same results, and the runner does not repeat them.
   * Rejects with `refused` while a call waits for a decision or a result.
   */
  generateToolResponse(): Promise<ToolResultItem[] | null> {
    const current = this.#requireTurn();
    current.response ??= this.#runCalls(current);
    return current.response;
  }

  /** Runs a failed call of the current turn again with the same key. Resolves to the new results of all calls. */
  async retry(callId: string): Promise<ToolResultItem[] | null> {
    const current = this.#requireTurn();
    await current.response;
    assertAccepted(await this.run.retry(callId, RUNNER));
    current.response = this.#runCalls(current);
    return await current.response;
  }

  /** Resolves when the iteration ends, even early by `break`, to how the run rests or ended. */
  done(): Promise<Settled> {
    return this.#ended.promise;
  }

  /** Iterates to the end, unless an iteration has started, and resolves as `done` does. */
  async runUntilDone(): Promise<Settled> {
    if (!this.#iterated) for await (const _ of this);
    return await this.done();
  }

  /** Drives the run, one turn per iteration. Throws `refused` if it was iterated before. */
  [Symbol.asyncIterator](): AsyncGenerator<Given, void> {
    if (this.#iterated)
      throw new EngineError(
        'refused',
        'A runner can be iterated once. To continue its run, use turns(agent, { runId }).',
      );
    this.#iterated = true;
    return this.#iterate();
  }

  async *#iterate(): AsyncGenerator<Given, void> {
    try {
      this.#run = await this.#open();
      yield* this.#yieldUnfinishedTurn();
      while (await this.#isPaused()) {
        const { type } = decideNextAction({ ...this.run.context, paused: false });
        if (type === 'callModel' || type === 'streamFinal') yield* this.#takeTurn();
        else await this.#step();
      }
      this.#ended.resolve(await this.run.settled());
    } catch (error) {
      this.#ended.reject(error);
      throw error;
    } finally {
      this.#current = undefined;
      this.#run?.settled().then(this.#ended.resolve, this.#ended.reject);
    }
  }

  /** For a reopened run whose loop body did not finish: yields the last turn again. */
  async *#yieldUnfinishedTurn(): AsyncGenerator<Given, void> {
    const from = this.#seq;
    if (!(await this.#isPaused())) return;
    const { last, bodyEnded } = await this.#readNewEntries();
    if (last === undefined || bodyEnded) return;
    yield* this.#yieldTurn(beginTurn(this.run.context, Promise.resolve(last)), from);
  }

  async *#takeTurn(): AsyncGenerator<Given, void> {
    const { context } = this.run;
    const from = this.#seq;
    assertAccepted(await this.run.step(RUNNER));
    const completed = this.#completeTurn();
    yield* this.#yieldTurn(beginTurn(context, completed), from);
  }

  /** Steps through retries and fallbacks until the turn is complete or the run gives up. */
  async #completeTurn(): Promise<CompletedTurn | undefined> {
    for (;;) {
      await this.run.settled();
      const { last } = await this.#readNewEntries();
      if (last !== undefined || this.run.context.failure === null || !(await this.#isPaused())) return last;
      assertAccepted(await this.run.step(RUNNER));
    }
  }

  /** Yields a turn to the loop body. A turn without a reply (failed, or the draft of a separate answer) is skipped. */
  async *#yieldTurn(current: CurrentTurn, from: number): AsyncGenerator<Given, void> {
    const described = current.completed.then(turn => turn && describeTurn(turn, this.#turns));
    described.catch(() => {});
    this.#current = current;
    if (this.#streams) yield new TurnStream(this.run, from, described) as Given;
    else {
      const turn = await described;
      if (turn === undefined) return;
      yield turn as Given;
    }
    if ((await current.completed) !== undefined) await this.#endBody(current);
  }

  async #endBody({ edit, params, response }: CurrentTurn): Promise<void> {
    const { run } = this;
    await response?.catch(() => {});
    const ended = (await run.settled()).status !== 'waiting';
    if (ended && edit === undefined && params === undefined) return;
    const message = `Run ${run.id} has ended: the changes of the loop body cannot be applied.`;
    if (ended) throw new EngineError('run-ended', message);
    // Journal the end of the body last: if the edit is refused, the body is entered again.
    if (edit !== undefined) assertAccepted(await run.editTranscript(edit, RUNNER));
    assertAccepted(await run.setParams(params ?? run.context.params, RUNNER));
  }

  async #runCalls(current: CurrentTurn): Promise<ToolResultItem[] | null> {
    const turn = await current.completed;
    if (turn === undefined || turn.calls.length === 0) return null;
    for (;;) {
      await this.run.settled();
      const results = resultsOf(turn, this.run.context.transcript);
      if (results !== undefined) return results;
      const { type } = decideNextAction({ ...this.run.context, paused: false });
      if (type !== 'executeTools') {
        const message =
          'A call of this turn waits for a decision or a result: submit it through runner.run, then try again.';
        current.response = undefined;
        throw new EngineError('refused', message);
      }
      await this.#step();
    }
  }

  async #step(): Promise<void> {
    assertAccepted(await this.run.step(RUNNER));
    await this.run.settled();
  }

  /** Whether the run is paused before a step or before its end, and waits for nothing else. */
  async #isPaused(): Promise<boolean> {
    const { status } = await this.run.settled();
    return status === 'waiting' && this.run.context.next?.type === 'pause';
  }

  /** `last`: the last completed turn, unless it was a draft. `bodyEnded`: the loop body has finished with it. */
  async #readNewEntries(): Promise<{ last: CompletedTurn | undefined; bodyEnded: boolean }> {
    let last: CompletedTurn | undefined;
    let bodyEnded = false;
    for await (const entry of this.run.events({ after: this.#seq })) {
      if (!('seq' in entry)) continue;
      this.#seq = entry.seq;
      if (entry.type === 'turn.completed') {
        this.#turns += 1;
        last = entry;
        bodyEnded = false;
      } else if (entry.type === 'params.changed' && entry.by === RUNNER.by) bodyEnded = true;
    }
    return { last: this.run.context.lastTurn?.draft === true ? undefined : last, bodyEnded };
  }

  #requireTurn(): CurrentTurn {
    if (this.#current !== undefined) return this.#current;
    const message = 'There is no current turn: call this in the body of the for await loop.';
    throw new EngineError('refused', message);
  }
}

function resultsOf(turn: CompletedTurn, transcript: readonly Item[]): ToolResultItem[] | undefined {
  const all = transcript.filter(item => item.type === 'tool_result');
  const results = turn.calls.flatMap(({ callId }) => all.filter(item => item.callId === callId));
  return results.length === turn.calls.length ? results : undefined;
}

function assertAccepted(result: CommandResult): void {
  if (!result.accepted) throw new EngineError(result.code, result.message);
}

function toItem(message: string | Item): Item {
  return typeof message === 'string' ? userMessage(message) : message;
}

/** The turn that the loop body is processing, and the changes it made. */
type CurrentTurn = {
  /** Resolves to `undefined` if the turn gave no reply. */
  completed: Promise<CompletedTurn | undefined>;
  reply?: CompletedTurn | undefined;
  /** The transcript when the turn was requested, or later, with the messages that the turn reads. */
  requested: readonly Item[];
  /** The transcript that replaces the run's. */
  edit?: readonly Item[];
  params?: RunParams;
  response?: Promise<ToolResultItem[] | null> | undefined;
};

function beginTurn(
  { transcript, inbox }: Context,
  completed: Promise<CompletedTurn | undefined>,
): CurrentTurn {
  const current: CurrentTurn = { completed, requested: [...transcript, ...inbox] };
  completed.then(
    reply => {
      current.reply = reply;
    },
    () => {},
  );
  return current;
}

/** The transcript as the loop body sees it: without the reply, unless the body added it. */
function messagesOf({ edit, reply, requested }: CurrentTurn, { transcript }: Context): readonly Item[] {
  if (edit !== undefined) return edit;
  const first = reply?.items[0]?.id;
  if (first === undefined) return requested;
  const place = transcript.findIndex(item => item.id === first);
  return place === -1 ? transcript : transcript.slice(0, place);
}
