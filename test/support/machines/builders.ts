import { START, settling, stamp, starting, type UntimedEvent } from '../../../explore/make-events.ts';
import type { Context } from '../../../machines/context.ts';
import { type ChartState, initial, next, type Step } from '../../../machines/step.ts';
import type { Limits, RunConfig } from '../../../protocol/config.ts';
import type { Effect, NextAction, ServiceName } from '../../../protocol/effect.ts';
import { JOURNAL_FORMAT, type QualifiedCall, type RunStarted } from '../../../protocol/event.ts';
import type { ToolResultItem } from '../../../protocol/item.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import { textOf, userMessage } from '../../../protocol/message.ts';

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
} from '../../../explore/make-events.ts';

export type ConfigChange = Partial<Omit<RunConfig, 'limits'>> & { limits?: Partial<Limits> };

/** One model and the defaults of an agent, except that an answer is rejected at most once. */
export function makeConfig({ limits, ...change }: ConfigChange = {}): RunConfig {
  return {
    models: [{ provider: 'test', model: 'first' }],
    toolChoice: 'auto',
    finalAnswer: 'live',
    onMessage: 'supersede',
    onLimit: 'answer',
    limits: { turns: 20, toolCalls: 50, ...limits },
    attempts: 3,
    checksAnswer: false,
    answerBlocks: 1,
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

/** A call of an ungated `none` tool that the engine runs. */
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
  decision: { type: 'reject', ...omitUndefined({ reason }) },
  ...change,
});

/** A run driven by hand: a test sends events and inspects the state of the chart. */
export class ChartRun {
  state: ChartState;
  /** All effects so far. */
  readonly effects: Effect[];

  constructor(started: RunStarted) {
    const { state, effects } = initial(started);
    this.state = state;
    this.effects = effects;
  }

  get context(): Context {
    return this.state.context;
  }

  /** The path of the state, such as `resting.paused`. */
  get place(): string {
    return placeOf(this.state);
  }

  get next(): NextAction {
    const { next: chosen } = this.context;
    if (chosen === null) throw new Error('nothing was decided yet');
    return chosen;
  }

  /** The statuses of the calls that are not settled, by call id. */
  get open(): Record<string, string> {
    const unsettled = this.context.calls.filter(({ status }) => status !== 'settled');
    return Object.fromEntries(unsettled.map(({ callId, status }) => [callId, status]));
  }

  /** The tool results so far, in transcript order. */
  get results(): ToolResultItem[] {
    return this.context.transcript.filter(item => item.type === 'tool_result');
  }

  /** The texts of all messages in the transcript. */
  get texts(): string[] {
    return this.context.transcript.filter(item => item.type === 'message').map(textOf);
  }

  /** The current or latest turn. */
  get turn(): Context['turn'] {
    return this.context.turn;
  }

  /** How often a service was started. */
  countStarts(service: ServiceName): number {
    return this.effects.filter(effect => effect.type === 'start' && effect.service === service).length;
  }

  /** Offers events one by one, which may be refused. Returns the last step. */
  offer(...events: UntimedEvent[]): Step {
    let step: Step = { state: this.state, effects: [], handled: false };
    for (const event of events) {
      step = next(this.state, stamp(this.context, event));
      this.state = step.state;
      this.effects.push(...step.effects);
    }
    return step;
  }

  /** Sends events in order. Throws if the chart does not accept one. */
  send(...events: UntimedEvent[]): this {
    for (const event of events) {
      if (!this.offer(event).handled) throw new Error(`${event.type} was not accepted in ${this.place}`);
    }
    return this;
  }

  /** Starts and settles calls of the running batch. */
  finish(...callIds: string[]): this {
    return this.send(...callIds.flatMap(callId => [starting(callId), settling(callId)]));
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
