/*
 * The chart: the agent loop as one XState statechart of pure functions, small enough for browsers. The engine carries
 * out its effects. `fold.ts` applies events to the context, `decide-next-action.ts` chooses the next action, `step.ts`
 * exposes the chart as a pure function, and `snapshot.ts` converts its state to JSON and back.
 */
import { assign, emit, enqueueActions, fromCallback, type SnapshotFrom, setup, stopChild } from 'xstate';
import type { NextAction, Notice, ServiceInput } from '../protocol/effect.ts';
import type { ChartEvent, RunStarted } from '../protocol/event.ts';
import { callsWith, queueReadyCalls } from './calls.ts';
import { type Context, replaces } from './context.ts';
import { chooseFailureWay, decideNextAction, type FailureWay } from './decide-next-action.ts';
import { fold, takes } from './fold.ts';
import { beginContext } from './hand-off.ts';
import { endsReview } from './review.ts';
import {
  describeCancel,
  describeCancelled,
  describeFailed,
  describeFinished,
  type Ended,
} from './settled.ts';

/** The version of the chart; raised whenever the same events could lead to a different state. */
export const CHART_VERSION = 1;

/** A placeholder for every service: a callback actor that reports plain events. */
const missing = fromCallback<ChartEvent, ServiceInput, Notice>(() => {
  throw new Error('This service is not provided. Use agentMachine.provide({ actors: agent.services() }).');
});

export const serviceInput = ({ context }: { context: Context }): ServiceInput => ({
  generation: context.generation,
  ...(context.timer === null ? {} : { until: context.timer }),
});

/** For XState actors, which have no service at rest to end the run. It is not an effect: a driver ends the run itself. */
export function endCancelled({
  context,
  self,
}: {
  context: Context;
  self: { send(event: ChartEvent): void };
}): void {
  if (context.cancelling === null) return;
  self.send({ ...describeCancel(context, context.cancelling), at: context.now });
}

/** The guards of events: `fold.ts` says which events the chart takes, and what each of them does. */
const takesIt = ({ context, event }: { context: Context; event: ChartEvent }) => takes(context, event);

const becomes = (after: (context: Context) => Context) =>
  replaces(({ context }: { context: Context }) => after(context));

const records = { actions: 'record' } as const;

const decides = { target: 'deciding', ...records } as const;

const leadsTo = <Type extends NextAction['type'], Target extends string>(type: Type, target: Target) =>
  ({ guard: { type: 'next', params: { type } }, target }) as const;

/**
 * The agent loop: plan (one model call), run tools, wait for people, stream the answer. Every wait ends in the state
 * `deciding`, where `decideNextAction` chooses the next action.
 */
