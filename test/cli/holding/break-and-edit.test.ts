import { describe, expect, test } from 'vitest';
import { calling, Desk, eventsOf, REFUND, typesOf } from '../../support/cli/desk.ts';

const done = { text: 'Done.' };
const LOOKUP = ['lookup', { orderId: 'A-1' }] as [string, Record<string, unknown>];

/** A run that waits for the approval of a refund of 4,200 cents. */
async function waiting(...more: ReturnType<typeof calling>[]): Promise<{ desk: Desk; runId: string }> {
  const desk = new Desk([{ ...calling(REFUND), text: 'Paying back.' }, ...more, done]);
  return { desk, runId: (await desk.begin()).runId };
}

describe.concurrent('agentchart break', () => {
  test('sets, lists and removes breakpoints, and a run that one holds says which', async () => {
    const { desk, runId } = await waiting(calling(LOOKUP));
    const set = await desk.run([
      'break',
      runId,
      ...['--before', 'executeTools', '--tool', 'refund', '--where', 'input.cents > 1000', '--once'],
    ]);
    expect([set.code, set.stdout]).toEqual([
      0,
      `${runId} has a breakpoint: b1 before executeTools of refund, where input.cents > 1000, once.\n`,
    ]);
    const second = await desk.run(['break', runId, '--turn', '2', '--id', 'two', '--json', '--by', 'ada']);
    expect(eventsOf(second.stdout)).toMatchObject([
      {
        type: 'breakpoints.set',
        by: 'ada',
        breakpoints: [
          {
            id: 'b1',
            next: 'executeTools',
            tool: 'refund',
            where: { path: 'input.cents', op: '>', value: 1000 },
            once: true,
          },
          { id: 'two', turn: 2 },
        ],
      },
    ]);
    const approved = await desk.run(['approve', runId, 'call_0_0']);
    expect(approved.code).toBe(3);
    expect(approved.stdout).toContain('The run is paused: breakpoint b1 before executeTools');

    const continued = await desk.run(['unpause', runId]);
    expect(continued.stdout).toContain('The run is paused: breakpoint two before callModel');
    expect((await desk.run(['break', runId])).stdout).toBe('two before each action that spends, in turn 2\n');
    const removed = await desk.run(['break', runId, '--remove', 'two']);
    expect(removed.stdout).toBe(`${runId} has no breakpoints.\n`);
    expect((await desk.run(['break', runId, '--json'])).stdout).toBe('');
    expect((await desk.run(['unpause', runId])).code).toBe(0);
  });

  test('replaces a breakpoint of the same name, and clears all', async () => {
    const { desk, runId } = await waiting();
    await desk.run(['break', runId, '--tool', 'refund', '--id', 'one']);
    await desk.run(['break', runId, '--cost-over', '0.5', '--id', 'one']);
    expect(JSON.parse((await desk.run(['break', runId, '--json'])).stdout)).toEqual({
      id: 'one',
      costOver: 0.5,
    });
    await desk.run(['break', runId, '--clear', '--where', "input.note = it's \u001b[31mred"]);
    const listed = await desk.run(['break', runId]);
    expect(listed.stdout).toContain('b1 before calls, where input.note = "it\'s ');
    expect(listed.stdout).not.toContain('\u001b');
  });

  test.each([
    [['--before', 'lunch'], '--before must be one of callModel, streamFinal, compact, executeTools'],
    [['--where', 'cents>3'], "such as 'input.cents>10000'"],
    [['--where', 'input.cents == 3'], "such as 'input.cents>10000'"],
    [['--where', 'input.cents>>1'], "such as 'input.cents>10000'"],
    [['--turn', 'x'], '--turn must be a number, got "x"'],
    [['--turn', '0.5'], 'The breakpoint is not valid: turn'],
    [['--once'], 'Say what the breakpoint matches'],
    [['--remove', 'b9'], 'The run has no breakpoint "b9". It has: none.'],
  ])('refuses %j', async (args, message) => {
    const { desk, runId } = await waiting();
    const refused = await desk.run(['break', runId, ...args]);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain(message);
    expect(typesOf(await desk.journal(runId))).not.toContain('breakpoints.set');
  });
});

describe.concurrent('agentchart edit', () => {
  test('edits the reply from stdin as --show prints it: text, a changed call and a new one', async () => {
    const { desk, runId } = await waiting();
    await desk.run(['pause', runId]);
    const shown = await desk.run(['edit', runId, '--show']);
    const reply = JSON.parse(shown.stdout);
    expect(reply).toEqual({
      text: 'Paying back.',
      calls: [{ callId: 'call_0_0', name: 'refund', input: { orderId: 'A-1', cents: 4200 } }],
    });
    reply.text = 'Paying back half.';
    reply.calls[0].input.cents = 2100;
    reply.calls.push({ name: 'lookup', input: { orderId: 'A-2' } });
    const edited = await desk.run(['edit', runId, '--by', 'ada', '--json'], {}, JSON.stringify(reply));
    expect(edited.code).toBe(3);
    expect(eventsOf(edited.stdout)[0]).toMatchObject({
      type: 'turn.edited',
      by: 'ada',
      text: 'Paying back half.',
      calls: [{ callId: 'call_0_0', input: { cents: 2100 } }, { name: 'lookup' }],
    });
    await desk.run(['approve', runId, 'call_0_0']);
    expect((await desk.run(['unpause', runId])).code).toBe(0);
    const results = (await desk.journal(runId)).filter(event => event.type === 'tool.settled');
    expect(results.map(({ output }) => output)).toContainEqual({ refunded: 2100 });
    expect(results).toHaveLength(2);
  });

  test('edits the input of a call; its text alone; and refuses what the tool refuses', async () => {
    const { desk, runId } = await waiting();
    await desk.run(['pause', runId]);
    const input = (cents: unknown) => JSON.stringify({ orderId: 'A-1', cents });
    const refused = await desk.run(['edit', runId, 'call_0_0', '--input', input('many')]);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('The edited input is not valid for refund');
    expect((await desk.run(['edit', runId, 'call_0_0', '--input', input(5)])).code).toBe(3);
    expect((await desk.run(['edit', runId, 'call_0_0', '--show'])).stdout).toBe(`${input(5)}\n`);
    const stale = await desk.run(['edit', runId, 'call_0_0', '--input', input(6), '--digest', 'old']);
    expect(stale.code).toBe(4);
    expect((await desk.run(['edit', runId, '--text', 'Paying.'])).code).toBe(3);
    const types = typesOf(await desk.journal(runId));
    expect(types.filter(type => type.endsWith('.edited'))).toEqual(['call.edited', 'turn.edited']);
  });

  test.each([
    [[], '', 'Nothing to edit. Give --text, --calls'],
    [[], '{"words":"x"}', 'Expected { "text"?'],
    [[], 'text', 'stdin must be valid JSON'],
    [[], '{', 'at position 1 (line 1 column 2).\n'],
    [['--calls', '[{"tool":"x"}]'], '', 'Expected { "text"?'],
    [['--input', '{}'], '', '--input and --digest need the id of a call'],
    [['call_0_0', '--text', 'x'], '', 'leave out the call'],
    [['call_9', '--show'], '', 'The latest turn has no call call_9. It has: call_0_0.'],
  ])('refuses %j with %j on stdin', async (args, stdin, message) => {
    const { desk, runId } = await waiting();
    const refused = await desk.run(['edit', runId, ...args], {}, stdin);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain(message);
  });
});
