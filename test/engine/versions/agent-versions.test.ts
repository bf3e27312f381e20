import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import type { JournalMigration } from '../../../engine/versions/migrate-journal.ts';
import { digestTool } from '../../../protocol/content/digest.ts';
import type { Store } from '../../../protocol/store.ts';
import type { Tool, ToolCallContext, ToolSource } from '../../../protocol/tool.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { tool } from '../../../tools/tool.ts';
import { calls, clientTool, eventsOf, makeTool, makeTracedTool } from '../../support/engine/agents.ts';
import { watchStore } from '../../support/engine/watched-store.ts';

type Change = Partial<AgentOptions> & { turns?: ScriptedTurn[] };

function agentOn(store: Store, { turns = [{ text: 'Done.' }], ...options }: Change, host = new ManualHost()) {
  const agent = createAgent({ name: 'a', version: '1', host, store, model: scripted(turns), ...options });
  return { agent, host };
}

const READ = makeTool('read', { sideEffect: 'none' });
const PAY = makeTool('pay', { approval: true });

/** A run that waits for approval of `pay`. */
async function waiting(change: Change = {}) {
  const store = memory();
  const turns = [calls('read', 'pay'), { text: 'Done.' }];
  const { agent, host } = agentOn(store, { turns, tools: [READ, PAY], ...change });
  const run = await agent.start('pay');
  await host.settle(run.settled());
  return { store, turns, runId: run.id, host };
}

describe('the start of a run', () => {
  test('records the digests of its tools by name, including those of a server', async () => {
    const store = memory();
    const server: ToolSource = { connect: async () => [PAY], close: async () => {} };
    const { agent, host } = agentOn(store, { tools: [READ, server] });
    const run = await agent.start('go');
    await host.settle(run.settled());
    const [started] = await eventsOf(store, run.id);
    expect(started).toMatchObject({
      agent: { name: 'a', version: '1' },
      tools: [
        { name: 'pay', digest: digestTool(PAY) },
        { name: 'read', digest: digestTool(READ) },
      ],
    });
  });

  test('for live services has the digests of all tools, or none when a server is not connected', () => {
    const server: ToolSource = { connect: async () => [PAY], close: async () => {} };
    const alone = agentOn(memory(), { tools: [READ] }).agent.input('go');
    expect(alone.tools).toEqual([{ name: 'read', digest: digestTool(READ) }]);
    expect(agentOn(memory(), { tools: [READ, server] }).agent.input('go')).not.toHaveProperty('tools');
  });
});

describe('the digest of a tool', () => {
  const base = {
    name: 't',
    description: 'd',
    input: z.object({ a: z.string() }),
    sideEffect: 'none' as const,
  };
  const digest = (change: object) => digestTool(tool({ ...base, run: () => 1, ...change }) as Tool);

  test('is independent of functions and options that the model does not see', () => {
    expect(digest({})).toBe(digest({ run: () => 2, retries: 3, timeoutMs: 5, approval: true }));
    expect(digest({})).toMatch(/^[0-9a-f]{16}$/);
  });

  test.each([
    ['its name', { name: 'u' }],
    ['its description', { description: 'e' }],
    ['its input', { input: z.object({ a: z.string().optional() }) }],
    ['its side effect', { sideEffect: 'idempotent' }],
    ['where it runs', { run: undefined }],
    ['its reconcile function', { reconcile: () => ({ unknown: true }) }],
  ])('changes with %s', (_, change) => {
    expect(digest(change)).not.toBe(digest({}));
  });
});

