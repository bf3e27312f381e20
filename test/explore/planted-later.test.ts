import { describe, expect, it } from 'vitest';
import { assign } from 'xstate';
import * as z from 'zod';
import { createAgent, tool } from '../../agent/index.ts';
import { agentMachine } from '../../machines/agent.ts';
import type { Call, Context } from '../../machines/context.ts';
import { canDecide, fold } from '../../machines/fold.ts';
import { canReview, decideReview } from '../../machines/review.ts';
import type { ChartEvent } from '../../protocol/event.ts';
import { explore } from '../../testing/index.ts';
import { sampledByKind } from '../support/sample.ts';

/** Charts with a defect that depends on earlier events, or on the data of a call rather than its status. */

const lookup = tool({
  name: 'lookup',
  description: 'Looks something up.',
  input: z.object({ id: z.string() }),
  sideEffect: 'none',
  run: () => 'found',
});

const refund = tool({
  name: 'refund',
  description: 'Pays back.',
  input: z.object({ cents: z.number().int().positive() }),
  approval: true,
  run: () => 'paid',
});

const agent = createAgent({ name: 'planted', tools: [lookup, refund] });

const billing = createAgent({ name: 'billing' });
const desk = createAgent({ name: 'desk', handoffs: [billing], onMessage: 'queue' });

const sales = createAgent({
  name: 'sales',
  guardrails: { answer: () => ({ type: 'ask', reason: 'a price', expiresInMs: 60_000 }) },
});

type Record = (context: Context, event: ChartEvent) => Context;

const recording = (record: Record) =>
  agentMachine.provide({ actions: { record: assign(({ context, event }) => record(context, event)) } });

const mapCalls = (context: Context, map: (call: Call, index: number) => Call): Context => ({
  ...context,
  calls: context.calls.map(map),
});

const letThrough = (after: Context, when: (call: Call, index: number) => boolean): Context =>
  mapCalls(after, (call, index) =>
    call.status === 'gated' && when(call, index) ? { ...call, status: 'ready' } : call,
  );

/** Lets the gated calls of a turn run without approval when `happened` holds of the context before the turn. */
const lettingThroughAfter = (happened: (before: Context) => boolean) =>
  recording((context, event) => {
    const after = fold(context, event);
    return event.type === 'turn.completed' && happened(context) ? letThrough(after, () => true) : after;
  });

const LET_THROUGH = /needs approval never proceeds without one/;
const AS_PROPOSED = /runs with its proposed input/;
const ONE_RESULT = /exactly one result/;
const MESSAGES = /no message is lost/;
const REVIEWED = /an answer under review is given only/;
const IGNORED = /every invalid one is ignored/;
const IN_ORDER = /the transcript records what happened/;
const HANDED_OVER = /the answer of a sub-agent that has the conversation/;

const hasResult = (context: Context, pattern: RegExp): boolean =>
  context.transcript.some(item => item.type === 'tool_result' && pattern.test(String(item.output)));

type Planted = [name: string, machine: ReturnType<typeof recording>, breaks: RegExp, maxStates?: number];

