import fc from 'fast-check';
import { emit, fromCallback, setup } from 'xstate';
import type { AgentMachine } from '../../../machines/agent.ts';
import type { ServiceInput } from '../../../protocol/effect.ts';
import { omitUndefined } from '../../../protocol/json.ts';

/**
 * Random machines of every compiled feature. Their context logs which actions ran, in order, and on which event.
 * Edges without an event burn fuel that only events add, or change nothing, so that every step terminates.
 */

type Log = { log: string[]; fuel: number; last: string; x?: number; y?: number; z?: number };
type Emitted = { type: string; [key: string]: unknown };
export type RandomEvent = { type: string; size: number };

const service = fromCallback<RandomEvent, ServiceInput>(() => {});
const withEntry = ({ log }: Log, entry: string): { log: string[] } => ({ log: [...log, entry] });

const base = setup({
  types: {} as { context: Log; events: RandomEvent; emitted: Emitted; input: unknown },
  actors: { modelTurn: service, toolBatch: service, timer: service, answerCheck: service },
  guards: {
    hasFuel: ({ context }) => context.fuel > 0,
    isLarger: ({ context, event }, than: unknown) => event.size + context.log.length > Number(than),
    isEven: ({ context }) => context.log.length % 2 === 0,
  },
});

const random = base.extend({
  actions: {
    note: base.assign(({ context, event }, params: unknown) =>
      withEntry(context, `note ${JSON.stringify(params)} on ${event.type}`),
    ),
    noteWhole: base.assign(({ context }) => ({ ...context, ...withEntry(context, 'whole') })),
    noteKeys: base.assign({ last: 'keys', log: ({ context }) => withEntry(context, 'keys').log }),
    noteTurned: base.assign(({ context: { log, fuel, last } }) => ({ last, fuel, log: [...log, 'turned'] })),
    addKeys: base.assign(({ context }) => ({ z: context.fuel, y: 1, x: 2 })),
    refuel: base.assign({ fuel: ({ context }) => context.fuel + 2 }),
    burn: base.assign(({ context }) => ({ fuel: context.fuel - 1 })),
    assignNothing: base.assign(({ context }) => context),
    say: base.emit(({ context, event }, params: unknown) => ({
      type: 'said',
      params,
      after: context.log.length,
      last: context.last,
      event,
    })),
    hello: base.emit({ type: 'hello' }),
    start: base.spawnChild('timer', {
      id: 'spawned',
      input: ({ context }) => ({ generation: context.fuel }),
    }),
    startPlain: base.spawnChild('answerCheck', { id: 'plain', input: { generation: 1 } }),
    stop: base.stopChild('spawned'),
    stopInvoked: base.stopChild('invoked'),
    several: base.enqueueActions(({ context, event, enqueue, check }, params: unknown) => {
      if (check('isEven')) enqueue.assign(withEntry(context, `even on ${event.type}`));
      if (check({ type: 'isLarger', params: 3 })) enqueue.emit({ type: 'larger', params });
      if (event.size > 1)
        enqueue.spawnChild('toolBatch', { id: 'enqueued', input: { generation: context.fuel } });
      else enqueue.stopChild('enqueued');
      enqueue.assign(({ context: later }) =>
        withEntry(later, `${later.log.length} after ${context.log.length}`),
      );
    }),
    severalNamed: base.enqueueActions(({ enqueue }) => {
      enqueue('several' as never);
      enqueue({ type: 'note', params: { from: 'several' } } as never);
    }),
    nothing: base.enqueueActions(() => {}),
  },
});

const PARAMS = fc.constantFrom<unknown>(
  { at: 1 },
  ({ context, event }: { context: Log; event: RandomEvent }) => ({ size: event.size, fuel: context.fuel }),
);

/** Actions that add no fuel, for entries and exits. */
const plainAction = fc.oneof(
  fc.constantFrom('noteWhole', 'noteKeys', 'assignNothing', 'hello', 'start', 'startPlain', 'stop'),
  fc.constantFrom(
    'note',
    'noteTurned',
    'addKeys',
    'say',
    'several',
    'severalNamed',
    'stopInvoked',
    'nothing',
  ),
  fc.record({ type: fc.constantFrom('note', 'say', 'several'), params: PARAMS }),
  fc.constant(base.assign(({ context }) => withEntry(context, 'inline'))),
  fc.constant(emit({ type: 'inline' })),
);
const plainActions = fc.array(plainAction, { maxLength: 3 });

const guard = fc.oneof(
  fc.constantFrom<unknown>(
    undefined,
    'isEven',
    'hasFuel',
    ({ event }: { event: RandomEvent }) => event.size > 1,
  ),
  fc.record({ type: fc.constant('isLarger'), params: fc.nat({ max: 12 }) }),
  fc.constant({ type: 'isLarger', params: ({ context }: { context: Log }) => context.fuel }),
);

