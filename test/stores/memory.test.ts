import { describe, expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import { begin } from '../../stores/conformance/check.ts';
import { storeChecks } from '../../stores/conformance.ts';
import { memory } from '../../stores/memory.ts';

describe('the memory store', () => {
  for (const { name, run } of storeChecks({ open: async () => memory(), openAgain: async store => store }))
    test(name, run);

  test('tells in its error that it has no runs of other processes', async () => {
    const store = memory();
    const agent = createAgent({ name: 'desk', model: scripted([{ text: 'Done.' }]), store });
    const opened = agent.open('run_of_another_process');
    await expect(opened).rejects.toMatchObject({
      code: 'run-unknown',
      message: expect.stringMatching(/created in this process and has no runs.*sqlite\(/),
    });
    await agent.start('go');
    const again = agent.open('run_of_another_process');
    await expect(again).rejects.toMatchObject({
      code: 'run-unknown',
      message: expect.stringMatching(
        /has no run with the id "run_of_another_process"\. .*`agent\.store\.list\(\)`.*`agentchart runs`/,
      ),
    });
  });

  test('two memory stores share nothing', async () => {
    const [one, other] = [memory(), memory()];
    await one.create(begin('a'));
    expect((await other.list()).runs).toEqual([]);
  });
});