describe('a run that is opened with another agent', () => {
  test('of equal configuration is the same', async () => {
    const { store, turns, runId } = await waiting();
    const { agent } = agentOn(store, { turns, tools: [READ, PAY] });
    expect(await agent.check(runId)).toEqual({ runId, verdict: 'same', opens: true, differences: [] });
  });

  test.each<[string, Change, object]>([
    ['another version', { version: '2' }, { what: 'agent', name: 'version', was: '1', is: '2' }],
    ['no version', { version: undefined as never }, { what: 'agent', name: 'version', was: '1', is: null }],
    ['an additional tool', { tools: [READ, PAY, makeTool('new')] }, { what: 'tool', name: 'new', was: null }],
    ['one tool less, without open calls', { tools: [PAY] }, { what: 'tool', name: 'read', is: null }],
    [
      'a tool with another description',
      { tools: [makeTool('read', { sideEffect: 'none', description: 'Reads.' }), PAY] },
      { what: 'tool', name: 'read' },
    ],
    [
      'an additional model',
      { model: [scripted([]), scripted([{ text: 'x' }])] },
      { what: 'model', name: '2', was: null, is: 'scripted:script' },
    ],
  ])('that has %s is compatible, and the report names the difference', async (_, change, difference) => {
    const { store, turns, runId } = await waiting();
    const { agent } = agentOn(store, { turns, tools: [READ, PAY], ...change });
    const report = await agent.check(runId);
    expect(report).toMatchObject({ verdict: 'compatible', opens: true });
    expect(report.differences).toHaveLength(1);
    expect(report.differences[0]).toMatchObject(difference);
    expect(report).not.toHaveProperty('reason');
  });

  test('of another name is refused, and the report names the owner', async () => {
    const { store, runId } = await waiting();
    const { agent } = agentOn(store, { name: 'b', tools: [READ, PAY] });
    const report = await agent.check(runId);
    expect(report).toMatchObject({ verdict: 'refused', opens: false });
    expect(report.differences).toEqual([expect.objectContaining({ name: 'name', was: 'a', is: 'b' })]);
    expect(report.advice).toContain('Open it with agent "a"');
  });

  test.each<[string, Tool[], string]>([
    ['has lost its tool', [READ], 'cannot run'],
    ['has become a client call', [READ, clientTool('pay', { approval: true })], 'cannot run'],
    [
      'has another input schema',
      [READ, makeTool('pay', { input: z.object({ cents: z.number() }) as never })],
      'valid',
    ],
    ['has another side effect', [READ, makeTool('pay', { sideEffect: 'idempotent' })], 'stricter'],
  ])('whose open call %s needs a migration, and can still be opened', async (_, tools, effect) => {
    const { store, turns, runId, host } = await waiting();
    const { agent } = agentOn(store, { turns, tools }, host);
    const report = await agent.check(runId);
    expect(report).toMatchObject({ verdict: 'needs-migration', opens: true });
    expect(report.reason).toContain('pay');
    expect(report.differences.map(difference => difference.effect).join('\n')).toContain(effect);
    expect(report.advice).toContain('createAgent({ migrations');
    const run = await agent.open(runId);
    expect(await run.settled()).toMatchObject({ status: 'waiting', approvals: [{ callId: 'call_0_1' }] });
    expect(await run.reject('call_0_1')).toEqual({ accepted: true });
    expect(await host.settle(run.settled())).toMatchObject({ status: 'finished' });
    expect(await agent.check(runId)).toMatchObject({ verdict: 'compatible' });
  });

  test('can be cancelled without its tools', async () => {
    const { store, turns, runId } = await waiting();
    const { agent } = agentOn(store, { turns, tools: [] });
    const run = await agent.open(runId);
    expect(await run.cancel()).toEqual({ accepted: true });
    expect(await agent.check(runId)).toMatchObject({ verdict: 'compatible', opens: true });
  });

  test('does not need the tool of a call that the client runs', async () => {
    const tools = [clientTool('show')];
    const { store, turns, runId } = await waiting({ turns: [calls('show')], tools });
    expect(await agentOn(store, { turns }).agent.check(runId)).toMatchObject({ verdict: 'compatible' });
  });
});

