import type { Context } from '../../../machines/context.ts';
import { type ChartState, initial, next, type Step } from '../../../machines/step.ts';
import type { Limits, RunConfig } from '../../../protocol/config.ts';
import type { Effect, NextAction, ServiceName } from '../../../protocol/effect.ts';
import { JOURNAL_FORMAT, type QualifiedCall, type RunStarted } from '../../../protocol/event.ts';
import type { ToolResultItem } from '../../../protocol/item.ts';
import { textOf, userMessage } from '../../../protocol/message.ts';
import {
  START,
  settling,
  stamp,
  starting,
  type UntimedEvent,
} from '../../../tools/explore/events/make-events.ts';

export {
  answering,
  calling,
  failing,
  makeTurn,
  START,
  saying,
  settling,
  stamp,
  starting,
  type UntimedEvent,
} from '../../../tools/explore/events/make-events.ts';

export type ConfigChange = Partial<Omit<RunConfig, 'limits'>> & { limits?: Partial<Limits> };

/** One model and the defaults of an agent, but a run that is sent back at most once. */
export function makeConfig({ limits, ...change }: ConfigChange = {}): RunConfig {
  return {
    models: [{ provider: 'test', model: 'first' }],
    toolChoice: 'auto',
    finalAnswer: 'live',
    onMessage: 'supersede',
    onLimit: 'answer',
    limits: { turns: 20, toolCalls: 50, ...limits },
    attempts: 3,
    finishers: false,
    finisherRejections: 1,
    ...change,
  };
}

export function makeStarted(config: RunConfig): RunStarted {
  return {
    type: 'run.started',
    at: START,
    runId: 'run',
    format: JOURNAL_FORMAT,
    chart: { version: 1, hash: '' },
    agent: { name: 'agent' },
    config,
    input: [userMessage('begin')],
    stream: true,
  };
}

/** A call that an ungated `none` tool of the engine would get. */
export function makeCall(callId: string, change: Partial<QualifiedCall> = {}): QualifiedCall {
  return {
    callId,
    name: 'look',
    input: {},
    digest: `digest of ${callId}`,
    sideEffect: 'none',
    reconcilable: false,
    executedBy: 'engine',
    gate: false,
    ...change,
  };
}

export const gated = (callId: string, change: Partial<QualifiedCall> = {}) =>
  makeCall(callId, { name: 'pay', sideEffect: 'once', gate: true, ...change });

export const forClient = (callId: string, change: Partial<QualifiedCall> = {}) =>
  makeCall(callId, { name: 'ask', executedBy: 'client', ...change });

export const approving = (
  callId: string,
  change: { sticky?: boolean; digest?: string } = {},
): UntimedEvent => ({
  type: 'approval.decided',
  callId,
  digest: `digest of ${callId}`,
  decision: { type: 'approve' },
  ...change,
});

export const rejecting = (
  callId: string,
  { reason, ...change }: { reason?: string; sticky?: boolean } = {},
): UntimedEvent => ({
  type: 'approval.decided',
  callId,
  digest: `digest of ${callId}`,
  decision: { type: 'reject', ...(reason === undefined ? {} : { reason }) },
  ...change,
});

/** A run that is driven by hand: a test says what happened, and sees what the chart made of it. */
export class ChartRun {
  state: ChartState;
  /** All the chart has asked for so far. */
  readonly effects: Effect[];

  constructor(started: RunStarted) {
    const { state, effects } = initial(started);
    this.state = state;
    this.effects = effects;
  }

  get context(): Context {
    return this.state.context;
  }

  /** The state's path, as `resting.paused`. */
  get place(): string {
    return placeOf(this.state);
  }

  get next(): NextAction {
    const { next: chosen } = this.context;
    if (chosen === null) throw new Error('nothing was decided yet');
    return chosen;
  }

  /** Ids of the calls that are not settled, with where they stand. */
  get open(): Record<string, string> {
    const unsettled = this.context.calls.filter(({ status }) => status !== 'settled');
    return Object.fromEntries(unsettled.map(({ callId, status }) => [callId, status]));
  }

  /** The model's results so far, in the transcript's order. */
  get results(): ToolResultItem[] {
    return this.context.transcript.filter(item => item.type === 'tool_result');
  }

  /** The texts of all messages of the transcript. */
  get texts(): string[] {
    return this.context.transcript.filter(item => item.type === 'message').map(textOf);
  }

  /** Where the turn stands that runs or ran last. */
  get turn(): Context['turn'] {
    return this.context.turn;
  }

  /** How often a service was started. */
  countStarts(service: ServiceName): number {
    return this.effects.filter(effect => effect.type === 'start' && effect.service === service).length;
  }

  /** Offers events one by one and gives back the last step; they may be refused. */
  offer(...told: UntimedEvent[]): Step {
    let step: Step = { state: this.state, effects: [], handled: false };
    for (const one of told) {
      step = next(this.state, stamp(this.context, one));
      this.state = step.state;
      this.effects.push(...step.effects);
    }
    return step;
  }

  /** What happened, in order; throws when the chart does not take one of them. */
  tell(...told: UntimedEvent[]): this {
    for (const one of told) {
      if (!this.offer(one).handled) throw new Error(`${one.type} was not taken in ${this.place}`);
    }
    return this;
  }

  /** Starts and settles calls of the running batch. */
  finish(...callIds: string[]): this {
    return this.tell(...callIds.flatMap(callId => [starting(callId), settling(callId)]));
  }
}

export function begin(change: ConfigChange = {}): ChartRun {
  return new ChartRun(makeStarted(makeConfig(change)));
}

function placeOf({ value }: ChartState): string {
  if (typeof value === 'string') return value;
  return Object.entries(value)
    .map(([outer, inner]) => `${outer}.${String(inner)}`)
    .join();
}
