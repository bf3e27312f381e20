import { type TestFunction, test } from 'vitest';
import { SAMPLE_SEED, TAKES_ALL } from './sample.ts';

/** Whether this run takes a test that runs on one day of `days`. Always in `npm run test:all`. */
export function takesTurn(place: number, days: number): boolean {
  return TAKES_ALL || (SAMPLE_SEED + place) % days === 0;
}

/** `test` for tests that take turns in the order of their file: each runs on one day of `days`. */
export function testInTurn(days: number): (name: string, run: TestFunction) => void {
  let place = 0;
  return (name, run) => {
    test.runIf(takesTurn(place, days))(name, run);
    place += 1;
  };
}
