import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import { loadRun } from '../../../engine/journal/load-run.ts';
import type { JournalMigration } from '../../../engine/versions/migrate-journal.ts';
import { chartIdentity } from '../../../machines/snapshot.ts';
import { statePath } from '../../../machines/step.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { NO_REST, unknownProgress } from '../../../stores/run-record.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, eventsOf, makeTracedTool } from '../../support/engine/agents.ts';
import { watchStore } from '../../support/engine/watched-store.ts';
import {
  FROM_OLDER,
  OLD,
  OLDER,
  oldEvents,
  put,
  storeOfOld,
  written,
} from '../../support/versions/old-journals.ts';

const CHART = chartIdentity();

function agentOn(store: Store, options: Partial<AgentOptions> = {}) {
  const host = new ManualHost({ now: Date.UTC(2026, 1, 1), name: 'new_' });
  const turns = [calls('put', 'pay'), { text: 'Paid.' }];
  const keys: string[] = [];
  const tools = [
    makeTracedTool('put', keys, { sideEffect: 'idempotent' }),
    makeTracedTool('pay', keys),
    makeTracedTool('read', keys, { sideEffect: 'none' }),
  ];
  const migrations = [FROM_OLDER];
  const model = scripted(turns);
  const agent = createAgent({ name: 'golden', host, store, model, tools, migrations, ...options });
  return { agent, host, keys };
}

async function countRuns(store: Store): Promise<number> {
  return (await store.list()).runs.length;
}

/** A journal of an older vocabulary: `turn.asked` in place of `turn.completed`. */
function ancient(): RunEvent[] {
  const [started, ...rest] = written('in-doubt', {
    chart: { version: OLDER.version - 1, hash: 'of long ago' },
  });
  const renamed = rest.map(event =>
    event.type === 'turn.completed' ? { ...event, type: 'turn.asked' } : event,
  );
  return [started, ...renamed] as RunEvent[];
}

/** A store with events that no current program writes. */
function storeOfWords(events: readonly RunEvent[]): Store {
  const store = watchStore(memory(), {});
  const [started] = events;
  if (started?.type !== 'run.started') throw new Error('a journal begins with run.started');
  const { create, get, read } = store;
  const isHere = (runId: string) => runId === started.runId;
  const record = {
    runId: started.runId,
    agent: started.agent.name,
    status: 'waiting' as const,
    title: '',
    labels: {},
    ...unknownProgress('waiting'),
    createdAt: started.at,
    updatedAt: started.at,
    seq: events.length,
    epoch: 0,
    redactions: 0,
  };
  // The journal is not in the store: nothing there can be compared with it.
  store.create = async (event, claim, { source: _, ...rest } = NO_REST) => await create(event, claim, rest);
  store.get = async runId => (isHere(runId) ? record : await get(runId));
  store.read = async (runId, after) => {
    if (isHere(runId)) throw new Error('entry 4 is no event this version knows');
    return await read(runId, after);
  };
  store.readJson = async (runId, limit) =>
    isHere(runId)
      ? events.slice(0, limit).map((event, index) => ({ seq: index + 1, event: event as JsonObject }))
      : (await read(runId)).map(({ seq, event }) => ({ seq, event: event as JsonObject }));
  return store;
}

const NAMED: JournalMigration = {
  from: { chart: OLDER.version - 1 },
  to: { chart: OLDER.version },
  migrate: events =>
    events.map(event => (event.type === 'turn.asked' ? { ...event, type: 'turn.completed' } : event)),
};

