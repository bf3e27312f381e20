import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { BusyMeter } from '../cases/busy-meter.ts';

/** Loaded into a process before its own code (`--import`): writes down how long its event loop was held. */
const REPORTED_MS = 1_000;

new BusyMeter(ms => {
  if (ms < REPORTED_MS) return;
  appendFileSync(join(process.env.ATTACK_FOLDER ?? '.', 'blocks'), `${JSON.stringify({ ms })}\n`);
});
