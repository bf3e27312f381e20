import { describe, expect, test } from 'vitest';
import { built } from '../support/built.ts';
import { calling, Desk, eventsOf } from '../support/cli/desk.ts';

const POISONED = built('test/support/cli/fixtures/crash-loop.ts');

describe('a run that crashes its process every time', () => {
  test('is paused by the sixth process with the reason, and continues when unpaused', async () => {
    const desk = new Desk([calling('look'), { text: 'Done.' }]);
    const begun = desk.start(['run', '--agent', POISONED, '--json', 'go'], desk.model);
    begun.child.stdin.end();
    const { code, stdout } = await begun.ended;
    expect(code).toBeNull();
    const runId = eventsOf(stdout)[0]?.runId ?? '';
    for (let died = 1; died < 5; died += 1) expect((await desk.runAlone(['resume', runId])).code).toBeNull();

    const paused = await desk.runAlone(['resume', runId]);
    expect(paused.code).toBe(3);
    expect(paused.stdout).toContain('The run is paused: 5 processes in a row died');
    expect((await desk.runAlone(['show', runId])).stdout).toMatch(/paused: 5 processes in a row died.*look/);
    expect((await desk.runAlone(['resume', runId])).code).toBe(3);

    expect((await desk.runAlone(['unpause', runId])).code).toBeNull();
    desk.write('cured', '');
    const resumed = await desk.runAlone(['resume', runId]);
    expect(resumed.code).toBe(0);
    expect(resumed.stdout).toContain('Done.');
  });
});
