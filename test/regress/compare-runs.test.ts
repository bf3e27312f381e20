import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import type { ScriptedTurn } from '../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import type { AgentOptions } from '../../agent/agent-options.ts';
import type { Run } from '../../engine/run/run.ts';
import { InDoubt } from '../../protocol/error.ts';
import type { JournalEntry, RunEvent } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import { type CompareOptions, compareRuns } from '../../regress/compare-runs.ts';
import { never } from '../../rules/condition.ts';
import { rule } from '../../rules/rule.ts';
import { memory } from '../../stores/memory.ts';
import { ManualHost } from '../../testing/manual-host.ts';
import { readGolden } from '../golden/golden-journal.ts';
import { calls, clientTool, makeTool } from '../support/engine/agents.ts';
import { recipes, recordRun } from '../support/engine/recorded-run.ts';
import { randomCases } from '../support/sample.ts';

function callIdOf(item: Item): string[] {
  return item.type === 'tool_call' ? [item.callId] : [];
}

type Scene = Partial<AgentOptions> & {
  turns: ScriptedTurn[];
  paused?: boolean;
  /** What people do, one at each rest. */
  people?: ((run: Run) => Promise<unknown>)[];
};

const lookup = makeTool('lookup', { sideEffect: 'none' });
const refund = makeTool('refund');
const gatedRefund = makeTool('refund', { approval: true });
const unknownRefund = makeTool('refund', {
  run: () => {
    throw new InDoubt('the recording has no such call');
  },
});

const order = { order: 'A-1001' };
const done: ScriptedTurn = { text: 'Done.' };
const looksUp = calls(['lookup', order]);
const refunds = calls(['refund', { ...order, cents: 4200 }]);
const base: ScriptedTurn[] = [looksUp, refunds, done];

const approve = async (run: Run) => await run.approve(await firstOpen(run));
const reject = async (run: Run) => await run.reject(await firstOpen(run), { reason: 'no' });
const respond = async (run: Run) => await run.answer(await firstOpen(run), { output: { ok: 1 } });
const edit = (input: object) => async (run: Run) => await run.approve(await firstOpen(run), { input });

async function firstOpen(run: Run): Promise<string> {
  const { calls: open } = run.context;
  return open.find(({ status }) => status === 'gated' || status === 'waiting')?.callId ?? '';
}

async function play({
  turns,
  people = [],
  paused = false,
  ...options
}: Scene): Promise<{ entries: JournalEntry[] }> {
  const [host, store] = [new ManualHost(), memory()];
  const agent = createAgent({
    name: 'support',
    host,
    store,
    model: scripted(turns),
    tools: [lookup, refund],
    ...options,
  });
  const run = await agent.start('go', { paused });
  await host.settle(run.settled());
  for (const act of people) {
    await act(run);
    await host.settle(run.settled());
  }
  return { entries: await store.read(run.id) };
}

async function compare(recorded: Scene, candidate: Scene, options?: CompareOptions) {
  return compareRuns(await play(recorded), await play(candidate), options);
}

/** The differences, as `KIND TURN TOOL SIDE-EFFECT: DETAIL`. */
async function found(recorded: Scene, candidate: Scene, options?: CompareOptions): Promise<string[]> {
  const { differences } = await compare(recorded, candidate, options);
  return differences.map(
    ({ kind, turn, tool = '-', sideEffect = '-', detail }) =>
      `${kind} ${turn} ${tool} ${sideEffect}: ${detail}`,
  );
}

