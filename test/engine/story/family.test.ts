import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { storyAgentOf } from '../../../agent/sub-agents.ts';
import { loadRunAt } from '../../../engine/journal/load-run.ts';
import type { Run } from '../../../engine/run/run.ts';
import { FamilyStory } from '../../../engine/story/family-story.ts';
import { readStory } from '../../../engine/story/read-story.ts';
import type { StoryEvent, TurnPart } from '../../../engine/story/tell-story.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { hideHtmlComments } from '../../../text/hide-html-comments.ts';
import { calls, makeTool } from '../../support/engine/agents.ts';
import { assertWaiting, makeFamily, PAYING } from '../../support/engine/family.ts';
import { randomCases } from '../../support/sample.ts';

const words = fc.constantFrom('Well.', 'I <!-- secret -->see.', '<!-- all secret -->', 'é漢');
const made = (...names: string[]) =>
  fc.record(
    { text: words, reasoning: words, toolCalls: fc.array(fc.constantFrom(...names), { maxLength: 3 }) },
    { requiredKeys: [] },
  );
const script = (...names: string[]) => fc.array(made(...names), { maxLength: 2 });
const recipe = fc.record({
  top: script('research', 'deputy', 'read', 'pay'),
  deputy: script('research', 'read'),
  researcher: script('read', 'pay', 'fail'),
  finalAnswer: fc.constantFrom('live' as const, 'held' as const),
  answers: fc.array(fc.constantFrom('approve', 'reject', 'answer', 'send', 'cancel'), { maxLength: 6 }),
});
type Recipe = typeof recipe extends fc.Arbitrary<infer Value> ? Value : never;

function play(turns: Recipe['top']): ScriptedTurn[] {
  const played = turns.map(({ toolCalls = [], ...turn }) => ({
    ...turn,
    toolCalls: toolCalls.map(name => ({ name, arguments: { input: 'do it' } })),
  }));
  return [...played, { text: 'The end.' }];
}

function makeAgent({ top, deputy, researcher, finalAnswer }: Recipe, host: ManualHost) {
  const fail = () => {
    throw new Error('no');
  };
  const read = makeTool('read', { sideEffect: 'none' });
  const pay = makeTool('pay', { approval: true });
  const researching = createAgent({
    name: 'researcher',
    textFilters: [hideHtmlComments],
    model: scripted(play(researcher)),
    tools: [read, pay, makeTool('fail', { run: fail })],
  });
  const research = researching.asTool({ name: 'research', description: 'Finds things.' });
  const acting = createAgent({ name: 'deputy', model: scripted(play(deputy)), tools: [read, research] });
  return createAgent({
    name: 'writer',
    store: memory(),
    host,
    finalAnswer,
    textFilters: [hideHtmlComments],
    model: scripted(play(top)),
    tools: [read, pay, research, acting.asTool({ name: 'deputy', description: 'Acts.' })],
  });
}

/** Plays a family to its end, and returns what a reader got of it from the beginning on. */
async function live(given: Recipe) {
  const host = new ManualHost();
  const agent = makeAgent(given, host);
  const run = await agent.start('go');
  const told: StoryEvent[] = [];
  const reading = (async () => {
    for await (const event of run.story({ follow: true, subAgents: 'merged' })) told.push(event);
  })();
  const rest = Array.from({ length: 12 }, () => 'approve' as const);
  let settled = await host.settle(run.settled());
  for (const word of [...given.answers, ...rest]) {
    if (settled.status !== 'waiting') break;
    const [open] = settled.open;
    if (word === 'cancel' || open === undefined || !('callId' in open)) await run.cancel();
    else if (word === 'send') await run.send('And?');
    else if (word === 'reject') await run.reject(open, { reason: 'no' });
    else if (word === 'answer') await run.answer(open, { output: 2 });
    else await run.approve(open);
    settled = await host.settle(run.settled());
  }
  if (settled.status === 'waiting') await run.cancel();
  await host.settle(reading);
  return { host, agent, run, told };
}

/** The events with a seq, by run. A reader numbers the parts of a turn as it got them. */
function lastingByRun(events: readonly StoryEvent[]): Map<string, unknown[]> {
  const byRun = new Map<string, unknown[]>();
  for (const event of events) {
    if (!('seq' in event)) continue;
    const told =
      event.type === 'turn.closed' ? { ...event, parts: event.parts.map(part => unnumbered(part)) } : event;
    byRun.set(event.runId, [...(byRun.get(event.runId) ?? []), told]);
  }
  return byRun;
}

function unnumbered(part: TurnPart): unknown {
  return 'part' in part ? { ...part, part: part.part !== null } : part;
}

