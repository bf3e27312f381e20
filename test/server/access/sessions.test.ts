import { expect, test } from 'vitest';
import { Sessions } from '../../../server/access/sessions.ts';
import { ManualHost } from '../../../testing/manual-host.ts';

const ANN = { name: 'ann', role: 'operator', labels: {}, groups: [], known: 'token' } as const;
const WEEK_MS = 7 * 24 * 3_600_000;

test('a session ends when its caller signs out, and after a week', async () => {
  const host = new ManualHost();
  const sessions = new Sessions(host);
  const [one, other] = [sessions.begin(ANN), sessions.begin(ANN)];
  const [left, kept] = [sessions.find(one), sessions.find(other)];
  sessions.end(one);
  expect(sessions.find(one)).toBeUndefined();
  expect([left?.ended.aborted, kept?.ended.aborted]).toEqual([true, false]);
  await host.advance(WEEK_MS - 1);
  expect(sessions.find(other)?.caller).toEqual(ANN);
  await host.advance(1);
  expect(sessions.find(other)).toBeUndefined();
  expect(kept?.ended.aborted).toBe(true);
});

test('the thousand and first session ends the oldest', () => {
  const sessions = new Sessions(new ManualHost());
  const [first = '', second = ''] = Array.from({ length: 1_000 }, () => sessions.begin(ANN));
  const oldest = sessions.find(first);
  sessions.begin(ANN);
  expect(oldest?.ended.aborted).toBe(true);
  expect([sessions.find(first), sessions.find(second)?.caller]).toEqual([undefined, ANN]);
});