export const agentMachine = setup({
  types: {} as {
    context: Context;
    events: ChartEvent;
    input: RunStarted;
    output: Ended;
    emitted: Notice;
    tags: 'rest';
  },
  actors: {
    modelTurn: missing,
    toolBatch: missing,
    timer: missing,
    answerCheck: missing,
    compaction: missing,
  },
  guards: {
    next: ({ context }: { context: Context }, is: { type: NextAction['type']; check?: boolean }) =>
      context.next?.type === is.type &&
      (is.check === undefined || (context.next.type === 'finish' && context.next.check === is.check)),
    isCurrent: takesIt,
    isExpected: takesIt,
    canDecide: takesIt,
    canReview: takesIt,
    isWaitedFor: takesIt,
    isAsked: takesIt,
    isSignInOpen: takesIt,
    isInDoubt: takesIt,
    canEdit: takesIt,
    canEditTurn: takesIt,
    canEditCall: takesIt,
    isRunning: takesIt,
    isNotCancelling: takesIt,
    isPaused: takesIt,
    batchIsOver: ({ context }: { context: Context }) => context.batch === 0,
  },
  actions: {
    record: assign(replaces(({ context, event }) => fold(context, event))),
    decide: assign(becomes(decideNext)),
    publishNext: emit(({ context }) => ({
      type: 'decided',
      next: context.next ?? decideNextAction(context),
      ...(context.quarantined === null ? {} : { reason: context.quarantined }),
    })),
    discardText: enqueueActions(({ context, enqueue }) => {
      if (context.failure === null || !context.turn.shown) return;
      enqueue.emit({ type: 'text.discarded', turn: context.turn.number, attempt: context.turn.attempt });
    }),
    takeBackText: enqueueActions(({ context, event, enqueue }) => {
      const { turn, config } = context;
      const isTaken = event.type === 'answer.blocked' || endsReview(context, event);
      if (!isTaken || config.finalAnswer === 'held') return;
      enqueue.emit({ type: 'text.discarded', turn: turn.number, attempt: turn.attempt });
    }),
    beginTurn: assign(becomes(beginTurn)),
    beginBatch: assign(becomes(beginBatch)),
    beginFinishing: assign(becomes(beginService)),
    beginCompacting: assign(becomes(beginService)),
    beginBackOff: assign(becomes(beginBackOff)),
    beginRest: assign(becomes(beginRest)),
    endWait: assign(becomes(endWait)),
    startExpiryTimer: enqueueActions(({ context, enqueue }) => {
      if (context.timer !== null)
        enqueue.spawnChild('timer', { id: 'timer', input: serviceInput({ context }) });
      if (context.cancelling !== null) enqueue(endCancelled);
    }),
    stopExpiryTimer: stopChild('timer'),
  },
}).createMachine({
  id: 'agent',
  context: ({ input }) => beginContext(input),
  output: ({ event }) => event.output as Ended,
  initial: 'deciding',
  on: {
    'message.received': { guard: 'isExpected', ...records },
    'approval.decided': { guard: 'canDecide', ...records },
    'result.received': { guard: 'isWaitedFor', ...records },
    'question.answered': { guard: 'isAsked', ...records },
    'doubt.resolved': { guard: 'isInDoubt', ...records },
    'pause.requested': { guard: 'isRunning', ...records },
    'cancel.requested': { guard: 'isNotCancelling', ...records },
    'step.requested': records,
    'params.changed': records,
    'breakpoints.set': records,
    'call.edited': { guard: 'canEditCall', ...records },
    'run.unpaused': { guard: 'isPaused', ...records },
    'run.cancelled': { target: '.cancelled', actions: 'record' },
  },
  states: {
    turn: {
      description: 'One model call.',
      initial: 'planning',
      entry: ['discardText', 'beginTurn'],
      invoke: { id: 'modelTurn', src: 'modelTurn', input: serviceInput },
      on: {
        'items.judged': { guard: 'isCurrent', ...records },
        'turn.completed': { guard: 'isCurrent', ...decides },
        'turn.failed': { guard: 'isCurrent', ...decides },
        'sign-in.requested': { guard: 'isCurrent', ...decides },
        'run.quarantined': decides,
      },
      states: {
        planning: {
          description: 'No text of this turn has been streamed, or the model is requesting tools.',
          on: {
            'text.started': { guard: 'isCurrent', target: 'finalStreaming', ...records },
            'calls.started': { guard: 'isCurrent', ...records },
          },
        },
        finalStreaming: {
          description: 'Text is being streamed, or is about to be.',
          on: {
            'text.started': { guard: 'isCurrent', ...records },
            'calls.started': { guard: 'isCurrent', target: 'planning', ...records },
          },
        },
      },
    },
    deciding: {
      description: 'Chooses the next action, from the context alone.',
      entry: ['decide', 'publishNext'],
      always: [
        leadsTo('callModel', 'turn'),
        leadsTo('streamFinal', 'turn.finalStreaming'),
        leadsTo('compact', 'compacting'),
        leadsTo('executeTools', 'executingTools'),
        leadsTo('backOff', 'backingOff'),
        leadsTo('interruptForApproval', 'resting.awaitingApproval'),
        leadsTo('awaitReview', 'resting.awaitingReview'),
        leadsTo('awaitAnswers', 'resting.awaitingAnswers'),
        leadsTo('awaitSignIn', 'resting.awaitingSignIn'),
        leadsTo('awaitResults', 'resting.awaitingResults'),
        leadsTo('resolveDoubt', 'resting.inDoubt'),
        leadsTo('pause', 'resting.paused'),
        { guard: { type: 'next', params: { type: 'finish', check: true } }, target: 'finishing' },
        { guard: { type: 'next', params: { type: 'finish', check: false } }, target: 'finished' },
        leadsTo('fail', 'failed'),
      ],
    },
    compacting: {
      description: 'A summary replaces the older part of the transcript.',
      entry: 'beginCompacting',
      invoke: { id: 'compaction', src: 'compaction', input: serviceInput },
      on: {
        'items.judged': { guard: 'isCurrent', ...records },
        'transcript.compacted': { guard: 'isCurrent', ...decides },
        'compaction.failed': { guard: 'isCurrent', ...decides },
        'sign-in.requested': { guard: 'isCurrent', ...decides },
        'run.quarantined': decides,
      },
    },
    executingTools: {
      description: 'Runs the permitted calls in parallel, as one batch.',
      entry: 'beginBatch',
      invoke: { id: 'toolBatch', src: 'toolBatch', input: serviceInput },
      on: {
        'call.judged': { guard: 'isCurrent', ...records },
        'question.asked': { guard: 'isCurrent', ...records },
        'tool.started': { guard: 'isCurrent', ...records },
        'tool.kept': { guard: 'isCurrent', ...records },
        'tool.settled': { guard: 'isCurrent', ...records },
        'tool.interrupted': { guard: 'isCurrent', ...records },
        'tool.doubted': { guard: 'isCurrent', ...records },
        'tool.suspended': { guard: 'isCurrent', ...records },
        'sign-in.requested': { guard: 'isCurrent', ...decides },
        'run.quarantined': decides,
      },
      always: { guard: 'batchIsOver', target: 'deciding' },
    },
    backingOff: {
      description: 'Waits before the next attempt of a failed turn.',
      entry: 'beginBackOff',
      exit: 'endWait',
      invoke: { id: 'timer', src: 'timer', input: serviceInput },
      on: {
        'timer.fired': { guard: 'isCurrent', ...decides },
      },
    },
    finishing: {
      description: 'Guardrails and the output schema check the answer.',
      entry: 'beginFinishing',
      invoke: { id: 'answerCheck', src: 'answerCheck', input: serviceInput },
      on: {
        'message.received': { guard: 'isExpected', ...decides },
        'answer.checked': { guard: 'isCurrent', ...decides },
        'answer.blocked': { guard: 'isCurrent', target: 'deciding', actions: ['takeBackText', 'record'] },
        'review.requested': { guard: 'isCurrent', ...decides },
        'run.quarantined': decides,
      },
    },
    resting: {
      description: 'Nothing runs until a command arrives or what is open expires.',
      tags: 'rest',
      initial: 'awaitingApproval',
      entry: ['beginRest', 'startExpiryTimer'],
      exit: ['stopExpiryTimer', 'endWait'],
      on: {
        'message.received': {
          guard: 'isExpected',
          target: 'deciding',
          actions: ['takeBackText', 'record'],
        },
        'approval.decided': { guard: 'canDecide', ...decides },
        'review.decided': { guard: 'canReview', target: 'deciding', actions: ['takeBackText', 'record'] },
        'result.received': { guard: 'isWaitedFor', ...decides },
        'question.answered': { guard: 'isAsked', ...decides },
        'sign-in.completed': { guard: 'isSignInOpen', ...decides },
        'doubt.resolved': { guard: 'isInDoubt', ...decides },
        'pause.requested': { guard: 'isRunning', ...decides },
        'cancel.requested': { guard: 'isNotCancelling', ...decides },
        'step.requested': decides,
        'transcript.edited': { guard: 'canEdit', target: 'deciding', actions: ['discardText', 'record'] },
        'turn.edited': { guard: 'canEditTurn', ...decides },
        'call.edited': { guard: 'canEditCall', ...decides },
        'breakpoints.set': decides,
        'run.unpaused': { guard: 'isPaused', ...decides },
        'timer.fired': { guard: 'isCurrent', target: 'deciding', actions: ['takeBackText', 'record'] },
      },
      states: {
        awaitingApproval: { description: 'A person must decide about a call.' },
        awaitingReview: { description: 'A person must decide about the answer.' },
        awaitingAnswers: { description: 'A person must answer a tool.' },
        awaitingSignIn: { description: 'A person must sign in at a tool server.' },
        awaitingResults: { description: 'A client or a sub-agent runs a call.' },
        inDoubt: { description: 'The outcome of a call is unknown; a person must resolve it.' },
        paused: { description: 'Paused before the next action that spends.' },
      },
    },
    finished: {
      type: 'final',
      description: 'The model answered.',
      output: ({ context }) => describeFinished(context),
    },
    failed: {
      type: 'final',
      description: 'The run failed.',
      output: ({ context }) => describeFailed(context),
    },
    cancelled: {
      type: 'final',
      description: 'The run was cancelled.',
      output: ({ context }) => describeCancelled(context),
    },
  },
});

