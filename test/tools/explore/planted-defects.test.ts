import { describe, expect, it } from 'vitest';
import { assign } from 'xstate';
import * as z from 'zod';
import { type AgentMachine, agentMachine } from '../../../machines/agent.ts';
import type { Call, Context } from '../../../machines/context.ts';
import { beginBatch, beginTurn, decide } from '../../../machines/entry-actions.ts';
import { fold } from '../../../machines/fold.ts';
import { canDecide, isCurrent } from '../../../machines/guards.ts';
import type { ChartEvent } from '../../../protocol/event.ts';
import { createAgent, tool } from '../../../tools/agent/index.ts';
import { explore } from '../../../tools/testing/index.ts';

/** Charts with one thing wrong each, and the invariant that has to say so. */

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
  sideEffect: 'once',
  approval: { required: true, reason: 'it is money', expiresInMs: 60_000 },
  run: () => 'paid',
});

const agent = createAgent({ name: 'planted', tools: [lookup, refund], limits: { turns: 3, toolCalls: 4 } });
const roomy = createAgent({ name: 'roomy', tools: [lookup, refund] });

type Actions = Parameters<AgentMachine['provide']>[0]['actions'];
type Guards = Parameters<AgentMachine['provide']>[0]['guards'];

const withActions = (actions: Actions) => agentMachine.provide({ actions: actions ?? {} });
const withGuards = (guards: Guards) => agentMachine.provide({ guards: guards ?? {} });

/** The chart with another way to record what happened. */
const recording = (record: (context: Context, event: ChartEvent) => Context) =>
  withActions({ record: assign(({ context, event }) => record(context, event)) });

const mapCalls = (context: Context, map: (call: Call) => Call): Context => ({
  ...context,
  calls: context.calls.map(map),
});

const LET_THROUGH = 'a call that needs approval never proceeds without one';
const ONE_RESULT =
  'every call has exactly one result, as reported, in call order, before the next model call and at the end';
const NO_MESSAGE_LOST = 'no message is lost or duplicated: it is in the transcript or in the inbox';
const WITHIN_LIMITS = 'no limit is exceeded, except by one closing call';
const NEVER_TWICE = 'a once call is started again only if it is known not to have happened';
const AHEAD = 'a call that may run before its start is on disk is repeatable, unedited and needs no approval';
const IN_DOUBT = 'an interrupted once call is reconciled or in doubt';
const DECIDED_ONCE =
  'a decision counts once: for an open call, with the digest that was seen, before it expires';
const PAUSE_HOLDS = 'a paused run starts only what its requested steps allow';
const STALE = 'a report from an older start is ignored';
const STRANGE = 'every valid event is accepted, and every invalid one is ignored';
const ANSWERED = 'every step completes: none throws or loops forever';

type Planted = { name: string; machine: AgentMachine; breaks: string; within?: number; maxStates?: number };

