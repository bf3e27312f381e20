import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { ReaderTurns } from '../../../engine/events/reader-turns.ts';

describe('readers that take turns', () => {
  test('get them in the order in which they asked', async () => {
    const turns = new ReaderTurns(() => 0);
    const order: number[] = [];
    const ask = async (reader: number) => {
      for (let part = 0; part < 3; part += 1) {
        await turns.take();
        order.push(reader);
      }
    };
    await Promise.all([1, 2, 3].map(ask));
    expect(order).toEqual([1, 2, 3, 1, 2, 3, 1, 2, 3]);
  });

  test('leave the event loop to other work when their time is over, however many of them there are', async () => {
    let clock = 0;
    const turns = new ReaderTurns(() => clock);
    let done = 0;
    const work = async () => {
      await turns.take();
      clock += 3;
      done += 1;
    };
    const all = Promise.all(Array.from({ length: 100 }, work));
    let most = 0;
    for (let before = 0; done < 100; before = done) {
      await nextTurn();
      most = Math.max(most, done - before);
    }
    await all;
    expect(most).toBe(2);
  });

  test('go on one in each turn of the event loop if each takes longer than all may', async () => {
    let clock = 0;
    const turns = new ReaderTurns(() => clock);
    let done = 0;
    const work = async () => {
      await turns.take();
      clock += 1_000;
      done += 1;
    };
    const all = Promise.all(Array.from({ length: 50 }, work));
    for (let before = 0; done < 50; before = done) {
      await nextTurn();
      expect(done - before).toBeLessThanOrEqual(1);
    }
    await all;
  });
});