/** A state whose edges have targets by number, still to be resolved to states of the machine. */
type Draft = {
  entry: unknown;
  exit: unknown;
  tags: string[];
  invoke: unknown;
  inner: Draft[];
  edges: Edge[];
};
type Edge = {
  event: string;
  to: number | null;
  reenter: boolean;
  guard: unknown;
  actions: unknown;
  isBlank: boolean;
};

const edge = fc.record<Edge>({
  event: fc.constantFrom('a', 'b', 'c', '*', ''),
  to: fc.option(fc.nat()),
  reenter: fc.boolean(),
  guard,
  actions: plainActions.chain(some => fc.constantFrom(some, [...some, 'refuel'])),
  isBlank: fc.nat({ max: 9 }).map(nat => nat === 0),
});

const invoke = fc.constantFrom<unknown>(
  undefined,
  undefined,
  {
    src: 'modelTurn',
    id: 'invoked',
    input: ({ context }: { context: Log }) => ({ generation: context.log.length }),
  },
  [{ src: 'toolBatch' }, { src: 'timer', id: 'second', input: { generation: 7 } }],
);

/** The output of a final state. */
const output = fc.constantFrom<unknown>(
  undefined,
  { of: 'the state' },
  ({ context, event }: { context: Log; event: RandomEvent }) => ({ log: context.log, event }),
);

const draft = (depth: number): fc.Arbitrary<Draft> =>
  fc.record({
    entry: plainActions,
    exit: plainActions,
    tags: fc.subarray(['rest', 'busy']),
    invoke,
    inner: depth === 0 ? fc.constant([]) : fc.array(draft(depth - 1), { maxLength: 3 }),
    edges: fc.array(edge, { maxLength: 4 }),
  });

/** A machine with one to four states at the root, each up to three levels deep, and up to two final states. */
export const machines = fc
  .record({
    root: fc.tuple(draft(0), fc.array(draft(2), { minLength: 1, maxLength: 4 })),
    ends: fc.array(fc.record({ entry: plainActions, exit: plainActions, output }), { maxLength: 2 }),
    output: fc.constantFrom<unknown>(undefined, ({ event }: { event: object }) => event, { of: 'the root' }),
    hasFactory: fc.boolean(),
  })
  .map(({ root: [root, inner], ends, output: rootOutput, hasFactory }) => {
    const full = { ...root, inner };
    const ids = [...listIds(full, '').slice(1), ...ends.map((_, index) => `end${index}`)];
    const { states, ...config } = toConfig(full, '', ids);
    const finals = ends.map((end, index) => [`end${index}`, { ...end, id: `end${index}`, type: 'final' }]);
    const context: Log = { log: [], fuel: 1, last: '' };
    const machine = random.createMachine({
      ...config,
      output: rootOutput,
      states: { ...(states as object), ...Object.fromEntries(finals) },
      context: hasFactory
        ? ({ input }: { input: unknown }) => ({ ...context, last: JSON.stringify(input) })
        : context,
    } as never);
    Object.assign(machine, { [fc.toStringMethod]: () => JSON.stringify(machine.config) });
    return machine as unknown as AgentMachine;
  });

export const events = fc.array(
  fc.record<RandomEvent>({ type: fc.constantFrom('a', 'b', 'c', 'd'), size: fc.nat({ max: 3 }) }),
  { minLength: 1, maxLength: 12 },
);

function listIds({ inner }: Draft, id: string): string[] {
  return [id, ...inner.flatMap((child, index) => listIds(child, `${id}s${index}`))];
}

function toConfig(state: Draft, id: string, ids: readonly string[]): Record<string, unknown> {
  const { inner, edges, entry, exit, tags, invoke: service } = state;
  const on: Record<string, unknown[]> = {};
  const always: unknown[] = [];
  for (const { event, to, reenter, isBlank, ...rest } of edges) {
    const target = to === null ? undefined : `#${ids[to % ids.length]}`;
    const transition = { ...rest, target, reenter };
    if (event !== '') on[event] = [...(on[event] ?? []), isBlank ? undefined : transition];
    else if (isBlank) always.push({ guard: rest.guard, actions: 'hello' });
    else always.push({ ...transition, guard: 'hasFuel', actions: ['burn', 'note'] });
  }
  const states = inner.map((child, index) => [`s${index}`, toConfig(child, `${id}s${index}`, ids)]);
  return {
    id: id === '' ? 'machine' : id,
    entry,
    exit,
    tags,
    on,
    always,
    ...omitUndefined({ invoke: service }),
    ...(inner.length === 0 ? {} : { initial: 's0', states: Object.fromEntries(states) }),
  };
}
