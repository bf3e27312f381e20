import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { LastingListener } from '../../../agent/listening/agent-listeners.ts';
import { makeAgent as launchAgent } from '../../../cli/launch.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { calls, makeTool } from '../../support/engine/agents.ts';
import { makeFile } from '../../support/stores/make-file.ts';
import { heard } from '../../support/tools/listening/fixtures/listening-agent.ts';

function makeAgent(store: Store) {
  const below = createAgent({
    name: 'below',
    model: scripted({ turns: [calls('pay'), { text: 'paid' }] }),
    tools: [makeTool('pay', { approval: true })],
  });
  return createAgent({
    name: 'above',
    store,
    model: scripted({ turns: [calls(['ask', { input: 'x' }]), { text: 'done' }] }),
    tools: [below.asTool({ name: 'ask', description: 'Asks.' })],
  });
}

async function journalsOf(store: Store): Promise<string[]> {
  const { runs } = await store.list();
  const journals = runs.map(async ({ runId }) =>
    (await store.read(runId)).map(({ seq, event }) => `${runId} ${seq} ${event.type}`),
  );
  return (await Promise.all(journals)).flat().sort();
}

describe('agent.on', () => {
  test.each([
    ['memory', () => memory()],
    ['sqlite', () => sqlite(makeFile())],
  ])('gives every event of every run, with its record, in order: %s', async (_, open) => {
    const store = open();
    const agent = makeAgent(store);
    await agent.start('before', { runId: 'run_before' }).then(run => run.settled());
    const other = createAgent({ name: 'other', store, model: scripted([{ text: 'x' }]) });
    const seen: string[] = [];
    const names = new Set<string>();
    const off = agent.on((event, run) => {
      expect(run.runId).toBe(event.runId);
      names.add(run.agent);
      seen.push(`${event.runId} ${event.seq} ${event.type}`);
    });
    const run = await agent.start('go');
    await other.run('not ours');
    const waiting = await run.settled();
    expect(seen.filter(line => line.startsWith(run.id))).not.toEqual([]);
    if (waiting.status !== 'waiting') throw new Error(waiting.status);
    await run.approve(waiting.approvals[0] ?? '');
    expect((await run.settled()).status).toBe('finished');
    const expected = (await journalsOf(store)).filter(
      line => !line.startsWith('run_before') && seen.includes(line),
    );
    expect([...seen].sort()).toEqual(expected);
    expect(seen.filter(line => line.startsWith(run.id)).at(-1)).toMatch(/finishe|turn.completed/);
    expect([...names].sort()).toEqual(['above', 'below']);
    for (const id of new Set(seen.map(line => line.split(' ')[0]))) {
      const seqs = seen.filter(line => line.startsWith(`${id} `)).map(line => Number(line.split(' ')[1]));
      expect(seqs).toEqual(seqs.map((__, index) => index + 1));
    }
    off();
    const before = seen.length;
    await agent.run('again');
    expect(seen).toHaveLength(before);
    await store.close();
  });

  test('the command line moves the listeners of a module to the agent that it makes of it', async () => {
    const module = fileURLToPath(
      new URL('../../support/tools/listening/fixtures/listening-agent.ts', import.meta.url),
    );
    const store = memory();
    const agent = await launchAgent({ module }, store);
    await agent.run('go');
    expect(agent.store).toBe(store);
    expect(heard[0]).toBe('run.started');
    await agent.close();
  });

  test('a listener that throws or never answers disturbs no run and no other listener', async () => {
    const agent = makeAgent(memory());
    const seen: string[] = [];
    agent.on(() => {
      throw new Error('broken');
    });
    agent.on(() => Promise.reject(new Error('broken')));
    agent.on(() => new Promise(() => {}));
    agent.on(({ type }) => seen.push(type));
    expect((await agent.run('go')).status).toBe('waiting');
    expect(seen).toContain('run.started');
    await agent.close();
  });

  test('a lasting listener that is stopped and started again misses nothing, wherever it stopped', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(6), { minLength: 1, maxLength: 5 }), async stops => {
        const store = memory();
        const seen: string[] = [];
        const listen = (most: number) => {
          const agent = makeAgent(store);
          let taken = 0;
          const listener: LastingListener = {
            name: 'audit',
            deliver: async (event, _, { signal }) => {
              if (taken >= most)
                return await new Promise(resolve => signal.addEventListener('abort', () => resolve()));
              taken += 1;
              seen.push(`${event.runId} ${event.seq} ${event.type}`);
            },
          };
          const off = agent.on(listener);
          return { agent, stop: off };
        };
        for (const stop of [...stops, 1_000]) {
          const { agent, stop: end } = listen(stop);
          await agent.run('go');
          if (stop === 1_000)
            await expect
              .poll(() => new Set(seen).size, { interval: 5 })
              .toBe((await journalsOf(store)).length);
          end();
          await new Promise(resolve => setImmediate(resolve));
        }
        expect([...new Set(seen)].sort()).toEqual(await journalsOf(store));
      }),
      { numRuns: 10 },
    );
  });
});