const PLANTED: Planted[] = [
  [
    'that drops an edit',
    recording((context, event) =>
      event.type === 'approval.decided' && event.decision.type === 'approve'
        ? fold(context, { ...event, decision: { type: 'approve' } })
        : fold(context, event),
    ),
    AS_PROPOSED,
  ],
  [
    'that changes the input of an approved call',
    recording((context, event) => {
      const after = fold(context, event);
      if (event.type !== 'approval.decided' || event.decision.type !== 'approve') return after;
      return mapCalls(after, call =>
        call.callId === event.callId ? { ...call, input: { cents: 999_999 } } : call,
      );
    }),
    AS_PROPOSED,
  ],
  [
    'that accepts an edit with another digest',
    agentMachine.provide({
      guards: {
        canDecide: ({ context, event }) =>
          event.type === 'approval.decided' &&
          (canDecide(context, event) ||
            (event.decision.type === 'approve' &&
              event.decision.input !== undefined &&
              context.calls.some(({ callId, status }) => callId === event.callId && status === 'gated'))),
      },
    }),
    /a decision counts once|what fits is taken/,
  ],
  [
    'that loses the result of an edited call',
    recording((context, event) => {
      const edited =
        event.type === 'tool.settled' &&
        context.calls.find(({ callId }) => callId === event.callId)?.edited === true;
      return fold(context, edited ? { ...event, output: 'lost' } : event);
    }),
    ONE_RESULT,
    1_000,
  ],
  [
    'that loses the result of a second attempt',
    recording((context, event) => {
      const call = 'callId' in event && context.calls.find(({ callId }) => callId === event.callId);
      const isSecond = event.type === 'tool.settled' && call && call.attempt > 1;
      return fold(context, isSecond ? { ...event, output: 'lost' } : event);
    }),
    ONE_RESULT,
    2_500,
  ],
  [
    'that skips approvals after an edit',
    lettingThroughAfter(({ edits }) => edits.length > 0),
    LET_THROUGH,
    3_000,
  ],
  [
    'that skips approvals after a rejection',
    lettingThroughAfter(context => hasResult(context, /rejected/)),
    LET_THROUGH,
  ],
  [
    'that skips approvals after an answer',
    lettingThroughAfter(context => hasResult(context, /a person/)),
    LET_THROUGH,
  ],
  [
    'that skips approvals after a message',
    lettingThroughAfter(({ transcript }) => transcript.filter(item => item.type === 'message').length > 1),
    LET_THROUGH,
  ],
  [
    'that skips the approval of the second gated call in a later round',
    recording((context, event) => {
      const after = fold(context, event);
      const isLater = event.type === 'turn.completed' && context.turns >= 1 && event.calls.length === 2;
      return isLater ? letThrough(after, (_, index) => index === 1) : after;
    }),
    LET_THROUGH,
  ],
  [
    'that skips the approval of the third gated call in a round',
    recording((context, event) => {
      const after = fold(context, event);
      return event.type === 'turn.completed' ? letThrough(after, (_, index) => index === 2) : after;
    }),
    LET_THROUGH,
  ],
  [
    'that replaces an unread message by the next one',
    recording((context, event) => {
      const after = fold(context, event);
      return event.type === 'message.received' ? { ...after, inbox: event.items } : after;
    }),
    MESSAGES,
  ],
  [
    'that keeps only one of the two items of a message',
    recording((context, event) =>
      fold(context, event.type === 'message.received' ? { ...event, items: event.items.slice(0, 1) } : event),
    ),
    MESSAGES,
  ],
  [
    'that asks the model again after the answer of a sub-agent',
    recording((context, event) => {
      const after = fold(context, event);
      return event.type === 'tool.settled' ? { ...after, answeredBy: null } : after;
    }),
    HANDED_OVER,
  ],
  [
    'that takes what hands a conversation back for an answer',
    recording((context, event) => {
      const isHandedBack = event.type === 'tool.settled' && event.answered?.handedBack === true;
      if (!isHandedBack || event.answered === undefined) return fold(context, event);
      const { handedBack: _, ...answered } = event.answered;
      return fold(context, { ...event, answered });
    }),
    HANDED_OVER,
  ],
  [
    'that loses the messages that it hands on',
    recording((context, event) => {
      const after = fold(context, event);
      const isHandedOn =
        after.inbox.length === 0 && after.calls.some(({ forwards }) => forwards !== undefined);
      if (!isHandedOn) return after;
      return { ...after, transcript: after.transcript.filter(item => !context.inbox.includes(item)) };
    }),
    MESSAGES,
  ],
  [
    'that keeps the tools of the calling agent after a hand-off',
    recording((context, event) => {
      const after = fold(context, event);
      if (!after.calls.some(({ forwards }) => forwards !== undefined)) return after;
      const { inbox } = context;
      return { ...fold({ ...context, inbox: [] }, event), inbox, answer: null, answeredBy: null };
    }),
    IN_ORDER,
  ],
  [
    'that hands messages on to another tool of the calling agent',
    recording((context, event) =>
      mapCalls(fold(context, event), call =>
        call.forwards === undefined ? call : { ...call, name: 'lookup' },
      ),
    ),
    AS_PROPOSED,
  ],
];

/** Takes what the guard takes as a decision about the answer, which is as it was when its review was asked for. */
const reviewing = (isTaken: (context: Context, event: Decided) => boolean) =>
  agentMachine.provide({
    guards: {
      canReview: ({ context, event }) =>
        event.type === 'review.decided' && (canReview(context, event) || isTaken(context, event)),
    },
    actions: {
      record: assign(({ context, event }) =>
        event.type === 'review.decided' && context.review === null
          ? decideReview(
              { ...context, review: { id: event.reviewId, digest: event.digest, reason: '' } },
              event,
            )
          : fold(context, event),
      ),
    },
  });
type Decided = Extract<ChartEvent, { type: 'review.decided' }>;

const PLANTED_IN_REVIEWS: Planted[] = [
  [
    'that sends an answer back after the end of its review',
    reviewing(({ review, sentBack }, { decision }) => {
      const isOver = review === null && sentBack?.reviewed === true;
      return isOver && decision.type === 'reject';
    }),
    IGNORED,
    1_500,
  ],
  [
    'that sends an answer back after the time of its review',
    reviewing(({ review }, { reviewId, decision }) => review?.id === reviewId && decision.type === 'reject'),
    IGNORED,
  ],
  [
    'that gives an answer that was sent back',
    recording((context, event) =>
      fold(context, event.type === 'review.decided' ? { ...event, decision: { type: 'approve' } } : event),
    ),
    IN_ORDER,
  ],
  [
    'that forgets the review when a message comes',
    recording((context, event) => {
      const after = fold(context, event);
      return event.type === 'message.received' ? { ...after, review: null, answerChecked: true } : after;
    }),
    REVIEWED,
  ],
];

const OF_HAND_OFFS: readonly string[] = PLANTED.slice(-5).map(([name]) => name);

/** `npm test` plants a twelfth of the defects of each kind. */
const SAMPLED = sampledByKind(PLANTED, 12, ([, , breaks]) => breaks.source);

describe('explore finds a defect', () => {
  it.each(SAMPLED)('%s', (name, machine, breaks, maxStates = 500) => {
    const explored = OF_HAND_OFFS.includes(name) ? desk : agent;
    const { breaches, complete } = explore(explored, { machine, maxStates });
    const breach = breaches.find(({ invariant }) => breaks.test(invariant));
    expect(breach, breaches.map(({ invariant }) => invariant).join('\n')).toBeDefined();
    expect(breach?.path.length).toBeLessThan(15);
    expect(complete).toBe(false);
  });

  it.each(sampledByKind(PLANTED_IN_REVIEWS, 4, ([, , breaks]) => breaks.source))(
    '%s',
    (_, machine, breaks, maxStates = 500) => {
      const { breaches } = explore(sales, { machine, maxStates });
      const breach = breaches.find(({ invariant }) => breaks.test(invariant));
      expect(breach, breaches.map(({ invariant }) => invariant).join('\n')).toBeDefined();
      expect(breach?.path.length).toBeLessThan(15);
    },
  );
});
