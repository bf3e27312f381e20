import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import type { ScriptedTurn } from '../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import type { AgentOptions } from '../../agent/agent-options.ts';
import type { CallVerdict, JournalEntry } from '../../protocol/event.ts';
import type { Store } from '../../protocol/store.ts';
import { atMost, first, needs, never, spendOf } from '../../rules/condition.ts';
import { type Rule, rule } from '../../rules/rule.ts';
import { makeProgress } from '../../stores/conformance/check.ts';
import { memory } from '../../stores/memory.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { type BacktestOptions, backtest } from '../../testing/index.ts';
import { tool } from '../../tools/tool.ts';
import { randomCases } from '../support/sample.ts';
import { makeTemporaryFolder } from '../support/temporary-folders.ts';

/** Rules and approval functions, tried on stored runs. */

type Call = NonNullable<ScriptedTurn['toolCalls']>[number];

const browse: Call = { name: 'browse', arguments: {} };
const mail = (to = 'ada'): Call => ({ name: 'mail', arguments: { to } });
const refund = (cents: number): Call => ({ name: 'refund', arguments: { cents } });
const calling = (...toolCalls: Call[]): ScriptedTurn => ({ toolCalls });
const DONE: ScriptedTurn = { text: 'Done.' };

type Options = Partial<Omit<AgentOptions, 'store'>> & {
  store: Store;
  turns?: readonly ScriptedTurn[];
  approval?: Parameters<typeof tool>[0]['approval'];
};

/** Its tools note what is executed: a backtest executes nothing. */
function makeAgent({ turns = [], approval = false, ...options }: Options) {
  const done: string[] = [];
  const plain = (name: string, input: z.ZodObject, tags: string[]) =>
    tool({
      name,
      description: name,
      input,
      sideEffect: 'idempotent',
      tags,
      approval,
      run: given => {
        done.push(name);
        if (Object(given).to === 'nobody') throw new Error('no such address');
        return 'done';
      },
    });
  const agent = createAgent({
    name: 'desk',
    model: scripted([...turns]),
    tools: [
      plain('browse', z.object({}), ['untrusted']),
      plain('mail', z.object({ to: z.string() }), ['leaves']),
      plain('refund', z.object({ cents: z.number() }), []),
    ],
    ...options,
  });
  return { agent, done };
}

async function record(options: Options, input = 'go', continues?: string): Promise<string> {
  const { agent } = makeAgent(options);
  const run = await agent.start(input, continues === undefined ? {} : { continues });
  await run.settled();
  return run.id;
}

async function tryOn(options: Options, given: BacktestOptions = {}) {
  const { agent, done } = makeAgent(options);
  const report = await backtest(agent, given);
  expect(done).toEqual([]);
  return report;
}

const NO_LEAKS = never('leaves').after('untrusted');
const byRun = (cases: readonly { runId: string; seq: number }[]) =>
  cases.map(({ runId, seq }) => [runId, seq]);