async function readAll(story: AsyncIterable<StoryEvent | readonly StoryEvent[]>): Promise<StoryEvent[]> {
  const told: StoryEvent[] = [];
  for await (const value of story) told.push(...[value].flat());
  return told;
}

function follow(run: Run, agent: ReturnType<typeof makeAgent>) {
  return { run, open: (runId: string) => agent.open(runId), follow: true };
}

/** A store that has the entries up to those of `upTo` alone, until the others are revealed. */
function hideAfter(whole: Store, upTo: ReadonlyMap<string, number>) {
  const hidden: Pick<Store, 'get' | 'read'> = {
    get: async runId => (upTo.has(runId) ? await whole.get(runId) : undefined),
    read: async (runId, ...rest) =>
      (await whole.read(runId, ...rest)).filter(({ seq }) => seq <= (upTo.get(runId) ?? 0)),
  };
  const store = { ...whole, ...hidden };
  return { store, reveal: () => void Object.assign(store, { get: whole.get, read: whole.read }) };
}

/** The runs that are looked for in the store from now on. */
function seekIn(store: Store): string[] {
  const sought: string[] = [];
  const get = store.get.bind(store);
  store.get = runId => {
    sought.push(runId);
    return get(runId);
  };
  return sought;
}

describe('the merged story of a family', () => {
  test('is the story of each of its runs, in order', async () => {
    await fc.assert(
      fc.asyncProperty(recipe, async given => {
        const { agent, run, told } = await live(given);
        const { store } = agent;
        for (const [runId, events] of lastingByRun(told)) {
          const record = await store.get(runId);
          const filters = record?.agent === 'deputy' ? [] : [hideHtmlComments];
          const own = lastingByRun(await readStory(store, { runId, filters })).get(runId) ?? [];
          // What a sub-agent's run does after its call has its result, or the top run was cancelled, is not told.
          expect(events).toEqual(own.slice(0, events.length));
          if (runId === run.id || record?.status !== 'cancelled') expect(events).toHaveLength(own.length);
        }
        const opened = told.flatMap(event => (event.type === 'agent.opened' ? [event.runId] : []));
        expect([run.id, ...opened].toSorted()).toEqual([...lastingByRun(told).keys()].toSorted());
      }),
      { numRuns: randomCases(30) },
    );
  });

  test("has a sub-agent's events between the start and the result of its call", async () => {
    await fc.assert(
      fc.asyncProperty(recipe, async given => {
        const { told } = await live(given);
        for (const [at, opened] of told.entries()) {
          if (opened.type !== 'agent.opened') continue;
          const { runId, parent, callId } = opened;
          const isOf = (event: StoryEvent, type: string) =>
            event.type === type && event.runId === parent && 'callId' in event && event.callId === callId;
          expect(told.slice(0, at).some(event => isOf(event, 'call.started'))).toBe(true);
          const first = told.findIndex(event => event.runId === runId);
          const last = told.findLastIndex(event => event.runId === runId);
          const settled = told.findIndex(event => isOf(event, 'call.settled'));
          expect(first).toBe(at);
          if (settled !== -1) expect(last).toBeLessThan(settled);
        }
      }),
      { numRuns: randomCases(20) },
    );
  });

  test('is the same for one who reads it afterwards, from any entry of the top run on', async () => {
    await fc.assert(
      fc.asyncProperty(recipe, async given => {
        const { agent, run, told } = await live(given);
        const whole = lastingByRun(await readAll(run.story({ follow: true, subAgents: 'merged' })));
        for (const [runId, events] of lastingByRun(told))
          expect(whole.get(runId)?.slice(0, events.length)).toEqual(events);
        for (let after = 1; after <= run.durable.seq; after += 1) {
          const rest = await readAll(run.story({ after, follow: true, subAgents: 'merged' }));
          const { calls: known } = (await loadRunAt(agent.store, run.id, after)).state.context;
          const isRead = ({ runId }: { runId: string }) =>
            !told.some(event => {
              if (event.type !== 'agent.opened' || event.runId !== runId || event.parent !== run.id)
                return false;
              return known.find(({ callId }) => callId === event.callId)?.status === 'settled';
            });
          const top = whole.get(run.id)?.filter(event => (event as { seq: number }).seq > after) ?? [];
          const byRun = lastingByRun(rest);
          expect(byRun.get(run.id) ?? []).toEqual(top);
          for (const [runId, events] of byRun) {
            expect(isRead({ runId })).toBe(true);
            if (runId !== run.id) expect(whole.get(runId)?.slice(0, events.length)).toEqual(events);
          }
        }
      }),
      { numRuns: randomCases(10) },
    );
  });

  test('loses and repeats nothing where stored entries end and the following begins', async () => {
    await fc.assert(
      fc.asyncProperty(recipe, fc.nat(1_000), async (given, cut) => {
        const { host, agent, run, told } = await live(given);
        const upTo = new Map<string, number>();
        for (const event of told.slice(0, cut % told.length))
          if ('seq' in event) upTo.set(event.runId, event.seq);
        const { store, reveal } = hideAfter(agent.store, upTo);
        const family = new FamilyStory({ store, host, runId: run.id, agent: storyAgentOf(agent) });
        const stored = await readAll(family.read());
        expect(family.seqs).toEqual(upTo);
        reveal();
        const rest = await readAll(family.follow(follow(run, agent)));
        const both = lastingByRun([...stored, ...rest]);
        for (const [runId, events] of lastingByRun(told))
          expect(both.get(runId)?.slice(0, events.length)).toEqual(events);
      }),
      { numRuns: randomCases(20) },
    );
  });

  test('ends with what the family waits for, and reads nothing of sub-agents that stay apart', async () => {
    const host = new ManualHost();
    const agent = makeFamily(PAYING, { store: memory(), host });
    const run = await agent.start('go');
    const merged = await host.settle(readAll(run.story({ settle: true, subAgents: 'merged' })));
    assertWaiting(await run.settled());
    const apart = await host.settle(readAll(run.story({ settle: true })));
    expect(apart.every(({ runId }) => runId === run.id)).toBe(true);
    expect(lastingByRun(merged).get(run.id)).toEqual(lastingByRun(apart).get(run.id));
    const asked = merged.filter(event => event.type === 'call.asked');
    expect(asked).toMatchObject([{ open: { name: 'pay', kind: 'approval' } }]);
    expect(merged.filter(({ type }) => type === 'agent.opened')).toMatchObject([
      { name: 'researcher', parent: run.id, callId: 'call_0_0' },
    ]);
  });

  test("has the result of a sub-agent's call that gets no run, and looks for none afterwards", async () => {
    const host = new ManualHost();
    const agent = makeFamily(
      {
        script: [calls(['research', { input: 'find it' }], 'pay'), { text: 'told' }],
        parent: { limits: { turns: 1 }, tools: [makeTool('pay', { approval: true })] },
      },
      { store: memory(), host },
    );
    const sought = seekIn(agent.store);
    const run = await agent.start('go');
    const story = run.story({ follow: true, subAgents: 'merged' });
    const reading = readAll(story);
    await host.settle(run.settled());
    sought.length = 0;
    await host.advance(10_000);
    expect(sought.filter(runId => runId !== run.id)).toEqual([]);
    await story.return(undefined);
    expect((await agent.store.list()).runs).toHaveLength(1);
    const settled = (await reading).filter(({ type }) => type === 'call.settled');
    expect(settled).toMatchObject([{ callId: 'call_0_0', isError: true }]);
  });

  test('does not look for a run of the call of a fork, which waits for the run of its original', async () => {
    const host = new ManualHost();
    const agent = makeFamily(PAYING, { store: memory(), host });
    const run = await agent.start('go');
    await host.settle(run.settled());
    const fork = await run.fork({ at: run.durable.seq });
    const sought = seekIn(agent.store);
    const story = fork.story({ after: fork.durable.seq, follow: true, subAgents: 'merged' });
    const reading = readAll(story);
    await host.advance(10_000);
    await story.return(undefined);
    await reading;
    const known = new Set((await agent.store.list()).runs.map(({ runId }) => runId));
    expect(sought.filter(runId => !known.has(runId))).toEqual([]);
  });

  test('has what is stored of a sub-agent whose call gets no result', async () => {
    const host = new ManualHost();
    const wait = makeTool('wait', { run: () => new Promise(() => {}) });
    const agent = makeFamily(
      { child: { tools: [wait] }, childScript: [calls('wait')] },
      { store: memory(), host },
    );
    const run = await agent.start('go');
    await host.idle();
    await host.settle(run.cancel());
    await host.settle(run.settled());
    await host.advance(60_000);
    const told = await host.settle(readAll(run.story({ settle: true, subAgents: 'merged' })));
    const child = told.find(({ type }) => type === 'agent.opened')?.runId ?? '';
    const { seq } = (await agent.store.get(child)) ?? {};
    expect(lastingByRun(told).get(child)?.at(-1)).toMatchObject({ seq, settled: { status: 'cancelled' } });
    expect(told.some(({ type }) => type === 'call.settled')).toBe(false);
  });

  test('ends at once for a reader who leaves while nothing happens', async () => {
    const host = new ManualHost();
    const agent = makeFamily(PAYING, { store: memory(), host });
    const run = await agent.start('go');
    await host.settle(run.settled());
    const story = run.story({ follow: true, subAgents: 'merged' });
    const reading = readAll(story);
    await host.idle();
    await story.return(undefined);
    expect((await reading).at(-1)).toMatchObject({ type: 'settled' });
  });
});