describe('an approved call whose tool', () => {
  async function approveWith(tools: Tool[]) {
    const { store, turns, runId, host } = await waiting();
    const run = await agentOn(store, { turns, tools }, host).agent.open(runId);
    await run.approve('call_0_1');
    return await host.settle(run.settled());
  }

  test('was removed has an error result, and nothing runs', async () => {
    expect(await approveWith([READ])).toMatchObject({
      status: 'finished',
      results: [{}, { isError: true, output: 'Not run: The agent no longer has a tool "pay".' }],
    });
  });

  test('has another input schema now has an error result, and does not run', async () => {
    const keys: string[] = [];
    const pay = makeTracedTool('pay', keys, { input: z.object({ cents: z.number() }) as never });
    expect(await approveWith([READ, pay])).toMatchObject({
      status: 'finished',
      results: [
        {},
        { isError: true, output: expect.stringContaining('Not run: The arguments are not valid') },
      ],
    });
    expect(keys).toEqual([]);
  });
});

describe('an approved call of a tool that a server defines', () => {
  const served = (description: string) => {
    const pay = makeTool('pay', { approval: true, description });
    return { ...pay, origin: { label: 'bank', tool: { name: 'pay', inputSchema: pay.inputSchema } } };
  };

  test('does not run, and a check says so, once the server defines the tool otherwise', async () => {
    const { store, turns, runId, host } = await waiting({ tools: [READ, served('Pays.')] });
    const { agent } = agentOn(store, { turns, tools: [READ, served('Pays anyone.')] }, host);
    const [was, is] = [digestTool(served('Pays.')), digestTool(served('Pays anyone.'))];
    const report = await agent.check(runId);
    expect(report).toMatchObject({ verdict: 'needs-migration', opens: true });
    expect(report.differences).toContainEqual({
      what: 'tool',
      name: 'pay',
      was,
      is,
      effect:
        'call call_0_1: its server has changed its definition: it does not run and gets an error as its result',
    });
    const run = await agent.open(runId);
    await run.approve('call_0_1');
    const { results } = (await host.settle(run.settled())) as { results?: readonly object[] };
    expect(results?.[1]).toMatchObject({
      isError: true,
      output: expect.stringContaining('Not run: The server of "pay" has changed its definition.'),
    });
  });

  test('runs once a person has edited it, who saw the tool as it is', async () => {
    const { store, turns, runId, host } = await waiting({ tools: [READ, served('Pays.')] });
    const { agent } = agentOn(store, { turns, tools: [READ, served('Pays anyone.')] }, host);
    const run = await agent.open(runId);
    const edited = await run.editCall('call_0_1', { input: { input: 'less' } });
    expect(edited).toEqual({ accepted: true });
    await run.approve('call_0_1');
    const { results } = (await host.settle(run.settled())) as { results?: readonly object[] };
    expect(results?.[1]).toMatchObject({ isError: false });
  });
});