describe('the comparison of two runs finds, and nothing else,', () => {
  it('a new call, and one that is missing', async () => {
    const looksTwice = [looksUp, calls(['lookup', { order: 'B' }]), refunds, done];
    expect(await found({ turns: base }, { turns: looksTwice })).toEqual([
      'new-call 2 lookup none: lookup({ order: B }) is new',
    ]);
    expect(await found({ turns: looksTwice }, { turns: base })).toEqual([
      'missing-call 2 lookup none: lookup({ order: B }) was not called',
    ]);
    expect(await found({ turns: base }, { turns: [looksUp, done] })).toEqual([
      'missing-call 2 refund once: refund({ order: A-1001, cents: 4200 }) was not called',
    ]);
  });

  it('another input, where a round has as many calls of the tool', async () => {
    const other = calls(['refund', { ...order, cents: 42_000, note: 'so sorry' }]);
    expect(await found({ turns: base }, { turns: [looksUp, other, done] })).toEqual([
      'input 2 refund once: refund: cents is 42000 (was 4200), note is "so sorry" (was absent)',
    ]);
    const two = calls(['refund', { cents: 1 }], ['refund', { ...order, cents: 4200 }]);
    expect(await found({ turns: base }, { turns: [looksUp, two, done] })).toEqual([
      'new-call 2 refund once: refund({ cents: 1 }) is new',
    ]);
    const instead = calls(['refund', { cents: 1 }], ['refund', { cents: 2 }]);
    expect(await found({ turns: base }, { turns: [looksUp, instead, done] })).toEqual([
      'new-call 2 refund once: refund({ cents: 1 }) is new',
      'new-call 2 refund once: refund({ cents: 2 }) is new',
      'missing-call 2 refund once: refund({ order: A-1001, cents: 4200 }) was not called',
    ]);
  });

  it('another input, although an equal call comes later', async () => {
    const again = [refunds, refunds, done];
    const other = [calls(['refund', { ...order, cents: 1 }]), refunds, done];
    expect(await found({ turns: again }, { turns: other })).toEqual([
      'input 1 refund once: refund: cents is 1 (was 4200)',
    ]);
    expect(await found({ turns: other }, { turns: again })).toEqual([
      'input 1 refund once: refund: cents is 4200 (was 1)',
    ]);
  });

  it('an approval that was added or removed', async () => {
    const asks = { turns: base, tools: [lookup, gatedRefund] };
    const call = 'refund({ order: A-1001, cents: 4200 })';
    expect(await found({ turns: base }, asks)).toEqual([
      `decision 2 refund once: ${call} asks for approval; it ran without`,
    ]);
    expect(await found({ ...asks, people: [approve] }, { turns: base })).toEqual([
      `decision 2 refund once: ${call} asks for no approval; it asked for one`,
    ]);
    const people = (by: string) =>
      makeTool('refund', { approval: { required: true, by, quorum: 2 }, sideEffect: 'once' });
    expect(
      await found(
        { turns: base, tools: [lookup, people('desk')] },
        { turns: base, tools: [lookup, people('finance')] },
      ),
    ).toEqual([
      `decision 2 refund once: ${call} needs the approvals of 2 people in the group finance; it needed the approvals of 2 people in the group desk`,
    ]);
  });

  it.each<[string, (run: Run) => Promise<unknown>, string]>([
    ['rejected', reject, 'was rejected'],
    ['answered', respond, 'was answered by a person'],
    ['edited', edit({ cents: 1 }), 'was approved with an input that a person wrote'],
  ])('another decision: %s', async (_, decide, said) => {
    const asks = { turns: base, tools: [lookup, gatedRefund] };
    const call = 'refund({ order: A-1001, cents: 4200 })';
    expect(await found({ ...asks, people: [approve] }, { ...asks, people: [decide] })).toEqual([
      `decision 2 refund once: ${call} ${said}; it was approved`,
    ]);
    expect(await found({ ...asks, people: [decide] }, { ...asks, people: [decide] })).toEqual([]);
  });

  it('another outcome of an equal call', async () => {
    const fails = makeTool('refund', {
      run: () => {
        throw new Error('no');
      },
    });
    const call = 'refund({ order: A-1001, cents: 4200 })';
    expect(await found({ turns: base }, { turns: base, tools: [lookup, fails] })).toEqual([
      `outcome 2 refund once: ${call} failed; it succeeded`,
    ]);
    expect(await found({ turns: base }, { turns: base, tools: [lookup, unknownRefund] })).toEqual([
      `outcome 2 refund once: ${call} is in doubt; it succeeded`,
    ]);
  });

  it('another outcome in its round, although an equal call of an earlier one is missing', async () => {
    const twice = { turns: [refunds, refunds, done] };
    const fails = makeTool('refund', { run: () => Promise.reject(new Error('no')) });
    const once = { turns: [looksUp, refunds, done], tools: [lookup, fails] };
    expect(await found(twice, once)).toEqual([
      'new-call 1 lookup none: lookup({ order: A-1001 }) is new',
      'missing-call 1 refund once: refund({ order: A-1001, cents: 4200 }) was not called',
      'outcome 2 refund once: refund({ order: A-1001, cents: 4200 }) failed; it succeeded',
    ]);
  });

  it('a call that is refused now instead of asked about', async () => {
    const asks = { turns: base, tools: [lookup, gatedRefund], people: [approve] };
    const strict = makeTool('refund', { approval: true, input: z.object({ cents: z.string() }) });
    const [first = '', ...others] = await found(asks, { turns: base, tools: [lookup, strict] });
    expect(first).toMatch(/^outcome 2 refund once: .* was refused: .*; it succeeded$/);
    expect(others).toEqual([]);
  });

  it('calls that are refused now: by the schema, a rule, a guardrail, or because the tool is gone', async () => {
    const call = 'refund({ order: A-1001, cents: 4200 })';
    const strict = makeTool('refund', { input: z.object({ cents: z.string() }) });
    const [bySchema = ''] = await found({ turns: base }, { turns: base, tools: [lookup, strict] });
    expect(bySchema).toMatch(/^outcome 2 refund once: .* was refused: .*cents.*; it succeeded$/);
    const rules = [rule({ name: 'no money', when: never('refund'), reason: 'no money today' })];
    expect(await found({ turns: base }, { turns: base, rules })).toEqual([
      `outcome 2 refund once: ${call} was refused: no money today; it succeeded`,
    ]);
    const guardrails = { toolInput: () => ({ type: 'block' as const, reason: 'not like this' }) };
    expect(await found({ turns: [refunds, done] }, { turns: [refunds, done], guardrails })).toEqual([
      `outcome 1 refund once: ${call} was refused: not like this; it succeeded`,
    ]);
    const [gone = ''] = await found({ turns: base }, { turns: base, tools: [lookup] });
    expect(gone).toMatch(/^outcome 2 refund once: .* was refused: .*; it succeeded$/);
    expect(await found({ turns: base, rules }, { turns: base, rules })).toEqual([]);
    expect(await found({ turns: base, tools: [lookup] }, { turns: base, tools: [lookup] })).toEqual([]);
  });

  it('a refused call that is new, with why', async () => {
    const invents = [looksUp, refunds, calls('teleport'), done];
    const [first = '', ...others] = await found({ turns: base }, { turns: invents });
    expect(first).toMatch(/^new-call 3 teleport none: teleport\({}\) is new; it was refused: .*teleport/);
    expect(others).toEqual([]);
  });

  it('another end', async () => {
    const overloaded: ScriptedTurn = { error: { code: 'overloaded' } };
    expect(await found({ turns: base }, { turns: [looksUp, refunds, overloaded] })).toEqual([
      'end 3 - -: the run failed (overloaded); the recorded one finished',
    ]);
    expect(
      await found({ turns: base }, { turns: [looksUp, refunds, { ...done, finishReason: 'length' }] }),
    ).toEqual(['end 3 - -: the run finished, incomplete (length); the recorded one finished']);
    const seen = { guardrails: { answer: () => ({ type: 'ask' as const, reason: 'see it' }) } };
    expect(await found({ turns: base }, { turns: base, ...seen })).toEqual([
      'end 3 - -: the run waits for a review; the recorded one finished',
    ]);
    expect(await found({ turns: base, ...seen }, { turns: base, ...seen })).toEqual([]);
  });

  it('fields of an output', async () => {
    const output = z.object({ total: z.number(), lines: z.array(z.object({ sku: z.string() })) });
    const answers = (value: object) => ({ turns: [{ text: JSON.stringify(value) }], output });
    const [was, is] = [
      { total: 1, lines: [{ sku: 'a' }, { sku: 'b' }] },
      { total: 2, lines: [{ sku: 'a' }, { sku: 'c' }, { sku: 'd' }] },
    ];
    const { differences, sameness } = await compare(answers(was), answers(is));
    expect(differences).toEqual([
      { kind: 'output', turn: 1, field: 'total', detail: 'total is 2 (was 1)' },
      { kind: 'output', turn: 1, field: 'lines.1.sku', detail: 'lines.1.sku is c (was b)' },
      { kind: 'output', turn: 1, field: 'lines.2', detail: 'lines.2 is { sku: d } (was absent)' },
    ]);
    expect(sameness).toBe('otherEffects');
    expect(await found(answers(was), { turns: [{ text: JSON.stringify(was, null, 2) }], output })).toEqual(
      [],
    );
  });

  it('another score', async () => {
    const score = { recorded: 1, candidate: 0.5 };
    expect(await found({ turns: base }, { turns: base }, { score })).toEqual([
      'score 3 - -: the score is 0.5 (was 1)',
    ]);
    const { sameness } = await compare({ turns: base }, { turns: base }, { score });
    expect(sameness).toBe('same');
  });
});

