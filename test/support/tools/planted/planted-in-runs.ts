import { assign } from 'xstate';
import { beginTurn, decideNext } from '../../../../machines/agent.ts';
import type { Context } from '../../../../machines/context.ts';
import { fold, takes } from '../../../../machines/fold.ts';
import { type Planted, recording, withActions, withGuards } from './planted.ts';

const NO_MESSAGE_LOST = 'no message is lost or duplicated: it is in the transcript or in the inbox';
export const WITHIN_LIMITS = 'no limit is exceeded, except by one closing call';
const PAUSE_HOLDS = 'a paused run starts only what its requested steps allow';
const STALE = 'a report from an older start is ignored';
export const GROWN =
  'each request begins with the one before it unless its turn names a break, and no void reasoning is sent';
const STRANGE = 'every valid event is accepted, and every invalid one is ignored';
const ANSWERED = 'every step completes: none throws or loops forever';

/** Charts that lose messages, exceed limits, ignore a pause, or report wrongly. */
export const PLANTED_IN_RUNS: readonly Planted[] = [
  {
    name: 'a message is not recorded',
    machine: recording((context, event) =>
      event.type === 'message.received' ? { ...context, now: event.at } : fold(context, event),
    ),
    breaks: NO_MESSAGE_LOST,
    within: 2,
  },
  {
    name: 'a message is lost when the next turn begins',
    machine: withActions({
      beginTurn: assign(({ context }) => ({ ...beginTurn(context), transcript: context.transcript })),
    }),
    breaks: NO_MESSAGE_LOST,
    within: 3,
  },
  {
    name: 'a message stays unread after it has been read',
    machine: withActions({
      beginTurn: assign(({ context }) => ({ ...beginTurn(context), inbox: context.inbox })),
    }),
    breaks: NO_MESSAGE_LOST,
    within: 3,
  },
  {
    name: 'a message that arrives while a call is gated is lost',
    machine: recording((context, event) => {
      const after = fold(context, event);
      const waits = context.calls.some(({ status }) => status === 'gated');
      return event.type === 'message.received' && waits ? { ...after, inbox: [] } : after;
    }),
    breaks: NO_MESSAGE_LOST,
    within: 3,
  },
  {
    name: 'the first message is trimmed in silence after a turn',
    machine: recording((context, event) => {
      const after = fold(context, event);
      return event.type === 'turn.completed' ? { ...after, transcript: after.transcript.slice(1) } : after;
    }),
    breaks: GROWN,
  },
  {
    name: 'an edit of what was sent is not marked',
    machine: recording((context, event) => {
      const after = fold(context, event);
      return event.type === 'transcript.edited' ? { ...after, sent: context.sent } : after;
    }),
    breaks: GROWN,
    maxStates: 2_000,
  },
  {
    name: 'limits are ignored',
    machine: withActions({
      decide: assign(({ context }) => {
        const limits = { turns: 1_000, toolCalls: 1_000 };
        return { next: decideNext({ ...context, config: { ...context.config, limits } }).next };
      }),
    }),
    breaks: WITHIN_LIMITS,
  },
  {
    name: 'one turn more than the limit is allowed',
    machine: withActions({
      decide: assign(({ context }) => {
        const { limits } = context.config;
        const more = { ...limits, turns: limits.turns + 1 };
        return { next: decideNext({ ...context, config: { ...context.config, limits: more } }).next };
      }),
    }),
    breaks: WITHIN_LIMITS,
  },
  {
    name: 'tool calls are not counted',
    machine: recording((context, event) => {
      const after = fold(context, event);
      return event.type === 'turn.completed' ? { ...after, toolCalls: 0 } : after;
    }),
    breaks: WITHIN_LIMITS,
  },
  {
    name: 'the closing call may be followed by another',
    machine: withActions({
      beginTurn: assign(({ context }) => ({ ...beginTurn(context), closing: null })),
    }),
    breaks: WITHIN_LIMITS,
    maxStates: 1_300,
  },
  {
    name: 'a pause is not recorded',
    machine: recording((context, event) =>
      event.type === 'pause.requested' ? { ...context, now: event.at } : fold(context, event),
    ),
    breaks: PAUSE_HOLDS,
  },
  {
    name: 'a pause is ignored before tools',
    machine: withActions({
      decide: assign(({ context }) => ({ next: decideNext({ ...context, paused: false }).next })),
    }),
    breaks: PAUSE_HOLDS,
  },
  {
    name: 'steps are not used up',
    machine: withActions({
      beginTurn: assign(({ context }) => ({ ...beginTurn(context), steps: context.steps })),
    }),
    breaks: PAUSE_HOLDS,
    maxStates: 400,
  },
  {
    name: 'reports of an older start are accepted',
    machine: withGuards({
      isCurrent: ({ context, event }) =>
        takes(context, 'generation' in event ? { ...event, generation: context.generation } : event),
    }),
    breaks: STALE,
  },
  {
    name: 'a call in doubt cannot be resolved',
    machine: withGuards({ isInDoubt: () => false }),
    breaks: STRANGE,
    maxStates: 1_300,
  },
  {
    name: 'the context contains a value that is not JSON',
    machine: recording((context, event) => ({
      ...fold(context, event),
      failures: new Map() as unknown as Context['failures'],
    })),
    breaks: 'the state of the chart is plain JSON',
  },
  {
    name: 'decisions are not published',
    machine: withActions({ publishNext: () => {} }),
    breaks: 'every decision is published with its reason',
  },
  {
    name: 'text of a failed attempt is not discarded',
    machine: withActions({ discardText: () => {} }),
    breaks: 'text shown by a failed attempt is discarded before the run continues',
    within: 3,
  },
  {
    name: 'no timer runs for expiring approvals',
    machine: withActions({ startExpiryTimer: () => {} }),
    breaks: 'every service is stopped once, and the running services are those the state waits for',
    within: 2,
  },
  {
    name: 'a batch is always considered finished',
    machine: withGuards({ batchIsOver: () => true }),
    breaks: ANSWERED,
  },
];
