import { messageOf } from '../../../protocol/error.ts';
import { BusyMeter, LONGEST_BLOCK_MS } from './busy-meter.ts';
import { CASE_KINDS, isCaseKind } from './cases.ts';
import { type Finding, found } from './finding.ts';

/**
 * A case in its own process: `node case-worker.ts KIND NAME SEED FOLDER`. It ends with a line of
 * JSON. A process that freezes prints no line, and its parent kills it.
 */
const [kind = '', name = '', seed = '1', folder = ''] = process.argv.slice(2);

export type CaseReport = { findings: Finding[]; busyMs: number };

if (!isCaseKind(kind)) throw new Error(`There is no kind "${kind}".`);
const meter = new BusyMeter();
const attack = (await CASE_KINDS[kind]()).find(one => one.name === name);
if (attack === undefined) throw new Error(`There is no case "${name}" of ${kind}.`);

process.on('uncaughtException', error => {
  finish([found('broken', `ended the process unnamed: ${messageOf(error)}`)]);
});

let findings: Finding[];
try {
  findings = await attack.run({ folder, seed: Number(seed) });
} catch (error) {
  findings = [found('broken', messageOf(error))];
}
const busyMs = meter.stop();
if (busyMs > LONGEST_BLOCK_MS)
  findings.push(found('frozen', `the process worked for ${busyMs} ms without a pause`));
finish(findings, busyMs);

function finish(all: readonly Finding[], ms = 0): void {
  const report: CaseReport = { findings: [...all], busyMs: ms };
  process.stdout.write(`\n${JSON.stringify(report)}\n`, () => process.exit());
}