describe('no difference is', () => {
  it('a call that moves to another round, and calls in another order', async () => {
    const both = calls(['refund', { ...order, cents: 4200 }], ['lookup', order]);
    const comparison = await compare({ turns: base }, { turns: [both, done] });
    expect(comparison).toMatchObject({ sameness: 'sameEffects', differences: [] });
    expect(comparison.turns).toEqual({ recorded: 3, candidate: 2 });
  });

  it('a call that a person approves with the input that it has', async () => {
    const asks = { turns: base, tools: [lookup, gatedRefund] };
    const same = edit({ ...order, cents: 4200 });
    expect(await found({ ...asks, people: [approve] }, { ...asks, people: [same] })).toEqual([]);
  });

  it('a call that a person has run again', async () => {
    let broken = true;
    const flaky = makeTool('refund', {
      run: () => {
        if (broken) throw new Error('not now');
        return 'refunded';
      },
    });
    const step = async (run: Run) => await run.step();
    const retry = async (run: Run) => {
      broken = false;
      const [callId = ''] = run.context.transcript.flatMap(callIdOf);
      expect(await run.retry(callId)).toMatchObject({ accepted: true });
      await run.unpause();
    };
    const turns = [refunds, done];
    const again = await play({ turns, tools: [flaky], people: [step, step, retry], paused: true });
    expect(again.entries.filter(({ event }) => event.type === 'tool.settled')).toHaveLength(2);
    expect(compareRuns(await play({ turns, tools: [refund] }), again).differences).toEqual([]);
    const begun = again.entries.findIndex(({ event }) => event.type === 'transcript.edited');
    const cut = { entries: again.entries.slice(0, begun + 1) };
    expect(compareRuns(again, cut).differences).toMatchObject([{ kind: 'outcome', turn: 1 }]);
  });

  it('an edit that keeps an open call, or that only changes a text', async () => {
    const asks = makeTool('refund', {
      approval: true,
      run: () => {
        throw new InDoubt('no reply');
      },
    });
    const doubted = { turns: base, tools: [lookup, asks], people: [approve] };
    const remark: Item = {
      type: 'message',
      role: 'user',
      content: [{ type: 'text', text: 'It is urgent.' }],
    };
    const edits = async (run: Run) => await run.editTranscript([remark, ...run.context.transcript]);
    expect(await found(doubted, { ...doubted, people: [approve, edits] })).toEqual([]);
    const step = async (run: Run) => await run.step();
    const says = async (run: Run) => {
      expect(await run.editTurn({ text: 'Better.' })).toMatchObject({ accepted: true });
      await run.unpause();
    };
    const [turns, checks] = [
      [{ text: 'Done.' }],
      { guardrails: { answer: () => ({ type: 'pass' as const }) } },
    ];
    const edited = { turns, paused: true, people: [step, says], ...checks };
    expect(await compare({ turns: [{ text: 'Better.' }], ...checks }, edited)).toMatchObject({
      sameness: 'same',
    });
  });

  it('an equal call with another outcome in the same round as one with that outcome', async () => {
    const flaky = (fails: number) => {
      let count = 0;
      const run = () => {
        count += 1;
        if (count === fails) throw new Error('no');
        return 'ok';
      };
      return makeTool('refund', { run });
    };
    const twice = [calls(['refund', order], ['refund', order]), done];
    const scene = (fails: number): Scene => ({ turns: twice, tools: [flaky(fails)], toolConcurrency: 1 });
    expect(await found(scene(1), scene(2))).toEqual([]);
    expect(await found(scene(1), scene(3))).toHaveLength(1);
  });

  it('an input that means the same by the schema of now', async () => {
    const spelled = [looksUp, calls(['refund', { ...order, cents: 4200, notify: true }]), done];
    const keyOf: CompareOptions['keyOf'] = ({ name, input }) =>
      JSON.stringify([name, Object.entries({ notify: true, ...(input as object) }).sort()]);
    expect(await found({ turns: base }, { turns: spelled })).toHaveLength(1);
    expect(await found({ turns: base }, { turns: spelled }, { keyOf })).toEqual([]);
  });

  it('another text, which is only noted', async () => {
    const { sameness, differences } = await compare(
      { turns: base },
      { turns: [looksUp, refunds, { text: 'All done.' }] },
    );
    expect({ sameness, differences }).toEqual({ sameness: 'sameEffects', differences: [] });
  });
});

