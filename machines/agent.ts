/*
 * The chart: the agent loop as one XState statechart of pure functions, small enough for browsers. The engine carries
 * out its effects. `fold.ts` applies events to the context, `decide-next-action.ts` chooses the next action, `step.ts`
 * exposes the chart as a pure function, and `snapshot.ts` converts its state to JSON and back.
 */
import { assign, emit, enqueueActions, fromCallback, type SnapshotFrom, setup, stopChild } from 'xstate';
import type { NextAction, Notice, ServiceInput } from '../protocol/effect.ts';
import type { ChartEvent, RunStarted } from '../protocol/event.ts';
import { type Context, createContext, replaces } from './context.ts';
import { decideNextAction } from './decide-next-action.ts';
import {
  beginBackOff,
  beginBatch,
  beginFinishing,
  beginRest,
  beginTurn,
  decide,
  endWait,
} from './entry-actions.ts';
import {
  canDecide,
  canEdit,
  canEditCall,
  canEditTurn,
  fold,
  isCurrent,
  isInDoubt,
  isWaitingFor,
} from './fold.ts';
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

/** Returns the input of the service that the current state starts. */
export const serviceInput = ({ context }: { context: Context }): ServiceInput => ({
  generation: context.generation,
  ...(context.timer === null ? {} : { until: context.timer }),
});

