import type { Run } from '../../engine/run/run.ts';
import type { Settled } from '../../engine/run/settled.ts';
import { decideNextAction } from '../../machines/decide-next-action.ts';
import type { RunParams } from '../../protocol/config.ts';
import { EngineError } from '../../protocol/error.ts';
import type { Item, ToolResultItem } from '../../protocol/item.ts';
import { userMessage } from '../../protocol/message.ts';
import { CurrentTurn } from './current-turn.ts';
import { readJournal } from './read-journal.ts';
import { type CompletedTurn, describeTurn, type RunnerTurn } from './runner-turn.ts';
import { TurnStream } from './turn-stream.ts';

/** What the next request is made of; `messages` is the run's own transcript without the reply at hand. */
export type RunnerParams = RunParams & { messages: readonly Item[] };

/** Who the runner is in the journal. */
const RUNNER = { by: 'runner' };

/**
 * A run held between its turns, to be iterated once.
 *
 * R1 The run is paused, and every model call and every batch of tools is a step this runner asked for.
 * R2 What the loop body changes is put to the chart when the body has ended, before the calls are run; a
 *    body that is left early changes nothing.
 * R3 The reply stays in the transcript unless the body changed the transcript.
 * R4 The calls of a turn are run once, whoever asks first.
 * R5 That a body has ended is journaled: whoever picks the run up does not enter it again.
 */
export class Runner<Given extends RunnerTurn | TurnStream> implements AsyncIterable<Given> {
  readonly #open: () => Promise<Run>;
  readonly #streams: boolean;
  readonly #ended = Promise.withResolvers<Settled>();
  #run: Run | undefined;
  #iterated = false;
  #hand: CurrentTurn | undefined;
  /** The last entry of the journal that was looked at, and the turns up to it. */
  #seq = 0;
  #turns = 0;

  constructor(open: () => Promise<Run>, streams: boolean) {
    this.#open = open;
    this.#streams = streams;
    this.#ended.promise.catch(() => {});
  }

