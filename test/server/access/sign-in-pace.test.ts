import { expect, test, vi } from 'vitest';
import { SignInPace } from '../../../server/access/sessions.ts';
import { ManualHost } from '../../../testing/manual-host.ts';

test('five attempts are checked at once, and the sixth waits for a second', async () => {
  const host = new ManualHost();
  const timers = vi.spyOn(host, 'setTimer');
  const pace = new SignInPace(host);
  for (let attempt = 1; attempt <= 5; attempt += 1) void pace.takeTurn();
  expect(timers).not.toHaveBeenCalled();
  const before = host.monotonic();
  expect(await host.settle(pace.takeTurn())).toEqual({ type: 'go' });
  expect(host.monotonic() - before).toBe(1_000);
});