describe('a backtest', () => {
  test('says how often a new rule would have asked, whom, and where', async () => {
    const store = memory();
    const leaking = await record({ store, turns: [calling(browse), calling(mail()), DONE] });
    await record({ store, turns: [calling(mail()), calling(browse), DONE] });
    const both = await record({ store, turns: [calling(mail('bob'), browse), DONE] });
    const report = await tryOn({ store, rules: [NO_LEAKS.asks('security')] });
    expect(report).toMatchObject({ agent: 'desk', runs: 3, calls: 6, complete: true, skipped: [] });
    const [found] = report.rules;
    expect(found).toMatchObject({
      name: 'never leaves after untrusted: asks security',
      verdict: 'ask',
      by: ['security'],
      ask: 2,
      block: 0,
      runs: 2,
      same: 0,
      asks: [{ by: ['security'], count: 2 }],
      unjudged: [],
    });
    const made = await findEntries(store, leaking, ({ event }) => event.type === 'turn.completed');
    const [bothMade] = await findEntries(store, both, ({ event }) => event.type === 'turn.completed');
    expect(byRun(found?.cases ?? [])).toEqual([
      [leaking, made[1]?.seq],
      [both, bothMade?.seq],
    ]);
    expect(found?.cases[0]).toMatchObject({
      tool: 'mail',
      callId: 'call_1_0',
      place: 'turn',
      then: 'allow',
      now: 'ask',
      same: false,
    });
  });

  test('counts a call that the run refused as not begun, whether or not the run kept a history', async () => {
    const store = memory();
    const turns = [calling(browse), calling(mail()), DONE];
    await record({ store, turns, rules: [never('browse')] });
    const bare = makeAgent({ store, turns, approval: true });
    const run = await bare.agent.start('go');
    await run.settled();
    await run.reject('call_0_0');
    await run.settled();
    const { rules, runs } = await tryOn({ store, rules: [NO_LEAKS] });
    expect(runs).toBe(2);
    expect(rules).toMatchObject([{ ask: 0, block: 0, stop: 0 }]);
  });

  test('says which of it the run did already, and what is no longer said', async () => {
    const store = memory();
    await record({
      store,
      turns: [calling(browse), calling(mail()), DONE],
      rules: [NO_LEAKS, never('browse')],
    });
    await record({ store, turns: [calling(browse), calling(mail()), DONE], rules: [NO_LEAKS] });
    const { rules } = await tryOn({
      store,
      rules: [NO_LEAKS, rule({ name: 'never browse', when: never('post') })],
    });
    expect(rules).toMatchObject([
      { block: 1, same: 1, dropped: 0 },
      {
        block: 0,
        dropped: 1,
        runs: 0,
        unknown: ['post'],
        cases: [{ now: 'allow', then: 'block', tool: 'browse' }],
      },
    ]);
  });

  test('shows a rule in the shadow, and counts one that was in the shadow as new', async () => {
    const store = memory();
    const shadow = rule({ name: 'leaks', when: NO_LEAKS, then: 'stop', mode: 'shadow' });
    await record({ store, turns: [calling(browse, mail()), DONE], rules: [shadow] });
    const tried = await tryOn({ store, rules: [shadow] });
    expect(tried.rules).toMatchObject([{ mode: 'shadow', stop: 1, same: 1, dropped: 0 }]);
    const enforced = await tryOn({ store, rules: [rule({ name: 'leaks', when: NO_LEAKS, then: 'stop' })] });
    expect(enforced.rules).toMatchObject([{ mode: 'enforce', stop: 1, same: 0, dropped: 0 }]);
  });

  test('judges an input that a person wrote, and the call again where it began', async () => {
    const store = memory();
    const { agent } = makeAgent({ store, turns: [calling(refund(60), refund(30)), DONE], approval: true });
    const run = await agent.start('go');
    await run.settled();
    await run.editCall('call_0_1', { input: { cents: 50 } });
    await run.approve('call_0_0');
    await run.approve('call_0_1', { input: { cents: 70 } });
    await run.settled();
    const spend = spendOf('refund', ({ cents }) => cents).over(100);
    const { rules } = await tryOn({ store, rules: [spend], approval: true });
    expect(rules).toMatchObject([{ block: 2, same: 0 }]);
    expect(rules[0]?.cases.map(({ place, callId }) => [place, callId])).toEqual([
      ['edit', 'call_0_1'],
      ['edit', 'call_0_1'],
    ]);
  });

  test('counts what a run said where a call began as what is said now where it was made', async () => {
    const store = memory();
    const before = makeAgent({ store, turns: [calling(mail()), DONE], approval: true });
    const run = await before.agent.start('go');
    await run.settled();
    const rules = [never('mail')];
    const after = makeAgent({ store, turns: [calling(mail()), DONE], approval: true, rules });
    const opened = await after.agent.open(run.id);
    await opened.approve('call_0_0');
    await opened.settled();
    const report = await tryOn({ store, rules });
    expect(report.rules).toMatchObject([{ block: 1, same: 1, dropped: 0, cases: [{ place: 'turn' }] }]);
  });

  test('counts the earlier runs of a thread, also those that are not among the runs to judge', async () => {
    const store = memory();
    const earlier = await record({ store, turns: [calling(browse), DONE] });
    const later = await record(
      { store, turns: [calling(browse), DONE, calling(mail()), DONE] },
      'on',
      earlier,
    );
    const perRun = rule({ name: 'per run', when: NO_LEAKS, per: 'run' });
    for (const given of [{}, { runs: [later] }]) {
      const { rules } = await tryOn({ store, rules: [NO_LEAKS, perRun] }, given);
      expect(rules).toMatchObject([
        { block: 1, cases: [{ runId: later }] },
        { name: 'per run', block: 0 },
      ]);
    }
  });

  test('does not count what a fork has copied', async () => {
    const store = memory();
    const { agent } = makeAgent({ store, turns: [calling(browse), calling(mail()), calling(mail()), DONE] });
    const run = await agent.start('go');
    await run.settled();
    const entries = await store.read(run.id);
    const at = entries.filter(({ event }) => event.type === 'tool.settled')[1]?.seq ?? 0;
    const fork = await run.fork({ at });
    await fork.settled();
    const { rules, runs } = await tryOn({ store, rules: [NO_LEAKS] });
    expect(runs).toBe(2);
    expect(rules).toMatchObject([{ block: 3 }]);
    expect(rules[0]?.cases.filter(({ runId }) => runId === fork.id)).toMatchObject([{ callId: 'call_2_0' }]);
  });

  test('asks approval functions, with the history of the call', async () => {
    const store = memory();
    const turns = [calling(refund(5)), calling(refund(500)), DONE];
    await record({ store, turns });
    const { agent } = makeAgent({ store, turns, approval: ({ name }) => name === 'refund' });
    const run = await agent.start('go');
    await run.settled();
    await run.approve('call_0_0');
    await run.settled();
    const { approvals } = await tryOn({
      store,
      approval: ({ history }) =>
        history.length > 0 ? { required: true, by: 'manager', reason: 'the second' } : false,
    });
    expect(approvals.find(one => one.tool === 'refund')).toMatchObject({
      ask: 2,
      same: 0,
      dropped: 1,
      runs: 2,
      asks: [{ by: ['manager'], count: 2 }],
      unjudged: [],
    });
  });

  test('judges a call before its first attempt again, unless it would have been refused', async () => {
    const store = memory();
    await record({ store, turns: [calling(mail(), mail('bob')), DONE], toolConcurrency: 1 });
    const after = rule({
      name: 'after',
      when: ({ history }) => history.some(({ outcome }) => outcome === 'done'),
    });
    const alone = await tryOn({ store, rules: [after] });
    expect(alone.rules).toMatchObject([{ block: 1, cases: [{ place: 'start', callId: 'call_0_1' }] }]);
    const both = await tryOn({ store, rules: [never('mail'), after] });
    expect(both.rules).toMatchObject([{ block: 2 }, { block: 0 }]);
  });

  test('takes the tags that tools have now, also of calls of earlier runs', async () => {
    const store = memory();
    const earlier = await record({ store, turns: [calling(browse), DONE] });
    await record({ store, turns: [DONE, DONE, calling(browse), calling(mail()), DONE] }, 'on', earlier);
    const tools = makeAgent({ store }).agent.options.tools ?? [];
    const untagged = tools.map(one => ('name' in one && one.name === 'browse' ? { ...one, tags: [] } : one));
    expect((await tryOn({ store, rules: [NO_LEAKS] })).rules).toMatchObject([{ block: 1 }]);
    expect((await tryOn({ store, rules: [NO_LEAKS], tools: untagged })).rules).toMatchObject([{ block: 0 }]);
  });

  test('counts what a provider ran in the same turn', async () => {
    const [from, store] = [memory(), memory()];
    const runId = await record({ store: from, turns: [calling(mail()), DONE] });
    const [started, ...rest] = (await from.read(runId)).map(({ event }) => event);
    if (started?.type !== 'run.started') throw new Error('no start');
    const searched = {
      type: 'provider_item',
      kind: 'web_search_call',
      opaque: { provider: 'x', data: {} },
    } as const;
    const events = rest.map(event =>
      event.type === 'turn.completed' ? { ...event, items: [searched, ...event.items] } : event,
    );
    await store.create(started, undefined, {
      events,
      status: 'finished',
      progress: makeProgress('finished'),
    });
    const { rules } = await tryOn({ store, rules: [never('mail').after('web_search_call')] });
    expect(rules).toMatchObject([{ block: 1, cases: [{ place: 'turn' }] }]);
  });

  test('says what it cannot judge, and why', async () => {
    const store = memory();
    const turns = [calling(refund(5)), calling(mail()), DONE];
    const runId = await record({ store, turns });
    const given = {
      store,
      approval: () => {
        throw new Error('no database');
      },
      rules: [
        rule({ name: 'broken', when: () => fail() }),
        spendOf('refund', () => Number.NaN).over(1),
        never('mail'),
      ],
      tools: [],
    };
    const without = await tryOn(given);
    expect(without.calls).toBe(0);
    expect(without.unjudged).toMatchObject([
      { code: 'tool-missing', tool: 'refund', count: 1, runId },
      { code: 'tool-missing', tool: 'mail', count: 1 },
    ]);
    const { tools: _, ...others } = given;
    const report = await tryOn(others);
    expect(report.rules).toMatchObject([
      {
        name: 'broken',
        ask: 0,
        unjudged: [{ code: 'failed', count: 2, message: expect.stringContaining('no connection') }],
      },
      { ask: 0, unjudged: [{ code: 'failed', count: 1 }] },
      { block: 1, unjudged: [] },
    ]);
    expect(report.approvals.find(one => one.tool === 'mail')).toMatchObject({
      ask: 0,
      unjudged: [{ code: 'failed', message: expect.stringContaining('no database') }],
    });
    const stricter = tool({
      name: 'refund',
      description: 'r',
      input: z.object({ euros: z.number() }),
      run: fail,
    });
    const { unjudged } = await tryOn({ store, tools: [stricter], rules: [never('refund')] });
    expect(unjudged.map(({ code, tool: name }) => [code, name])).toEqual([
      ['input-invalid', 'refund'],
      ['tool-missing', 'mail'],
    ]);
  });

  test('does not count a rule that reads what was redacted, and counts those that do not', async () => {
    const store = memory();
    const runId = await record({ store, turns: [calling(refund(5)), calling(refund(6), mail()), DONE] });
    const [made] = await findEntries(store, runId, ({ event }) => event.type === 'turn.completed');
    await store.redact(runId, { paths: [`/${made?.seq}/calls/0/input/cents`] });
    await record(
      { store, turns: [DONE, DONE, DONE, calling(refund(7)), calling(refund(8)), DONE] },
      'on',
      runId,
    );
    const report = await tryOn({
      store,
      approval: ({ input }) => Object(input).cents > 1,
      rules: [
        spendOf('refund', ({ cents }) => cents).over(1),
        atMost(1).of('refund'),
        rule({
          name: 'reads',
          when: ({ history }) => history.some(({ input }) => Object(input).cents === 1),
        }),
        rule({ name: 'counts', when: ({ history }) => history.length > 5 }),
      ],
    });
    expect(report.rules.map(({ block, unjudged }) => [block, unjudged.map(({ count }) => count)])).toEqual([
      [0, [4]],
      [3, []],
      [0, [4]],
      [0, []],
    ]);
    expect(report.approvals.find(one => one.tool === 'refund')).toMatchObject({
      ask: 3,
      unjudged: [{ code: 'redacted', count: 1 }],
    });
  });

  test('does not count rules over a thread whose earlier runs are not here', async () => {
    const [from, store] = [memory(), memory()];
    const turns = [calling(browse), DONE, calling(mail()), DONE];
    const earlier = await record({ store: from, turns });
    const later = await record({ store: from, turns }, 'on', earlier);
    const [started, ...rest] = (await from.read(later)).map(({ event }) => event);
    if (started?.type !== 'run.started') throw new Error('no start');
    const { agent } = makeAgent({ store: from });
    const snapshot = (await agent.open(earlier)).snapshot();
    await makeAgent({ store }).agent.restore(snapshot);
    await store.create(started, undefined, {
      events: rest,
      status: 'finished',
      progress: makeProgress('finished'),
    });
    const report = await tryOn({
      store,
      rules: [NO_LEAKS, needs('a').for('mail'), never('browse').after('mail')],
    });
    expect(report.skipped).toMatchObject([{ code: 'refused', count: 1, runId: earlier }]);
    expect(report.rules).toMatchObject([
      { block: 0, unjudged: [{ code: 'history-missing', count: 1, runId: later }] },
      { ask: 1, unjudged: [] },
      { block: 0, unjudged: [] },
    ]);
  });

  test('judges the runs of sub-agents by their own rules', async () => {
    const store = memory();
    const look = tool({
      name: 'look',
      description: 'l',
      input: z.object({}),
      sideEffect: 'none',
      run: () => 'x',
    });
    const clerk = (rules: AgentOptions['rules'] = []) =>
      createAgent({
        name: 'clerk',
        model: scripted([calling({ name: 'look', arguments: {} }), DONE]),
        tools: [look],
        rules,
      }).asTool({ name: 'ask_clerk', description: 'c' });
    const turns = [calling({ name: 'ask_clerk', arguments: { input: 'x' } }), DONE];
    await record({ store, turns, tools: [clerk()] });
    const report = await tryOn({ store, tools: [clerk([never('look')])], rules: [never('ask_clerk')] });
    expect(report.runs).toBe(2);
    expect(report.rules).toMatchObject([
      { agent: 'desk', name: 'never ask_clerk', block: 1 },
      { agent: 'clerk', name: 'never look', block: 1 },
    ]);
  });

  test('takes only the runs that are asked for, and ends early with what was found', async () => {
    const store = memory();
    const turns = [calling(mail()), DONE];
    const ids = [
      await record({ store, turns }),
      await record({ store, turns }),
      await record({ store, turns }),
    ];
    const rules = [never('mail')];
    expect(await tryOn({ store, rules }, { since: Date.now() + 60_000 })).toMatchObject({ runs: 0 });
    expect(await tryOn({ store, rules }, { labels: { user: '7' } })).toMatchObject({ runs: 0 });
    expect(await tryOn({ store, rules }, { status: 'finished', cases: 2 })).toMatchObject({
      runs: 3,
      rules: [{ block: 3, cases: [{}, {}] }],
    });
    const stop = new AbortController();
    const seen: [number, number][] = [];
    const report = await tryOn(
      { store, rules },
      {
        signal: stop.signal,
        onProgress: (done, all) => {
          seen.push([done, all]);
          if (done === 1) stop.abort();
        },
      },
    );
    expect(seen).toEqual([
      [0, 3],
      [1, 3],
    ]);
    expect(report).toMatchObject({ complete: false, rules: [{ block: 1, cases: [{ runId: ids[0] }] }] });
    await expect(tryOn({ store }, { runs: ['run_x'] })).rejects.toThrow('has no run run_x');
    await expect(tryOn({ store, name: 'other' }, { runs: ids })).rejects.toThrow('belongs to agent "desk"');
    await expect(tryOn({ store }, { runs: ids, since: 1 })).rejects.toThrow('exclude each other');
    await expect(tryOn({ store }, { cases: -1 })).rejects.toThrow('cases: expected');
    await expect(tryOn({ store }, Object({ label: {} }))).rejects.toThrow('did you mean "labels"');
  });

  test('ends early while an approval function answers', async () => {
    const store = memory();
    await record({ store, turns: [calling(mail()), DONE] });
    const stop = new AbortController();
    const approval = () => {
      queueMicrotask(() => stop.abort());
      return new Promise<boolean>(() => {});
    };
    const report = await tryOn({ store, approval }, { signal: stop.signal });
    expect(report).toMatchObject({ complete: false, runs: 0 });
  });
});

