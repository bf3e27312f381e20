import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { CommandResult } from '../../engine/log/refusal.ts';
import type { Settled } from '../../engine/log/settled.ts';
import type { RunEvent } from '../../protocol/event.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { BundledFixture } from '../support/durability/bundled-fixture.ts';
import { eventsOf } from '../support/engine/agents.ts';

const fixture = new BundledFixture('decision-race-fixture');
const RUN = 'run_raced';

const PROCESSES = ['ann', 'bob', 'cem', 'dia', 'eve'];
const EACH = 20;

type Told = { decisions: { by: string; answer: CommandResult }[]; settled: Settled };

async function run(...args: string[]): Promise<string> {
  const child = spawn(process.execPath, [fixture.file, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  let [output, errors] = ['', ''];
  child.stdout.on('data', chunk => {
    output += chunk;
  });
  child.stderr.on('data', chunk => {
    errors += chunk;
  });
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`the process failed:\n${errors}`);
  return output;
}

const linesOf = (file: string) =>
  existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : [];

/** What decides, as the journal names it, and whether the call then runs. */
const DECIDES = {
  approval: (event: RunEvent) => event.type === 'approval.decided' && event.decision.type === 'approve',
  question: (event: RunEvent) => event.type === 'question.answered' && event.answers.who?.type === 'given',
};
const TYPES = { approval: 'approval.decided', question: 'question.answered' } as const;

test.each(['approval', 'question'] as const)(
  'of a hundred people in five processes who decide one %s at once, one wins, and the others learn who',
  async about => {
    const folder = fixture.makeFolder();
    await run(folder, about, 'begin');
    const ended = Promise.all(PROCESSES.map(name => run(folder, about, name, String(EACH))));
    ended.catch(() => {});
    const ready = () => linesOf(join(folder, 'told')).length === PROCESSES.length;
    while (!ready()) await Promise.race([delay(5), ended]);
    writeFileSync(join(folder, 'go'), '');
    const told = (await ended).map((text): Told => JSON.parse(text));

    const answers = told.flatMap(({ decisions }) => decisions);
    expect(answers).toHaveLength(PROCESSES.length * EACH);
    const winners = answers.filter(({ answer }) => answer.accepted);
    expect(winners).toHaveLength(1);
    const winner = winners[0]?.by ?? '';
    for (const { by, answer } of answers) {
      if (by !== winner)
        expect(answer).toMatchObject({ accepted: false, code: 'already-decided', by: winner });
    }

    const store = sqlite(join(folder, 'runs.db'));
    const events = await eventsOf(store, RUN);
    await store.close();
    const decided = events.filter(({ type }) => type === TYPES[about]);
    expect(decided).toMatchObject([{ by: winner }]);
    const approved = decided.some(DECIDES[about]);
    expect(linesOf(join(folder, 'trace'))).toHaveLength(approved ? 1 : 0);
    expect(events.filter(({ type }) => type === 'tool.started')).toHaveLength(approved ? 1 : 0);
    for (const { settled } of told) expect(settled).toEqual(told[0]?.settled);
    expect(told[0]?.settled).toMatchObject({
      status: 'finished',
      text: 'done',
      results: [{ callId: 'call_0_0' }],
    });
  },
);