/**
 * Ends a resting run that is being cancelled. Only an XState actor carries it out: at rest, no service is there to do
 * it. It is no effect, because a driver ends the run itself.
 */
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
  actors: { modelTurn: missing, toolBatch: missing, timer: missing, finishers: missing },
  guards: {
    next: ({ context }, is: { type: NextAction['type']; finishers?: boolean }) =>
      context.next?.type === is.type &&
      (is.finishers === undefined ||
        (context.next.type === 'finish' && context.next.finishers === is.finishers)),
    isCurrent: ({ context, event }) => isCurrent(context, event),
    canDecide: ({ context, event }) => event.type === 'approval.decided' && canDecide(context, event),
    isWaitedFor: ({ context, event }) => event.type === 'result.received' && isWaitingFor(context, event),
    isInDoubt: ({ context, event }) => event.type === 'doubt.resolved' && isInDoubt(context, event.callId),
    canEdit: ({ context, event }) => event.type === 'transcript.edited' && canEdit(context, event),
    canEditTurn: ({ context, event }) => event.type === 'turn.edited' && canEditTurn(context, event),
    canEditCall: ({ context, event }) => event.type === 'call.edited' && canEditCall(context, event),
    isRunning: ({ context }) => !context.paused,
    isNotCancelling: ({ context }) => context.cancelling === null,
    isPaused: ({ context }) => context.paused,
    batchIsOver: ({ context }) => context.batch === 0,
  },
  actions: {
    record: assign(replaces(({ context, event }) => fold(context, event))),
    decide: assign(replaces(({ context }) => decide(context))),
    publishNext: emit(({ context }) => ({
      type: 'decided',
      next: context.next ?? decideNextAction(context),
      ...(context.quarantined === null ? {} : { reason: context.quarantined }),
    })),
    discardText: enqueueActions(({ context, enqueue }) => {
      if (context.failure === null || !context.turn.shown) return;
      enqueue.emit({ type: 'text.discarded', turn: context.turn.number, attempt: context.turn.attempt });
    }),
    beginTurn: assign(replaces(({ context }) => beginTurn(context))),
    beginBatch: assign(replaces(({ context }) => beginBatch(context))),
    beginFinishing: assign(replaces(({ context }) => beginFinishing(context))),
    beginBackOff: assign(replaces(({ context }) => beginBackOff(context))),
    beginRest: assign(replaces(({ context }) => beginRest(context))),
    endWait: assign(replaces(({ context }) => endWait(context))),
    startExpiryTimer: enqueueActions(({ context, enqueue }) => {
      if (context.timer !== null)
        enqueue.spawnChild('timer', { id: 'timer', input: serviceInput({ context }) });
      if (context.cancelling !== null) enqueue(endCancelled);
    }),
    stopExpiryTimer: stopChild('timer'),
  },
}).createMachine({
  id: 'agent',
  context: ({ input }) => createContext(input),
  output: ({ event }) => event.output as Ended,
  initial: 'deciding',
  on: {
    'message.received': { actions: 'record' },
    'approval.decided': { guard: 'canDecide', actions: 'record' },
    'result.received': { guard: 'isWaitedFor', actions: 'record' },
    'doubt.resolved': { guard: 'isInDoubt', actions: 'record' },
    'pause.requested': { guard: 'isRunning', actions: 'record' },
    'cancel.requested': { guard: 'isNotCancelling', actions: 'record' },
    'step.requested': { actions: 'record' },
    'params.changed': { actions: 'record' },
    'breakpoints.set': { actions: 'record' },
    'call.edited': { guard: 'canEditCall', actions: 'record' },
    'run.unpaused': { guard: 'isPaused', actions: 'record' },
    'run.cancelled': { target: '.cancelled', actions: 'record' },
  },
  states: {
    turn: {
      description: 'One model call.',
      initial: 'planning',
      entry: ['discardText', 'beginTurn'],
      invoke: { id: 'modelTurn', src: 'modelTurn', input: serviceInput },
      on: {
        'turn.completed': { guard: 'isCurrent', target: 'deciding', actions: 'record' },
        'turn.failed': { guard: 'isCurrent', target: 'deciding', actions: 'record' },
        'run.quarantined': { target: 'deciding', actions: 'record' },
      },
      states: {
        planning: {
          description: 'No text of this turn has been streamed, or the model is requesting tools.',
          on: {
            'text.started': { guard: 'isCurrent', target: 'finalStreaming', actions: 'record' },
            'calls.started': { guard: 'isCurrent', actions: 'record' },
          },
        },
        finalStreaming: {
          description: 'Text is being streamed, or is about to be.',
          on: {
            'text.started': { guard: 'isCurrent', actions: 'record' },
            'calls.started': { guard: 'isCurrent', target: 'planning', actions: 'record' },
          },
        },
      },
    },
    deciding: {
      description: 'Chooses the next action, from the context alone.',
      entry: ['decide', 'publishNext'],
      always: [
        { guard: { type: 'next', params: { type: 'callModel' } }, target: 'turn' },
        { guard: { type: 'next', params: { type: 'streamFinal' } }, target: 'turn.finalStreaming' },
        { guard: { type: 'next', params: { type: 'executeTools' } }, target: 'executingTools' },
        { guard: { type: 'next', params: { type: 'backOff' } }, target: 'backingOff' },
        {
          guard: { type: 'next', params: { type: 'interruptForApproval' } },
          target: 'resting.awaitingApproval',
        },
        { guard: { type: 'next', params: { type: 'awaitResults' } }, target: 'resting.awaitingResults' },
        { guard: { type: 'next', params: { type: 'resolveDoubt' } }, target: 'resting.inDoubt' },
        { guard: { type: 'next', params: { type: 'pause' } }, target: 'resting.paused' },
        { guard: { type: 'next', params: { type: 'finish', finishers: true } }, target: 'finishing' },
        { guard: { type: 'next', params: { type: 'finish', finishers: false } }, target: 'finished' },
        { guard: { type: 'next', params: { type: 'fail' } }, target: 'failed' },
      ],
    },
    executingTools: {
      description: 'Runs the permitted calls in parallel, as one batch.',
      entry: 'beginBatch',
      invoke: { id: 'toolBatch', src: 'toolBatch', input: serviceInput },
      on: {
        'tool.started': { guard: 'isCurrent', actions: 'record' },
        'tool.settled': { guard: 'isCurrent', actions: 'record' },
        'tool.interrupted': { guard: 'isCurrent', actions: 'record' },
        'tool.doubted': { guard: 'isCurrent', actions: 'record' },
        'tool.suspended': { guard: 'isCurrent', actions: 'record' },
        'run.quarantined': { target: 'deciding', actions: 'record' },
      },
      always: { guard: 'batchIsOver', target: 'deciding' },
    },
    backingOff: {
      description: 'Waits before the next attempt of a failed turn.',
      entry: 'beginBackOff',
      exit: 'endWait',
      invoke: { id: 'timer', src: 'timer', input: serviceInput },
      on: {
        'timer.fired': { guard: 'isCurrent', target: 'deciding', actions: 'record' },
      },
    },
    finishing: {
      description: 'The output schema and finishers check the answer.',
      entry: 'beginFinishing',
      invoke: { id: 'finishers', src: 'finishers', input: serviceInput },
      on: {
        'message.received': { target: 'deciding', actions: 'record' },
        'finishers.completed': { guard: 'isCurrent', target: 'deciding', actions: 'record' },
        'finishers.rejected': { guard: 'isCurrent', target: 'deciding', actions: 'record' },
        'run.quarantined': { target: 'deciding', actions: 'record' },
      },
    },
    resting: {
      description: 'Nothing runs until a command arrives or an approval expires.',
      tags: 'rest',
      initial: 'awaitingApproval',
      entry: ['beginRest', 'startExpiryTimer'],
      exit: ['stopExpiryTimer', 'endWait'],
      on: {
        'message.received': { target: 'deciding', actions: 'record' },
        'approval.decided': { guard: 'canDecide', target: 'deciding', actions: 'record' },
        'result.received': { guard: 'isWaitedFor', target: 'deciding', actions: 'record' },
        'doubt.resolved': { guard: 'isInDoubt', target: 'deciding', actions: 'record' },
        'pause.requested': { guard: 'isRunning', target: 'deciding', actions: 'record' },
        'cancel.requested': { guard: 'isNotCancelling', target: 'deciding', actions: 'record' },
        'step.requested': { target: 'deciding', actions: 'record' },
        'transcript.edited': { guard: 'canEdit', target: 'deciding', actions: ['discardText', 'record'] },
        'turn.edited': { guard: 'canEditTurn', target: 'deciding', actions: 'record' },
        'call.edited': { guard: 'canEditCall', target: 'deciding', actions: 'record' },
        'breakpoints.set': { target: 'deciding', actions: 'record' },
        'run.unpaused': { guard: 'isPaused', target: 'deciding', actions: 'record' },
        'timer.fired': { guard: 'isCurrent', target: 'deciding', actions: 'record' },
      },
      states: {
        awaitingApproval: { description: 'A person must decide about a call.' },
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