const RULES: readonly Rule[] = [
  rule({ when: NO_LEAKS }),
  rule({ name: 'asks', when: NO_LEAKS.asks('security') }),
  rule({ when: atMost(1).of('mail'), mode: 'shadow' }),
  rule({ when: atMost(2).of('refund'), then: 'ask', per: 'run' }),
  rule({
    when: spendOf('refund', ({ cents }) => cents)
      .over(5)
      .asks('manager', 'security'),
  }),
  rule({ when: first('browse').then('mail'), then: 'ask' }),
  rule({ name: 'stops', when: spendOf('refund', ({ cents }) => cents).over(8), then: 'stop' }),
  rule({
    name: 'function',
    when: ({ call, history }) =>
      history.length > 2 && call.name === 'refund'
        ? 'block'
        : call.name === 'mail' && history.some(({ outcome }) => outcome === 'failed'),
    then: { type: 'ask', by: 'security' },
  }),
  rule({ name: 'shadow', when: ({ history }) => history.length % 2 === 1, mode: 'shadow', then: 'stop' }),
  rule({ name: 'nobody', when: needs('nobody').for('refund').and(atMost(1).of('refund')) }),
];

const someCall: fc.Arbitrary<Call> = fc.oneof(
  fc.constant(browse),
  fc.constantFrom('ada', 'nobody').map(mail),
  fc.integer({ min: 0, max: 4 }).map(refund),
);
const someRun = fc.array(fc.array(someCall, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 3 });
const recorded = fc.record({
  rules: fc.subarray([...RULES], { minLength: 1 }),
  runs: fc.array(someRun, { minLength: 1, maxLength: 3 }),
  continues: fc.boolean(),
  asks: fc.boolean(),
  decisions: fc.array(fc.constantFrom('approve', 'reject', 'edit', 'approve edited'), {
    minLength: 4,
    maxLength: 4,
  }),
  cents: fc.integer({ min: 0, max: 9 }),
});