describe('a sample that waits at a call that the recording does not cover', () => {
  const sends = makeTool('send', { run: () => Promise.reject(new InDoubt('not recorded')) });
  const tools = [lookup, refund, sends, clientTool('show')];
  const long = [looksUp, refunds, calls(['lookup', { order: 'B' }]), calls('send'), done];

  it('is different by that call, and not by what it did not reach', async () => {
    const stops = [looksUp, calls('send'), done];
    const ran = { turns: long, tools: [lookup, refund, makeTool('send')] };
    const comparison = await compare(ran, { turns: stops, tools });
    expect(comparison.stopped).toBe(true);
    expect(comparison.sameness).toBe('otherEffects');
    expect(comparison.differences.map(({ kind, turn, tool }) => `${kind} ${turn} ${tool}`)).toEqual([
      'outcome 2 send',
    ]);
    const elsewhere = [calls('show'), done];
    expect(await found({ turns: base }, { turns: elsewhere, tools })).toEqual([
      'new-call 1 show once: show({}) is new',
    ]);
  });

  it('is different by a call that never got its result', async () => {
    const { entries } = await play({ turns: [looksUp, calls(['lookup', { order: 'B' }]), done] });
    const turns = entries.flatMap(({ seq, event }) => (event.type === 'turn.completed' ? [seq] : []));
    const cut = entries.slice(0, turns[1]);
    const { differences, stopped } = compareRuns(await play({ turns: base }), { entries: cut });
    expect(stopped).toBe(true);
    expect(differences.map(({ kind, turn, tool }) => `${kind} ${turn} ${tool}`)).toEqual([
      'new-call 2 lookup',
    ]);
  });

  it('is not different by equal calls that still wait beside it', async () => {
    const both = [calls('show', ['send', { to: 'a' }]), done];
    const other = [calls('show', ['send', { to: 'b' }]), done];
    const sent = { turns: both, tools: [makeTool('send'), clientTool('show')], people: [respond] };
    expect(await found(sent, { turns: other, tools })).toEqual(['input 1 send once: send: to is b (was a)']);
    expect(await found(sent, { ...sent, people: [] })).toEqual([
      'outcome 1 show once: show({}) has no result; it succeeded',
    ]);
  });
});

