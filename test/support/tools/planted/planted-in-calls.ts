import { assign } from 'xstate';
import { beginBatch } from '../../../../machines/agent.ts';
import { canDecide, fold, takes } from '../../../../machines/fold.ts';
import { mapCalls, type Planted, recording, withActions, withGuards } from './planted.ts';

const LET_THROUGH = 'a call that needs approval never proceeds without one';
const ONE_RESULT =
  'every call has exactly one result, as reported, in call order, before the next model call and at the end';
const NEVER_TWICE = 'a once call is started again only if it is known not to have happened';
const AHEAD = 'a call that may run before its start is on disk is repeatable, unedited and needs no approval';
const IN_DOUBT = 'an interrupted once call is reconciled or in doubt, unless it has kept how far it came';
const DECIDED_ONCE =
  'a decision counts once: for an open call, with the digest that was seen, before it expires';

/** Charts that run calls without approval, lose their results, or lose track of whether they happened. */
export const PLANTED_IN_CALLS: readonly Planted[] = [
  {
    name: 'gated calls are admitted as ready',
    machine: recording((context, event) => {
      const after = fold(context, event);
      return mapCalls(after, call => (call.status === 'gated' ? { ...call, status: 'ready' } : call));
    }),
    breaks: LET_THROUGH,
    within: 2,
  },
  {
    name: 'a batch includes gated calls',
    machine: withActions({
      beginBatch: assign(({ context }) => {
        const begun = beginBatch(context);
        const gated = begun.calls.filter(({ status }) => status === 'gated').length;
        return {
          ...mapCalls(begun, call => (call.status === 'gated' ? { ...call, status: 'queued' } : call)),
          batch: begun.batch + gated,
        };
      }),
    }),
    breaks: LET_THROUGH,
    within: 2,
  },
  {
    name: 'a gated call can be started like a queued one',
    machine: withGuards({
      isCurrent: ({ context, event }) => event.type === 'tool.started' || takes(context, event),
    }),
    breaks: LET_THROUGH,
  },
  {
    name: 'an approved call is treated as one that needs no approval',
    machine: recording((context, event) => {
      const after = fold(context, event);
      return event.type === 'approval.decided'
        ? mapCalls(after, call => ({ ...call, gate: false, sideEffect: 'none', edited: false }))
        : after;
    }),
    breaks: AHEAD,
  },
  {
    name: 'the result of a tool is dropped',
    machine: recording((context, event) =>
      event.type === 'tool.settled' ? { ...context, now: event.at } : fold(context, event),
    ),
    breaks: ONE_RESULT,
    within: 4,
  },
  {
    name: 'the result of a tool is recorded as empty',
    machine: recording((context, event) =>
      fold(context, event.type === 'tool.settled' ? { ...event, output: '' } : event),
    ),
    breaks: ONE_RESULT,
    within: 4,
  },
  {
    name: 'results are in the wrong order',
    machine: recording((context, event) => {
      const after = fold(context, event);
      const [last, before] = [after.transcript.at(-1), after.transcript.at(-2)];
      if (last?.type !== 'tool_result' || before?.type !== 'tool_result' || after.open > 0) return after;
      return { ...after, transcript: [...after.transcript.slice(0, -2), last, before] };
    }),
    breaks: ONE_RESULT,
  },
  {
    name: 'the resolution of a call in doubt is recorded with another output',
    machine: recording((context, event) =>
      event.type === 'doubt.resolved' && event.resolution.type === 'happened'
        ? fold(context, { ...event, resolution: { type: 'happened', output: 'something else' } })
        : fold(context, event),
    ),
    breaks: ONE_RESULT,
    maxStates: 1_300,
  },
  {
    name: 'a round ends while a call is open',
    machine: recording((context, event) => {
      const after = fold(context, event);
      if (event.type !== 'tool.settled' || after.calls.length < 2) return after;
      return { ...after, calls: [], open: 0, batch: 0 };
    }),
    breaks: ONE_RESULT,
  },
  {
    name: 'an interrupted once call is queued again',
    machine: recording((context, event) => {
      const after = fold(context, event);
      if (event.type !== 'tool.interrupted') return after;
      const again = mapCalls(after, call =>
        call.status === 'doubted' ? { ...call, status: 'queued' } : call,
      );
      return { ...again, batch: again.calls.filter(({ status }) => status === 'queued').length };
    }),
    breaks: NEVER_TWICE,
    within: 5,
    maxStates: 700,
  },
  {
    name: 'an interrupted call is not put in doubt',
    machine: recording((context, event) =>
      event.type === 'tool.interrupted' ? { ...context, now: event.at } : fold(context, event),
    ),
    breaks: IN_DOUBT,
    maxStates: 700,
  },
  {
    name: 'a call in doubt is started again without a resolution',
    machine: recording((context, event) => {
      const after = fold(context, event);
      return mapCalls(after, call => (call.status === 'doubted' ? { ...call, status: 'ready' } : call));
    }),
    breaks: NEVER_TWICE,
    maxStates: 700,
  },
  {
    name: 'a decision is accepted for a call that is already decided',
    machine: withGuards({
      canDecide: ({ context, event }) =>
        event.type === 'approval.decided' && context.calls.some(({ callId }) => callId === event.callId),
    }),
    breaks: DECIDED_ONCE,
  },
  {
    name: 'a decision is accepted with any digest',
    machine: withGuards({
      canDecide: ({ context, event }) => {
        if (event.type !== 'approval.decided') return false;
        const digest = context.calls.find(({ callId }) => callId === event.callId)?.digest;
        return canDecide(context, { ...event, digest: digest ?? event.digest });
      },
    }),
    breaks: DECIDED_ONCE,
    within: 2,
  },
  {
    name: 'an approval is accepted after it expired',
    machine: withGuards({
      canDecide: ({ context, event }) =>
        event.type === 'approval.decided' && canDecide(context, { ...event, at: 0 }),
    }),
    breaks: DECIDED_ONCE,
    within: 2,
  },
  {
    name: 'a rejected call runs',
    machine: recording((context, event) =>
      event.type === 'approval.decided' && event.decision.type === 'reject'
        ? fold(context, { ...event, decision: { type: 'approve' } })
        : fold(context, event),
    ),
    breaks: LET_THROUGH,
    within: 3,
  },
  {
    name: 'the model is called while a call is open',
    machine: withGuards({ next: ({ context }, { type }) => type === 'callModel' && context.next !== null }),
    breaks: ONE_RESULT,
    within: 2,
  },
];