describe('an interrupted call whose tool', () => {
  /** A process dies in the call of `act`; the next process has `after` in place of the tool. */
  async function takeOver(
    before: Parameters<typeof makeTool>[1],
    after: (keys: string[]) => Tool,
    died = 'tool.after',
  ) {
    const shared = memory();
    const turns = [calls('act'), { text: 'Done.' }];
    const keys: string[] = [];
    let over = false;
    const store = watchStore(shared, { before: () => (over ? new Promise<never>(() => {}) : undefined) });
    const first = new ManualHost({ name: 'first_' });
    first.reach = point => {
      if (over || point === died) {
        over = true;
        throw new Error('this process has ended');
      }
    };
    const run = async (_: unknown, { key }: ToolCallContext) => {
      keys.push(key);
      await turn();
      return 'act ran';
    };
    const { agent } = agentOn(store, { turns, tools: [makeTool('act', { run, ...before })] }, first);
    const begun = await agent.start('act');
    begun.settled().catch(() => {});
    await first.idle();
    expect(over).toBe(true);
    const host = new ManualHost({ name: 'second_', now: first.now() + 60_000 });
    const next = agentOn(shared, { turns, tools: [after(keys)] }, host);
    const opened = await next.agent.open(begun.id);
    return { settled: await host.settle(opened.settled()), keys, opened, host, agent: next.agent };
  }

  test.each(['none', 'idempotent'] as const)(
    'was %s and is once now is in doubt, and is not run again',
    async sideEffect => {
      const { settled, keys, opened, host } = await takeOver({ sideEffect }, seen =>
        makeTracedTool('act', seen),
      );
      expect(keys).toHaveLength(1);
      expect(settled).toMatchObject({
        status: 'waiting',
        doubts: [{ callId: 'call_0_0', reason: expect.stringContaining('must not run twice') }],
      });
      await opened.resolve('call_0_0', { retry: true });
      expect(await host.settle(opened.settled())).toMatchObject({ status: 'finished' });
      expect(keys).toEqual([keys[0], keys[0]]);
    },
  );

  test('was once and is none now is in doubt', async () => {
    const { settled, keys } = await takeOver({}, seen => makeTracedTool('act', seen, { sideEffect: 'none' }));
    expect(keys).toHaveLength(1);
    expect(settled).toMatchObject({ status: 'waiting', doubts: [{ callId: 'call_0_0' }] });
  });

  test('has lost its reconcile function is in doubt', async () => {
    const reconcile = () => ({ happened: false }) as const;
    const { settled, keys } = await takeOver({ reconcile }, seen => makeTracedTool('act', seen));
    expect(keys).toHaveLength(1);
    expect(settled).toMatchObject({ status: 'waiting', doubts: [{ callId: 'call_0_0' }] });
  });

  test('was removed is in doubt if it was once, else has an error result', async () => {
    const once = await takeOver({}, () => makeTool('other'));
    expect(once.settled).toMatchObject({ status: 'waiting', doubts: [{ callId: 'call_0_0' }] });
    const safe = await takeOver({ sideEffect: 'idempotent' }, () => makeTool('other'));
    expect(safe.settled).toMatchObject({
      status: 'finished',
      results: [{ isError: true, output: 'Not run again: The agent no longer has a tool "act".' }],
    });
  });

  test('was none at the call and is once now is in doubt when it times out', async () => {
    const { store, turns, runId, host } = await waiting({
      tools: [READ, makeTool('pay', { sideEffect: 'none', approval: true })],
    });
    const slow = makeTool('pay', { timeoutMs: 1_000, run: () => new Promise(() => {}) });
    const run = await agentOn(store, { turns, tools: [READ, slow] }, host).agent.open(runId);
    await run.approve('call_0_1');
    expect(await host.settle(run.settled())).toMatchObject({
      status: 'waiting',
      doubts: [{ callId: 'call_0_1', reason: expect.stringContaining('did not answer within 1000 ms') }],
    });
  });
});

test('an agent migrates the open calls of its previous version', async () => {
  const { store, turns, runId } = await waiting();
  const keys: string[] = [];
  const pay = makeTracedTool('pay', keys, {
    input: z.object({ cents: z.number() }) as never,
    approval: true,
  });
  const inCents: JournalMigration = {
    from: { agent: '1' },
    to: { agent: '2' },
    migrate: events =>
      events.map(event => {
        if (event.type !== 'turn.completed' || !Array.isArray(event.calls)) return event;
        const calls = event.calls.map(call =>
          typeof call === 'object' && call !== null && 'name' in call && call.name === 'pay'
            ? { ...call, input: { cents: 5 } }
            : call,
        );
        return { ...event, calls };
      }),
  };
  const { agent, host } = agentOn(store, {
    turns,
    tools: [READ, pay],
    version: '2',
    migrations: [inCents],
  });
  const report = await agent.check(runId);
  expect(report).toMatchObject({ verdict: 'needs-migration', opens: true });
  expect(report.advice).toContain(`agent.migrate('${runId}')`);
  const run = await agent.migrate(runId);
  expect(await agent.check(run.id)).toMatchObject({ opens: true, verdict: 'compatible' });
  const seen = (await agentOn(store, { turns }).agent.open(runId)).context.calls.find(call => call.gate);
  const stale = await run.approve('call_0_1', { digest: seen?.digest ?? '' });
  expect(stale).toMatchObject({ accepted: false, code: 'wrong-digest' });
  await run.approve('call_0_1');
  expect(await host.settle(run.settled())).toMatchObject({ status: 'finished' });
  expect(keys).toHaveLength(1);
  await expect(agent.migrate(run.id)).rejects.toMatchObject({ code: 'refused' });
});