it('details are one bounded line, whatever the model wrote', async () => {
  const huge = { [`k${'x'.repeat(500)}`]: 'y'.repeat(100_000), list: Array.from({ length: 5000 }, String) };
  const deep = JSON.parse(`${'{"a":'.repeat(150)}1${'}'.repeat(150)}`);
  const lines = 'first\nsecond \u001b[31m\u202e';
  const turns = [...[huge, deep, { lines }].map(input => calls(['refund', JSON.stringify(input)])), done];
  const { differences } = await compare({ turns: [done] }, { turns });
  expect(differences).toHaveLength(3);
  for (const { detail } of differences) expect(detail.length).toBeLessThan(300);
  expect(differences[2]?.detail).toContain(String.raw`lines: "first\nsecond \u001b[31m`);
});

it('the figures are of the run itself', async () => {
  const usage = { inputTokens: 1000, outputTokens: 100 };
  const prices = { [scripted([]).model]: { input: 1, output: 10 } };
  const priced = (turns: ScriptedTurn[]) => ({ turns: turns.map(turn => ({ ...turn, usage })), prices });
  const { turns, tokens, cost } = await compare(priced(base), priced([looksUp, done]));
  expect(turns).toEqual({ recorded: 3, candidate: 2 });
  expect(tokens).toEqual({ recorded: 3300, candidate: 2200 });
  expect(cost.recorded / cost.candidate).toBeCloseTo(1.5);
});

it.each([false, true])(
  'the figures leave out what sub-agents spent, in the background %s',
  async background => {
    const usage = { inputTokens: 1000, outputTokens: 100 };
    const child = createAgent({
      name: 'child',
      model: scripted([{ text: 'Found.', usage }]),
      prices: { [scripted([]).model]: { input: 1, output: 10 } },
    });
    const turns = [
      { ...calls(['child', { input: 'find it' }]), usage },
      { ...done, usage },
    ];
    const scene = {
      turns,
      tools: [child.asTool({ name: 'child', description: 'Finds things.', background })],
      people: [],
    };
    const { turns: counted, tokens, cost } = await compare(scene, scene);
    expect(counted).toEqual({ recorded: 2, candidate: 2 });
    expect(tokens).toEqual({ recorded: 2200, candidate: 2200 });
    expect(cost.recorded).toBeCloseTo(0, 10);
  },
);