export type AgentMachine = typeof agentMachine;

/** The chart's state as an XState snapshot; `machines/snapshot.ts` converts it to JSON and back. */
export type ChartState = SnapshotFrom<AgentMachine>;

/* The entry actions of the states. Each runs before the service of the state starts. */

/** Stores the next action. A run that a breakpoint holds is paused. */
export function decideNext(context: Context): Context {
  const next = decideNextAction(context);
  const isHeld = next.type === 'pause' && next.breakpoint !== undefined;
  return { ...context, next, paused: context.paused || isHeld };
}

/** Starts a new turn, or the next attempt of a failed one. Unread messages move into the transcript. */
export function beginTurn(context: Context): Context {
  const spent = spend(context);
  const { turn, failure, next, inbox } = spent;
  const way = failure === null ? null : chooseFailureWay(context);
  const final = next?.type === 'streamFinal';
  const limit = next?.type === 'streamFinal' ? next.limit : undefined;
  return {
    ...spent,
    generation: context.generation + 1,
    failure: null,
    inbox: [],
    transcript: inbox.length === 0 ? context.transcript : [...context.transcript, ...inbox],
    closing: limit ?? context.closing,
    answeredBy: null,
    answerChecked: false,
    sentBack: null,
    edited: false,
    turn: {
      number: way === null ? turn.number + 1 : turn.number,
      attempt: attemptAfter(turn.attempt, way),
      model: way === 'fallback' ? turn.model + 1 : turn.model,
      final,
      shown: false,
    },
  };
}