  /** The run, once the iteration has begun: to approve calls, to read its events, to find it again by its id. */
  get run(): Run {
    if (this.#run !== undefined) return this.#run;
    throw new EngineError('refused', 'The run begins with the iteration, and nobody has begun that yet.');
  }

  get params(): RunnerParams {
    const messages = this.#hand?.messages(this.run.context) ?? this.run.context.transcript;
    return { ...this.run.context.params, ...this.#hand?.params, messages };
  }

  /** Appends to the transcript without the reply at hand, which is then kept only if it is pushed too. */
  pushMessages(...messages: readonly (string | Item)[]): void {
    this.setMessagesParams(({ messages: before }) => ({ messages: [...before, ...messages.map(toItem)] }));
  }

  /** Changes what the next request is made of. Only a change of `messages` drops the reply. */
  setMessagesParams(change: Partial<RunnerParams> | ((params: RunnerParams) => Partial<RunnerParams>)): void {
    const before = this.params;
    const { messages = before.messages, ...params } = typeof change === 'function' ? change(before) : change;
    const hand = this.#turnAtHand();
    if (messages !== before.messages) hand.edit = messages;
    const { messages: _, ...earlier } = before;
    hand.params = { ...earlier, ...params };
  }

  /**
   * Runs the calls of the turn at hand and gives their results, in call order; `null` where it has none.
   * Nothing is run twice: asked again, or by the runner itself afterwards, it is the same results.
   * Rejects with `refused` while one of them waits for somebody else.
   */
  generateToolResponse(): Promise<ToolResultItem[] | null> {
    const hand = this.#turnAtHand();
    hand.response ??= this.#runCalls(hand);
    return hand.response;
  }

  /** Runs a failed call of the turn at hand again, under the same key, and gives all its results anew. */
  async retry(callId: string): Promise<ToolResultItem[] | null> {
    const hand = this.#turnAtHand();
    await hand.response;
    accepted(await this.run.retry(callId, RUNNER));
    hand.response = this.#runCalls(hand);
    return await hand.response;
  }

  /** Where the run came to rest or ended. Settles with the iteration, also with one that was left early. */
  done(): Promise<Settled> {
    return this.#ended.promise;
  }

  /** Iterates to the end where nobody has begun to, and gives what `done` gives. */
  async runUntilDone(): Promise<Settled> {
    if (!this.#iterated) for await (const _ of this);
    return await this.done();
  }

  [Symbol.asyncIterator](): AsyncGenerator<Given, void> {
    if (this.#iterated)
      throw new EngineError(
        'refused',
        'A runner is iterated once. Pick its run up with turns(agent, { runId }).',
      );
    this.#iterated = true;
    return this.#iterate();
  }

  async *#iterate(): AsyncGenerator<Given, void> {
    try {
      this.#run = await this.#open();
      yield* this.#giveHeldTurn();
      while (await this.#isHeld()) {
        const { type } = decideNextAction({ ...this.run.context, paused: false });
        if (type === 'callModel' || type === 'streamFinal') yield* this.#takeTurn();
        else await this.#step();
      }
      this.#ended.resolve(await this.run.settled());
    } catch (error) {
      this.#ended.reject(error);
      throw error;
    } finally {
      this.#hand = undefined;
      this.#run?.settled().then(this.#ended.resolve, this.#ended.reject);
    }
  }

  /** A run that was picked up in the middle of a body: its last turn is given again. */
  async *#giveHeldTurn(): AsyncGenerator<Given, void> {
    const from = this.#seq;
    if (!(await this.#isHeld())) return;
    const { last, bodyEnded } = await this.#look();
    if (last === undefined || bodyEnded) return;
    yield* this.#give(new CurrentTurn(this.run.context, Promise.resolve(last)), from);
  }

  /** One model call, with all its attempts. */
  async *#takeTurn(): AsyncGenerator<Given, void> {
    const { context } = this.run;
    const from = this.#seq;
    accepted(await this.run.step(RUNNER));
    const completed = this.#completeTurn();
    yield* this.#give(new CurrentTurn(context, completed), from);
  }

  /** An attempt that failed is followed by the next, as far as the run makes one. */
  async #completeTurn(): Promise<CompletedTurn | undefined> {
    for (;;) {
      await this.run.settled();
      const { last } = await this.#look();
      if (last !== undefined || this.run.context.failure === null || !(await this.#isHeld())) return last;
      accepted(await this.run.step(RUNNER));
    }
  }

  /** A turn without a reply (it failed, or was the draft of a separate answer) is not shown to the body. */
  async *#give(hand: CurrentTurn, from: number): AsyncGenerator<Given, void> {
    const described = hand.completed.then(turn => turn && describeTurn(turn, this.#turns));
    described.catch(() => {});
    this.#hand = hand;
    if (this.#streams) yield new TurnStream(this.run, from, described) as Given;
    else {
      const turn = await described;
      if (turn === undefined) return;
      yield turn as Given;
    }
    if ((await hand.completed) !== undefined) await this.#endBody(hand);
  }

  async #endBody({ edit, params, response }: CurrentTurn): Promise<void> {
    const { run } = this;
    await response?.catch(() => {});
    const ended = (await run.settled()).status !== 'waiting';
    if (ended) {
      if (edit === undefined && params === undefined) return;
      throw new EngineError(
        'run-ended',
        `Run ${run.id} has ended: what the loop body changed came too late.`,
      );
    }
    // The note that the body has ended comes last: an edit that is refused leaves it to be entered again.
    if (edit !== undefined) accepted(await run.editTranscript(edit, RUNNER));
    accepted(await run.setParams(params ?? run.context.params, RUNNER));
  }

  async #runCalls(hand: CurrentTurn): Promise<ToolResultItem[] | null> {
    const turn = await hand.completed;
    if (turn === undefined || turn.calls.length === 0) return null;
    for (;;) {
      await this.run.settled();
      const results = resultsOf(turn, this.run.context.transcript);
      if (results !== undefined) return results;
      const { type } = decideNextAction({ ...this.run.context, paused: false });
      if (type !== 'executeTools') {
        const message =
          'A call of this turn waits for somebody: settle it through runner.run, then ask again.';
        hand.response = undefined;
        throw new EngineError('refused', message);
      }
      await this.#step();
    }
  }

  async #step(): Promise<void> {
    accepted(await this.run.step(RUNNER));
    await this.run.settled();
  }

  /** Paused before something that spends, or before its end; not waiting for a person or a client. */
  async #isHeld(): Promise<boolean> {
    const { status } = await this.run.settled();
    return status === 'waiting' && this.run.context.next?.type === 'pause';
  }

  async #look(): Promise<{ last: CompletedTurn | undefined; bodyEnded: boolean }> {
    const seen = await readJournal(this.run, this.#seq, RUNNER.by);
    this.#seq = seen.seq;
    this.#turns += seen.turns;
    return seen;
  }

  #turnAtHand(): CurrentTurn {
    if (this.#hand !== undefined) return this.#hand;
    throw new EngineError('refused', 'There is no turn at hand: this is for the body of the loop.');
  }
}

function resultsOf(turn: CompletedTurn, transcript: readonly Item[]): ToolResultItem[] | undefined {
  const results = turn.calls.flatMap(({ callId }) =>
    transcript.filter(
      (item): item is ToolResultItem => item.type === 'tool_result' && item.callId === callId,
    ),
  );
  return results.length === turn.calls.length ? results : undefined;
}

function accepted(
  answer: { accepted: true } | { accepted: false; code: EngineError['code']; message: string },
) {
  if (!answer.accepted) throw new EngineError(answer.code, answer.message);
}

function toItem(message: string | Item): Item {
  return typeof message === 'string' ? userMessage(message) : message;
}
