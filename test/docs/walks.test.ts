import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/index.ts';
import { agentMachine } from '../../agent/machine.ts';
import { memory } from '../../stores/memory.ts';
import { explore, exploreFrom } from '../../testing/index.ts';

test('docs/explore.md names every walk that a report can name', async () => {
  const store = memory();
  const agent = createAgent({ name: 'walked', model: scripted([{ text: 'Done.' }]), store });
  const run = await agent.start('begin');
  await run.settled();
  const [started] = await store.read(run.id);
  const invariants = { 'looks back': ({ events }: { events: readonly unknown[] }) => events.length > 0 };
  const machine = agentMachine.provide({});
  const options = { maxStates: 8, invariants, machine };
  const reports = [
    explore(agent, options),
    exploreFrom(agent, started === undefined ? [] : [started], { maxStates: 1 }),
  ];
  const stopped = new Set(reports.flatMap(({ unfinished }) => unfinished.map(({ paths }) => paths)));
  expect(stopped.size).toBe(9);
  const listed = readFileSync('docs/explore.md', 'utf8').matchAll(/^\| `(.+?)`(?:, `(.+?)`)? \|/gm);
  const named = new Set([...listed].flatMap(([, one = '', other = '']) => [one, other]));
  expect([...stopped].filter(name => !named.has(name))).toEqual([]);
});