function attemptAfter(attempt: number, way: FailureWay | null): number {
  if (way === 'retry') return attempt + 1;
  return way === 'resume' ? attempt : 1;
}

export function beginBatch(context: Context): Context {
  return { ...queueReadyCalls(spend(context)), generation: context.generation + 1, activeSince: null };
}

function beginService(context: Context): Context {
  return { ...spend(context), generation: context.generation + 1 };
}

function beginBackOff(context: Context): Context {
  const until = context.next?.type === 'backOff' ? context.next.until : context.now;
  return { ...context, generation: context.generation + 1, timer: until };
}

/** Sets a timer for the earliest expiry of an open approval, question or review, unless the run is being cancelled. */
function beginRest(context: Context): Context {
  if (context.cancelling !== null) return { ...context, timer: null };
  const asked = callsWith(context, 'asking').flatMap(call => call.asked?.questions ?? []);
  const due = [...callsWith(context, 'gated'), ...asked, context.review]
    .map(gate => gate?.expiresAt)
    .filter(expiresAt => expiresAt !== undefined);
  const timer = due.length === 0 ? null : Math.min(...due);
  return { ...context, generation: timer === null ? context.generation : context.generation + 1, timer };
}

function endWait(context: Context): Context {
  return context.timer === null ? context : { ...context, timer: null };
}

function spend(context: Context): Context {
  return context.paused ? { ...context, steps: Math.max(0, context.steps - 1) } : context;
}
