import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { BusyMeter } from '../cases/busy-meter.ts';

/** Preloaded into a process (`--import`): records how long its event loop was blocked. */
const REPORTED_MS = 1_000;

new BusyMeter(ms => {
  if (ms < REPORTED_MS) return;
  appendFileSync(join(process.env.ATTACK_FOLDER ?? '.', 'blocks'), `${JSON.stringify({ ms })}\n`);
});
