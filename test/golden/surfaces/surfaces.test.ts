import { readdirSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { RECORDED, REWRITE, readRecorded, SURFACES } from './all-surfaces.ts';

/** The first line that differs, for a message that a person can read. */
function firstChange(was: string, is: string): string {
  const [before, after] = [was.split('\n'), is.split('\n')];
  const at = after.findIndex((line, index) => line !== before[index]);
  const line = at === -1 ? after.length : at;
  return `line ${line + 1} was\n${before[line] ?? '(nothing)'}\nand is\n${after[line] ?? '(nothing)'}`;
}

describe.each(Object.entries(SURFACES))('%s', (surface, scenarios) => {
  const recorded = readRecorded(surface);

  test('shows every scenario as it is recorded, byte for byte', async () => {
    const changes: string[] = [];
    for (const [name, record] of Object.entries(scenarios)) {
      const is = await record();
      const was = recorded[name] ?? '';
      if (is !== was) changes.push(`${surface}/${name}.txt: ${firstChange(was, is)}`);
    }
    const advice = `${changes.length} changed. If all are meant: ${REWRITE}, and read the diff line by line.`;
    expect(changes, advice).toEqual([]);
  });

  test('has a golden stream for each scenario, and no other', () => {
    expect(Object.keys(recorded).sort(), REWRITE).toEqual(Object.keys(scenarios).sort());
  });
});

test('every folder of golden streams belongs to a surface', () => {
  expect(readdirSync(RECORDED).sort()).toEqual(Object.keys(SURFACES).sort());
});