describe('an old run that is migrated', () => {
  test.each([...OLD.keys()])('%s continues from its state, in a new run', async name => {
    const store = await storeOfOld('finished', ...(name === 'finished' ? [] : [name]));
    const before = JSON.stringify([await store.get(name), await store.read(name)]);
    const { agent } = agentOn(store);
    const run = await agent.migrate(name);
    expect(run.id).toBe(`${name}_m2`);
    expect(JSON.stringify([await store.get(name), await store.read(name)])).toBe(before);
    const [started] = await eventsOf(store, run.id);
    expect(started).toMatchObject({ chart: CHART, forkOf: { runId: name, at: oldEvents(name).length } });
    const { path = '' } = OLD.get(name)?.entries.at(-1) ?? {};
    const { state } = await loadRun(store, run.id);
    expect(statePath(state)).toBe(name === 'under-way' ? 'resting.inDoubt' : path);
    expect(await store.get(run.id)).toMatchObject({ agent: 'golden' });
    expect(await agent.check(run.id)).toMatchObject({ opens: true });
  });

  test('has started, unsettled calls in doubt with their keys, and runs nothing by itself', async () => {
    const store = await storeOfOld('under-way');
    const { agent, host, keys } = agentOn(store);
    const run = await agent.migrate('under-way');
    const settled = await host.settle(run.settled());
    expect(settled).toMatchObject({
      status: 'waiting',
      doubts: [{ callId: 'call_0_0' }, { callId: 'call_0_1' }],
    });
    expect(keys).toEqual([]);
    await run.resolve('call_0_0', { retry: true });
    await run.resolve('call_0_1', { happened: true, output: 'paid' });
    expect(await host.settle(run.settled())).toMatchObject({ status: 'finished', text: 'Paid.' });
    expect(keys).toEqual(['run_p1_1:1:call_0_0']);
  });

  test('that waited for a person can be decided and finishes', async () => {
    const store = await storeOfOld('waits-for-approval');
    const { agent, host, keys } = agentOn(store);
    const run = await agent.migrate('waits-for-approval');
    await run.reject('call_0_1', { reason: 'too late' });
    expect(await host.settle(run.settled())).toMatchObject({ status: 'finished', text: 'Paid.' });
    expect(keys).toEqual([]);
  });

  test('migrates the runs it continues, once', async () => {
    const store = await storeOfOld('finished', 'continued');
    const { agent, host } = agentOn(store, {
      model: scripted(['One.', 'Two.', 'And on.'].map(text => ({ text }))),
    });
    const run = await agent.migrate('continued');
    expect((await store.chain(run.id)).map(({ runId }) => runId)).toEqual(['finished_m2', 'continued_m2']);
    await expect(agent.migrate('finished')).rejects.toMatchObject({ code: 'run-exists' });
    const next = await agent.start('go on', { continues: run.id });
    expect(await host.settle(next.settled())).toMatchObject({ status: 'finished', text: 'And on.' });
  });

  test('is migrated once by concurrent callers, unless another id is given', async () => {
    const store = await storeOfOld('in-doubt');
    const { agent } = agentOn(store);
    const tried = await Promise.allSettled([1, 2, 3].map(() => agent.migrate('in-doubt')));
    expect(tried.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    const refused = { code: 'run-exists', details: { migratedTo: 'in-doubt_m2' } };
    await expect(agent.migrate('in-doubt')).rejects.toMatchObject(refused);
    expect(await agent.check('in-doubt')).toMatchObject({ migratedTo: 'in-doubt_m2' });
    await expect(agent.open('in-doubt')).rejects.toThrow('It was already migrated: use run in-doubt_m2.');
    expect((await agent.migrate('in-doubt', { as: 'again' })).id).toBe('again');
  });

  test('is refused while another process drives it', async () => {
    const store = await storeOfOld('under-way');
    const { agent, host } = agentOn(store);
    const owner = { id: 'other', host: 'elsewhere', pid: 7, startedAt: 'today' };
    await store.claim('under-way', { owner, now: host.now(), leaseMs: 10_000, isDead: () => false });
    await expect(agent.migrate('under-way')).rejects.toMatchObject({ code: 'lease-held' });
    expect(await countRuns(store)).toBe(1);
    await host.advance(10_001);
    expect((await agent.migrate('under-way')).id).toBe('under-way_m2');
  });

  test('is refused when it can be opened as it is', async () => {
    const store = memory();
    await put(store, written('in-doubt', {}), 'waiting');
    await expect(agentOn(store).agent.migrate('in-doubt')).rejects.toMatchObject({ code: 'refused' });
    await expect(agentOn(store).agent.migrate('nowhere')).rejects.toMatchObject({ code: 'run-unknown' });
  });
});

describe('migrations of an agent', () => {
  test('are applied step by step up to this version, also over unknown event types', async () => {
    const store = storeOfWords(ancient());
    const { agent, host } = agentOn(store, { migrations: [FROM_OLDER, NAMED] });
    const report = await agent.check('in-doubt');
    expect(report).toMatchObject({ verdict: 'needs-migration' });
    expect(report.advice).toContain("agent.migrate('in-doubt')");
    const run = await agent.migrate('in-doubt');
    expect(await host.settle(run.settled())).toMatchObject({ doubts: [{ callId: 'call_0_0' }] });
    expect((await eventsOf(store, run.id)).map(({ type }) => type)).toContain('turn.completed');
  });

  test('that end before this version are refused, with advice to write the missing one', async () => {
    const store = storeOfWords(ancient());
    const { agent } = agentOn(store, { migrations: [NAMED] });
    await expect(agent.migrate('in-doubt')).rejects.toMatchObject({
      code: 'chart-mismatch',
      details: { advice: expect.stringContaining('Write a migration') },
    });
    expect(await store.get('in-doubt_m2')).toBeUndefined();
  });

  test('that form a cycle are applied once each', async () => {
    const store = storeOfWords(ancient());
    const circle = [NAMED, { ...NAMED, from: NAMED.to, to: NAMED.from }];
    const { agent } = agentOn(store, { migrations: circle });
    await expect(agent.migrate('in-doubt')).rejects.toMatchObject({ code: 'chart-mismatch' });
  });

  test('do not see claims, and cannot change the old journal', async () => {
    const store = await storeOfOld('in-doubt');
    const seen: unknown[] = [];
    const spoil: JournalMigration = {
      ...FROM_OLDER,
      migrate: events => {
        seen.push(...events.map(({ type }) => type));
        for (const event of events)
          if (event.type === 'run.started') (event.agent as JsonObject).version = 'other';
        return events;
      },
    };
    const { agent } = agentOn(store, { migrations: [spoil] });
    await agent.migrate('in-doubt');
    expect(seen).not.toContain('run.claimed');
    expect(await eventsOf(store, 'in-doubt')).toMatchObject([
      { agent: { version: '1' } },
      ...Array(6).fill({}),
    ]);
  });

  const wrong: [string, (events: readonly JsonObject[]) => unknown, string, string][] = [
    ['omits an event', events => events.toSpliced(2, 2), 'chart-mismatch', 'entry 3'],
    ['omits the start', events => events.slice(1), 'input-invalid', 'entry 1 is calls.started'],
    ['returns nothing', () => undefined, 'input-invalid', 'must return an array'],
    ['returns an empty journal', () => [], 'input-invalid', 'entry 1 is missing'],
    [
      'returns a value that is not an event',
      events => [...events, 'the end'],
      'input-invalid',
      'entry 6 is not an event',
    ],
    [
      'invents an event type',
      events => [...events, { type: 'run.blessed', at: 1 }],
      'input-invalid',
      'run.blessed',
    ],
    [
      'invents a field',
      events => events.map(event => ({ ...event, color: 'red' })),
      'input-invalid',
      'it has the unknown member color',
    ],
    ['starts twice', events => [...events, events[0]], 'chart-mismatch', 'entry 6'],
    [
      'returns a value that JSON cannot represent',
      events => events.map(event => ({ ...event, at: 1n })),
      'input-invalid',
      'entry 1 is not JSON',
    ],
  ];
  test.each(wrong)(
    'a step that %s writes nothing, and the error names the entry',
    async (_, migrate, code, message) => {
      const store = await storeOfOld('in-doubt');
      const step = { ...FROM_OLDER, migrate } as JournalMigration;
      const { agent } = agentOn(store, { migrations: [step] });
      const migrating = agent.migrate('in-doubt');
      await expect(migrating).rejects.toMatchObject({ code });
      await expect(migrating).rejects.toThrow(message);
      expect(await countRuns(store)).toBe(1);
    },
  );

  test('a step that throws writes nothing', async () => {
    const store = await storeOfOld('in-doubt');
    const migrate = () => {
      throw new Error('not these');
    };
    const step = { ...FROM_OLDER, migrate };
    await expect(agentOn(store, { migrations: [step] }).agent.migrate('in-doubt')).rejects.toThrow(
      'not these',
    );
    expect(await countRuns(store)).toBe(1);
  });

  test('a store that fails keeps nothing of the migration, and the next attempt succeeds', async () => {
    const inner = await storeOfOld('in-doubt');
    let fails = true;
    const store = watchStore(inner, {
      beforeAppend: () => {
        if (fails) throw new Error('the disk is full');
      },
    });
    const { agent } = agentOn(store);
    await expect(agent.migrate('in-doubt')).rejects.toThrow('the disk is full');
    expect(await countRuns(inner)).toBe(1);
    fails = false;
    expect((await agent.migrate('in-doubt')).id).toBe('in-doubt_m2');
  });

  test('are refused when they name no version', () => {
    for (const step of [
      {},
      { from: {}, to: { chart: 3 }, migrate: () => [] },
      { from: { chart: 1 }, to: { chart: 2 } },
    ]) {
      const migrations = [step] as unknown as JournalMigration[];
      expect(() => agentOn(memory(), { migrations })).toThrow('migrations[0] is invalid');
    }
  });
});