/** The same run with other ids, and with the calls of each round the other way round. */
function renamed(entries: readonly JournalEntry[]): JournalEntry[] {
  const ids = new Set(
    entries.flatMap(({ event }) => ('calls' in event ? event.calls.map(({ callId }) => callId) : [])),
  );
  const text = JSON.stringify(entries, (key, value) => {
    if (key === 'runId' || key === 'childRunId') return `other_${value}`;
    if (typeof value === 'string' && ids.has(value)) return `other_${value}`;
    return key === 'calls' ? value.toReversed() : value;
  });
  return JSON.parse(text);
}

it('a run is the same as itself, with other ids and its calls in another order', async () => {
  await fc.assert(
    fc.asyncProperty(recipes, async recipe => {
      const { store, run } = await recordRun(recipe);
      const entries = await store.read(run.id);
      const comparison = compareRuns({ entries }, { entries: renamed(entries) });
      expect(comparison.differences).toEqual([]);
      expect(comparison).toMatchObject({ sameness: 'same', differences: [] });
    }),
    { numRuns: randomCases(60) },
  );
});

const golden = [...readGolden('runs'), ...readGolden('edges')].map(([name, journal]) => {
  const events = journal.entries.map(({ event }) => event as RunEvent);
  return [name, events.map((event, at) => ({ seq: at + 1, event }))] as const;
});

it.each(golden)('%s is the same as itself, with other ids', (_, entries) => {
  const comparison = compareRuns({ entries }, { entries: renamed(entries) });
  expect(comparison).toMatchObject({ sameness: 'same', differences: [] });
});

/** The calls of the turns of a journal, with their places. */
function callsIn(entries: readonly JournalEntry[]) {
  return entries.flatMap(({ event }, at) =>
    event.type === 'turn.completed' ? event.calls.map((call, place) => ({ call, at, place })) : [],
  );
}

it('one other input in a random run is one difference', async () => {
  await fc.assert(
    fc.asyncProperty(recipes, fc.nat(), async (recipe, which) => {
      const { store, run } = await recordRun(recipe);
      const entries = await store.read(run.id);
      const places = callsIn(entries);
      const planted = places[which % places.length];
      fc.pre(planted !== undefined);
      const changed = structuredClone(entries);
      const { call } = callsIn(changed)[which % places.length] ?? planted;
      call.input = { planted: true };
      const { differences, sameness } = compareRuns({ entries }, { entries: changed });
      expect(differences).toMatchObject([{ kind: 'input', tool: planted.call.name }]);
      expect(differences[0]?.detail).toContain('planted is true (was absent)');
      expect(sameness).toBe('otherEffects');
    }),
    { numRuns: randomCases(60) },
  );
});

it('one more call in a random run is one difference, and so is one less', async () => {
  await fc.assert(
    fc.asyncProperty(recipes, fc.nat(), async ({ then: _, ...recipe }, which) => {
      const rounds = recipe.turns.filter(({ toolCalls }) => toolCalls !== undefined);
      const round = rounds[which % rounds.length];
      fc.pre(round !== undefined);
      const more = { ...round, ...addCall(round, 'read', { planted: true }) };
      const turns = recipe.turns.map(turn => (turn === round ? more : turn));
      const [recorded, candidate] = await Promise.all([recordRun(recipe), recordRun({ ...recipe, turns })]);
      const was = { entries: await recorded.store.read(recorded.run.id) };
      const is = { entries: await candidate.store.read(candidate.run.id) };
      const isMade = callsIn(is.entries).some(({ call }) => JSON.stringify(call.input).includes('planted'));
      const planted = (kind: string) => (isMade ? [{ kind, tool: 'read', sideEffect: 'none' }] : []);
      expect(compareRuns(was, is).differences).toMatchObject(planted('new-call'));
      expect(compareRuns(is, was).differences).toMatchObject(planted('missing-call'));
    }),
    { numRuns: randomCases(40) },
  );
});

function addCall({ toolCalls = [] }: ScriptedTurn, name: string, input: { [name: string]: boolean }) {
  return { toolCalls: [...toolCalls, { name, arguments: input }] };
}

it('a run without its first entry cannot be compared', async () => {
  const { entries } = await play({ turns: base });
  expect(() => compareRuns({ entries: entries.slice(1) }, { entries })).toThrow(/first entry/);
});
