import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { createAgent, tool } from '../../agent/index.ts';
import { agentMachine } from '../../machines/agent.ts';
import { fold } from '../../machines/fold.ts';
import { explore } from '../../testing/index.ts';
import { answerWith } from '../support/engine/models.ts';
import { sampledByKind, TAKES_ALL } from '../support/sample.ts';
import { recording } from '../support/tools/planted/planted.ts';
import { PLANTED_IN_CALLS } from '../support/tools/planted/planted-in-calls.ts';
import { GROWN, PLANTED_IN_RUNS, WITHIN_LIMITS } from '../support/tools/planted/planted-in-runs.ts';

/** Charts with one defect each, and the invariant that detects it. */

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

const agent = createAgent({
  name: 'planted',
  tools: [lookup, refund],
  limits: { turns: 3, toolCalls: 4 },
  // The shortest paths to a lost message lead over a superseded call.
  onMessage: 'supersede',
});
const roomy = createAgent({ name: 'roomy', tools: [lookup, refund] });

/** `npm test` plants a sixth of the defects of each kind. */
const PLANTED = [...PLANTED_IN_CALLS, ...PLANTED_IN_RUNS];
const SAMPLED = sampledByKind(PLANTED, 12, ({ breaks }) => breaks);

/** Most defects are found early; the others set `maxStates`. */
const FEW_STATES = 250;

describe('explore finds a planted defect', () => {
  it.each(SAMPLED)('$name', ({ machine, breaks, within, maxStates = FEW_STATES }) => {
    const { breaches } = explore(agent, { machine, maxStates });
    const breach = breaches.find(({ invariant }) => invariant === breaks);
    expect(breach, breaches.map(({ invariant }) => invariant).join('\n')).toBeDefined();
    expect(breach?.path[0]?.event.type).toBe('run.started');
    if (within !== undefined) expect(breach?.path.length).toBeLessThanOrEqual(within + 1);
  });

  const overruns = SAMPLED.filter(({ breaks }) => breaks === WITHIN_LIMITS);
  it.each(overruns)('$name, with high limits', ({ machine, breaks, maxStates = FEW_STATES }) => {
    const { breaches } = explore(roomy, { machine, maxStates });
    expect(breaches.map(({ invariant }) => invariant)).toContain(breaks);
  });

  it.each([{ tokens: 100 }, { cost: 1 }])('a turn without usage counts as nothing, with %j', limits => {
    const machine = recording((context, event) => ({ ...fold(context, event), usageUnknown: false }));
    const limited = createAgent({
      ...agent.options,
      limits: { ...agent.options.limits, ...limits },
      prices: {},
    });
    const { breaches } = explore(limited, { machine, maxStates: 700 });
    expect(breaches.map(({ invariant }) => invariant)).toEqual([WITHIN_LIMITS]);
    expect(explore(limited, { maxStates: 700 }).breaches).toEqual([]);
  });

  it('reasoning that is void after a fallback is sent again', () => {
    const machine = recording((context, event) => {
      const after = fold(context, event);
      if (event.type !== 'turn.completed' || after.sent === null) return after;
      const { voidTo: _, ...sent } = after.sent;
      return { ...after, sent };
    });
    const model = ['one', 'two'].map(name => answerWith(() => ({ text: 'done' }), { model: name }));
    const falling = createAgent({ name: 'falling', tools: [lookup], model, retry: { attempts: 1 } });
    const { breaches } = explore(falling, { machine, maxStates: 700 });
    expect(breaches.map(({ invariant }) => invariant)).toContain(GROWN);
    expect(explore(falling, { maxStates: 700 }).breaches).toEqual([]);
  });

  it('finds nothing in the unchanged chart', () => {
    expect(explore(agent, { maxStates: TAKES_ALL ? 2_000 : 700 }).breaches).toEqual([]);
    expect(explore(agent, { machine: agentMachine.provide({}), maxStates: 300 }).breaches).toEqual([]);
  });
});