describe.each(['memory', 'sqlite'])('what the rules said in runs of a store: %s', kind => {
  test('is what a backtest by the same rules says', { timeout: 120_000 }, async () => {
    let verdicts = 0;
    await fc.assert(
      fc.asyncProperty(recorded, async ({ rules, runs, continues, asks, decisions, cents }) => {
        const store = kind === 'memory' ? memory() : sqlite(`${makeTemporaryFolder('backtest')}/runs.db`);
        const approval: Options['approval'] = ({ name, history }) =>
          asks && name === 'refund' && history.length < 2;
        const made: string[] = [];
        for (const calls of runs) {
          const turns = [...calls.map(some => calling(...some)), DONE, DONE];
          const offset = continues ? await countTurns(store, made) : 0;
          const script = [...Array.from({ length: offset }, () => DONE), ...turns];
          const { agent } = makeAgent({ store, rules, approval, turns: script });
          const last = continues ? made.at(-1) : undefined;
          const run = await agent.start('go', last === undefined ? {} : { continues: last });
          await decideAll(run, decisions, cents);
          made.push(run.id);
        }
        const report = await tryOn({ store, rules, approval });
        const said = await countVerdicts(store, made);
        for (const { name, ask, block, stop, same, dropped, unjudged } of report.rules) {
          const counted = { name, ask, block, stop, same, dropped, unjudged };
          const of = (verdict: string) => said.get(`${name} ${verdict}`) ?? 0;
          const expected = { ask: of('ask'), block: of('block'), stop: of('stop') };
          const all = expected.ask + expected.block + expected.stop;
          verdicts += all;
          expect(counted).toEqual({ name, ...expected, same: all, dropped: 0, unjudged: [] });
        }
        for (const { ask, same, dropped, unjudged } of report.approvals) {
          expect(same).toBeLessThanOrEqual(ask);
          expect({ dropped, unjudged }).toEqual({ dropped: 0, unjudged: [] });
        }
        await store.close();
      }),
      { numRuns: randomCases(kind === 'memory' ? 60 : 20) },
    );
    expect(verdicts).toBeGreaterThan(50);
  });
});

