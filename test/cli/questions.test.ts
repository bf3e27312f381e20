import { spawnSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { built } from '../support/built.ts';
import { calling, Desk, eventsOf, MAIN, Started } from '../support/cli/desk.ts';

const BOOKING = built('test/support/cli/fixtures/booking.ts');
const TURNS = [calling('book'), { text: 'All booked.' }];
const HAS_TERMINAL = spawnSync('script', ['-qec', 'true', '/dev/null']).status === 0;

async function begin(): Promise<{ desk: Desk; runId: string }> {
  const desk = new Desk(TURNS);
  const begun = await desk.run(['run', '--agent', BOOKING, '--yes', '--json', 'a table'], desk.model);
  expect(begun.code).toBe(3);
  return { desk, runId: eventsOf(begun.stdout)[0]?.runId ?? '' };
}

describe('what a tool asks, on the command line', () => {
  test('is shown with its commands, and answered in parts', async () => {
    const { desk, runId } = await begin();
    const shown = await desk.run(['show', runId]);
    expect(shown.stdout).toContain('book asks');
    for (const part of ['people: How many people?', 'area: Where?', '"garden"', `answer ${runId} call_0_0`])
      expect(shown.stdout).toContain(part);
    expect((await desk.run(['runs', '--waiting'])).stdout).toContain('question of book');
    const answer = (answers: object, ...more: string[]) =>
      desk.run(['answer', runId, 'call_0_0', '--answers', JSON.stringify(answers), ...more]);
    const refused = await answer({ people: 'two' });
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('must be integer')]);
    const unknown = await answer({ colour: 1 });
    expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining('asks no question "colour"')]);
    expect((await answer({ people: 2, area: 'hall' }, '--by', 'ada')).code).toBe(3);
    expect((await desk.run(['show', runId])).stdout).not.toContain('How many people?');
    const done = await answer({ baby: true });
    expect([done.code, done.stdout]).toEqual([0, expect.stringContaining('All booked.')]);
    const late = await answer({ baby: false });
    expect(late.code).toBe(4);
    const answered = (await desk.journal(runId)).filter(({ type }) => type === 'question.answered');
    expect(answered).toMatchObject([{ by: 'ada' }, {}]);
  });

  test('is declined with a reason', async () => {
    const { desk, runId } = await begin();
    const declined = await desk.run(['reject', runId, 'call_0_0', '--reason', 'closed', '--json']);
    expect(declined.code).toBe(0);
    expect(eventsOf(declined.stdout)[0]).toMatchObject({
      type: 'question.answered',
      answers: { people: { type: 'declined', reason: 'closed' } },
    });
  });

  test.skipIf(!HAS_TERMINAL)('is asked on a terminal in the form of each answer', async () => {
    const desk = new Desk(TURNS);
    const words = [process.execPath, MAIN, 'run', '--agent', BOOKING, 'go'].map(word => `'${word}'`);
    const started = new Started('script', ['-qec', words.join(' '), '/dev/null'], desk.folder, {
      PATH: process.env.PATH,
      NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
      HOME: desk.folder,
      TERM: 'xterm',
      NO_COLOR: '1',
      ...desk.model,
    });
    for (const [asked, typed] of [
      ['[a]nswer  [d]ecline  [q]uit', 'a'],
      ['people (a number)', 'four'],
      ['Not valid JSON', '4'],
      ['area (garden, hall)', 'hall'],
      ['baby (yes or no)', 'no'],
    ] as const) {
      await started.printed(asked);
      started.child.stdin.write(`${typed}\n`);
    }
    const ended = await started.ended;
    expect([ended.code, ended.stdout]).toEqual([0, expect.stringContaining('All booked.')]);
    const [, runId = ''] = /(run_\w+)/.exec(ended.stdout) ?? [];
    expect(await desk.journal(runId)).toContainEqual(
      expect.objectContaining({
        type: 'tool.settled',
        output: { booked: [4, 'hall', false] },
      }),
    );
  });
});
