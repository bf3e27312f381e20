import { expect, test } from 'vitest';
import { RunEvents } from '../../../engine/events/run-events.ts';
import { watchDrive } from '../../../engine/events/watch-drive.ts';
import { memory } from '../../../stores/memory.ts';
import { makeGate } from '../../support/engine/agents.ts';

test('a watched drive has ended once each of its watchers has, and not for those that cannot begin', async () => {
  const gate = makeGate<void>();
  let ended = 0;
  const slow = {
    begin: () => ({
      receive: () => {},
      async end() {
        await gate.promise;
        ended += 1;
      },
    }),
  };
  const broken = {
    begin: () => {
      throw new Error('no instruments');
    },
  };
  const drive = { runId: 'run', epoch: 1, store: memory() };
  const end = watchDrive([slow, broken], drive, new RunEvents('run'));
  const ending = end();
  expect(ended).toBe(0);
  gate.open();
  await ending;
  expect(ended).toBe(1);
});