type StartedRun = Awaited<ReturnType<ReturnType<typeof makeAgent>['agent']['start']>>;

const PERSON = { as: { name: 'ada', groups: ['security', 'manager', 'nobody'] } };

/** Decides whatever the run asks, and edits some of it first. */
async function decideAll(run: StartedRun, decisions: readonly string[], cents: number): Promise<void> {
  for (let index = 0; index < 12; index += 1) {
    const settled = await run.settled();
    const [open] = settled.status === 'waiting' ? settled.approvals : [];
    if (open === undefined) return;
    const { callId, name } = open;
    const input = name === 'refund' ? { cents } : open.input;
    const decision = decisions[index % decisions.length];
    if (decision === 'edit') await run.editCall(callId, { input, ...PERSON });
    const edited = decision === 'approve edited' ? { input } : {};
    const { accepted } =
      decision === 'reject' ? { accepted: false } : await run.approve(callId, { ...edited, ...PERSON });
    if (!accepted) await run.reject(callId, PERSON);
  }
  await run.cancel();
  await run.settled();
}

async function countTurns(store: Store, runs: readonly string[]): Promise<number> {
  const journals = await Promise.all(runs.map(runId => store.read(runId)));
  return journals.flat().filter(({ event }) => event.type === 'turn.completed').length;
}

/** By rule and verdict, how often journals have it. */
async function countVerdicts(store: Store, runs: readonly string[]): Promise<ReadonlyMap<string, number>> {
  const said = new Map<string, number>();
  const add = (verdicts: readonly CallVerdict[] = []) => {
    for (const { rule: name, verdict } of verdicts)
      said.set(`${name} ${verdict}`, (said.get(`${name} ${verdict}`) ?? 0) + 1);
  };
  for (const runId of runs)
    for (const { event } of await store.read(runId)) {
      if (event.type === 'turn.completed') for (const call of event.calls) add(call.verdicts);
      if (event.type === 'call.edited') add(event.call.verdicts);
      if (event.type === 'call.judged') add(event.verdicts);
      if (event.type === 'approval.decided' && event.decision.type === 'approve')
        add(event.decision.verdicts);
    }
  return said;
}

async function findEntries(
  store: Store,
  runId: string,
  isWanted: (entry: JournalEntry) => boolean,
): Promise<JournalEntry[]> {
  return (await store.read(runId)).filter(isWanted);
}

function fail(): never {
  throw new Error('no connection');
}
