import { describe, expect, test } from 'vitest';
import { built } from '../support/built.ts';
import { Desk, eventsOf } from '../support/cli/desk.ts';

const OFFER = built('test/support/cli/fixtures/offer.ts');
const MIA = ['--by', 'mia', '--group', 'sales'];

describe('an answer under review, on the command line', () => {
  test('is shown with its commands, changed, and sent back with a remark', async () => {
    const turns = [{ text: '{"cents":1}' }, { text: '{"cents":2}' }];
    const desk = new Desk(turns);
    const begun = await desk.run(['run', '--agent', OFFER, '--yes', '--json', 'offer'], desk.model);
    expect(begun.code).toBe(3);
    const runId = eventsOf(begun.stdout)[0]?.runId ?? '';
    const reviewIn = (text: string) => /review_[\w-]+/.exec(text)?.[0] ?? '';

    const shown = await desk.run(['show', runId]);
    expect(shown.stdout).toContain('the answer waits for a review');
    expect(shown.stdout).toContain('it is an offer');
    expect(shown.stdout).toContain('a person in the group sales');
    expect(shown.stdout).toMatch(
      /approve run_[\w-]+ review_[\w-]+ --digest \w+ --by NAME --group sales \[--answer TEXT\]/,
    );
    expect((await desk.run(['runs', '--waiting'])).stdout).toContain('review of answer');

    const first = reviewIn(shown.stdout);
    const refused = await desk.run(['approve', runId, first, '--by', 'bob']);
    expect([refused.code, refused.stderr]).toEqual([
      4,
      expect.stringContaining('bob is in none of the groups'),
    ]);
    const remark = ['--reason', 'Less.', '--json'];
    const sentBack = await desk.run(['reject', runId, first, ...remark, ...MIA]);
    expect(sentBack.code).toBe(3);
    expect(eventsOf(sentBack.stdout)[0]).toMatchObject({
      type: 'review.decided',
      decision: { type: 'reject', reason: 'Less.' },
      by: 'mia',
      groups: ['sales'],
    });

    const second = reviewIn((await desk.run(['show', runId])).stdout);
    expect(second).not.toBe(first);
    const approve = (...args: string[]) => desk.run(['approve', runId, second, ...args, ...MIA]);
    expect((await approve('--answer', 'nothing')).code).toBe(2);
    expect((await approve('--answer', '{}', '--answer-json', '{}')).code).toBe(2);
    const given = await approve('--answer-json', '{"cents":0}');
    expect([given.code, given.stdout]).toEqual([0, expect.stringContaining('{"cents":0}')]);
    const late = await desk.run(['reject', runId, second, ...MIA]);
    expect([late.code, late.stderr]).toEqual([4, expect.stringContaining('approved by mia')]);
  });
});