const PLANTED: readonly Planted[] = [
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
    name: 'a batch takes the gated calls along',
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
    name: 'a gated call counts as queued for whoever starts it',
    machine: withGuards({
      isCurrent: ({ context, event }) => event.type === 'tool.started' || isCurrent(context, event),
    }),
    breaks: LET_THROUGH,
  },
  {
    name: 'an approved call passes for one that nobody had to allow',
    machine: recording((context, event) => {
      const after = fold(context, event);
      return event.type === 'approval.decided'
        ? mapCalls(after, call => ({ ...call, gate: false, sideEffect: 'none', edited: false }))
        : after;
    }),
    breaks: AHEAD,
  },
  {
    name: 'what a tool gave is dropped',
    machine: recording((context, event) =>
      event.type === 'tool.settled' ? { ...context, now: event.at } : fold(context, event),
    ),
    breaks: ONE_RESULT,
    within: 4,
  },
  {
    name: 'what a tool gave is recorded as nothing',
    machine: recording((context, event) =>
      fold(context, event.type === 'tool.settled' ? { ...event, output: '' } : event),
    ),
    breaks: ONE_RESULT,
    within: 4,
  },
  {
    name: 'results stand in the wrong order',
    machine: recording((context, event) => {
      const after = fold(context, event);
      const [last, before] = [after.transcript.at(-1), after.transcript.at(-2)];
      if (last?.type !== 'tool_result' || before?.type !== 'tool_result' || after.open > 0) return after;
      return { ...after, transcript: [...after.transcript.slice(0, -2), last, before] };
    }),
    breaks: ONE_RESULT,
  },
  {
    name: 'what a person says of a call in doubt is recorded as something else',
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
    name: 'a message is not taken down',
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
    name: 'a message stays unread after it was read',
    machine: withActions({
      beginTurn: assign(({ context }) => ({ ...beginTurn(context), inbox: context.inbox })),
    }),
    breaks: NO_MESSAGE_LOST,
    within: 3,
  },
  {
    name: 'a message that comes while a call waits for approval is lost',
    machine: recording((context, event) => {
      const after = fold(context, event);
      const waits = context.calls.some(({ status }) => status === 'gated');
      return event.type === 'message.received' && waits ? { ...after, inbox: [] } : after;
    }),
    breaks: NO_MESSAGE_LOST,
    within: 3,
  },
  {
    name: 'limits are not looked at',
    machine: withActions({
      decide: assign(({ context }) => {
        const limits = { turns: 1_000, toolCalls: 1_000 };
        return { next: decide({ ...context, config: { ...context.config, limits } }).next };
      }),
    }),
    breaks: WITHIN_LIMITS,
  },
  {
    name: 'one turn more than the limit is let through',
    machine: withActions({
      decide: assign(({ context }) => {
        const { limits } = context.config;
        const more = { ...limits, turns: limits.turns + 1 };
        return { next: decide({ ...context, config: { ...context.config, limits: more } }).next };
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
    name: 'an interrupted call that must not happen twice is queued again',
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
    name: 'a call in doubt is started again by itself',
    machine: recording((context, event) => {
      const after = fold(context, event);
      return mapCalls(after, call => (call.status === 'doubted' ? { ...call, status: 'ready' } : call));
    }),
    breaks: NEVER_TWICE,
    maxStates: 700,
  },
  {
    name: 'a decision counts for a call that was decided',
    machine: withGuards({
      canDecide: ({ context, event }) =>
        event.type === 'approval.decided' && context.calls.some(({ callId }) => callId === event.callId),
    }),
    breaks: DECIDED_ONCE,
  },
  {
    name: 'a decision counts for any digest',
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
    name: 'an approval counts after it has expired',
    machine: withGuards({
      canDecide: ({ context, event }) =>
        event.type === 'approval.decided' && canDecide(context, { ...event, at: 0 }),
    }),
    breaks: DECIDED_ONCE,
    within: 2,
  },
  {
    name: 'a rejected call runs all the same',
    machine: recording((context, event) =>
      event.type === 'approval.decided' && event.decision.type === 'reject'
        ? fold(context, { ...event, decision: { type: 'approve' } })
        : fold(context, event),
    ),
    breaks: LET_THROUGH,
    within: 3,
  },
  {
    name: 'a pause is not taken down',
    machine: recording((context, event) =>
      event.type === 'pause.requested' ? { ...context, now: event.at } : fold(context, event),
    ),
    breaks: PAUSE_HOLDS,
  },
  {
    name: 'a pause is not honoured before tools',
    machine: withActions({
      decide: assign(({ context }) => ({ next: decide({ ...context, paused: false }).next })),
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
    name: 'reports of an older start are listened to',
    machine: withGuards({
      isCurrent: ({ context, event }) =>
        isCurrent(context, 'generation' in event ? { ...event, generation: context.generation } : event),
    }),
    breaks: STALE,
  },
  {
    name: 'nobody can give a doubted call its outcome',
    machine: withGuards({ isInDoubt: () => false }),
    breaks: STRANGE,
    maxStates: 1_300,
  },
  {
    name: 'the context holds what JSON does not',
    machine: recording((context, event) => ({
      ...fold(context, event),
      failures: new Map() as unknown as Context['failures'],
    })),
    breaks: 'the state of the chart is plain JSON',
  },
  {
    name: 'what was decided is not told',
    machine: withActions({ publishNext: () => {} }),
    breaks: 'every decision is published with its reason',
  },
  {
    name: 'text of a failed attempt is left standing',
    machine: withActions({ discardText: () => {} }),
    breaks: 'text shown by a failed attempt is discarded before the run continues',
    within: 3,
  },
  {
    name: 'nobody watches over what expires',
    machine: withActions({ startExpiryTimer: () => {} }),
    breaks: 'every service is stopped once, and the running services are those the state waits for',
    within: 2,
  },
  {
    name: 'an open call is no reason not to call the model',
    machine: withGuards({ next: ({ context }, { type }) => type === 'callModel' && context.next !== null }),
    breaks: ONE_RESULT,
    within: 2,
  },
  {
    name: 'a batch is always over',
    machine: withGuards({ batchIsOver: () => true }),
    breaks: ANSWERED,
  },
];

/** Most defects are met early; those that need more states say how many. */
const FEW_STATES = 250;

describe('explore finds what is planted in a chart', () => {
  it.each(PLANTED)('$name', ({ machine, breaks, within, maxStates = FEW_STATES }) => {
    const { breaches } = explore(agent, { machine, maxStates });
    const breach = breaches.find(({ invariant }) => invariant === breaks);
    expect(breach, breaches.map(({ invariant }) => invariant).join('\n')).toBeDefined();
    expect(breach?.path[0]?.event.type).toBe('run.started');
    if (within !== undefined) expect(breach?.path.length).toBeLessThanOrEqual(within + 1);
  });

  const overruns = PLANTED.filter(({ breaks }) => breaks === WITHIN_LIMITS);
  it.each(overruns)('$name, with limits that are far away', ({ machine, breaks, maxStates = FEW_STATES }) => {
    const { breaches } = explore(roomy, { machine, maxStates });
    expect(breaches.map(({ invariant }) => invariant)).toContain(breaks);
  });

  it('and nothing in the chart as it is', () => {
    expect(explore(agent, { maxStates: 2_000 }).breaches).toEqual([]);
    expect(explore(agent, { machine: agentMachine.provide({}), maxStates: 300 }).breaches).toEqual([]);
  });
});
