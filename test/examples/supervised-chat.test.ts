import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { loadRun } from '../../engine/journal/load-run.ts';
import { replayRun } from '../../engine/replay/replay-run.ts';
import { textOf } from '../../protocol/message.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { makeRandom } from '../crash/plan.ts';
import { built } from '../support/built.ts';
import { Started } from '../support/cli/desk.ts';
import { SAMPLE_SEED, TAKES_ALL } from '../support/sample.ts';
import { makeTemporaryFolder } from '../support/temporary-folders.ts';

/** The chat of `examples/supervised-chat.ts`, in processes that are killed for real. */

const PROCESS = built('test/support/examples/fixtures/supervised-chat.ts');
const KILLS = TAKES_ALL ? 100 : 6;

/** The longest that a process works before it is killed, in ms. Undisturbed, a chat takes a few times as long. */
const LONGEST_MS = 300;

/** Plays a chat to its end. Kills its first `most` processes, each after a time that `random` chooses, if it still works. */
async function play(most: number, random: () => number): Promise<{ folder: string; kills: number }> {
  const folder = makeTemporaryFolder('supervised-chat');
  let kills = 0;
  for (;;) {
    const started = new Started(process.execPath, [PROCESS], folder, {
      ...process.env,
      PAYMENTS: 'payments.jsonl',
    });
    await started.printed('ready');
    if (kills < most) void delay(random() * LONGEST_MS).then(() => started.child.kill('SIGKILL'));
    const { code, stderr } = await started.ended;
    if (code === 0) return { folder, kills };
    if (kills === most || started.child.signalCode !== 'SIGKILL') throw new Error(stderr);
    kills += 1;
  }
}

const linesOf = (folder: string, file: string) =>
  readFileSync(join(folder, file), 'utf8')
    .split('\n')
    .filter(line => line !== '')
    .map(line => JSON.parse(line));

/** Each run of a chat in words: its transcript, what people decided, its answer; and which decisions the journals have. */
async function readChat(folder: string) {
  const store = sqlite(join(folder, 'chat.db'));
  const decisions: string[] = [];
  let takeovers = 0;
  const runs = [];
  for (const { runId, agent, status } of (await store.list({ order: 'asc' })).runs) {
    expect((await replayRun(store, runId, () => {})).equal).toBe(true);
    const { transcript, answer, answeredBy } = (await loadRun(store, runId)).state.context;
    const said = transcript.map(item => {
      if (item.type === 'message') return `${item.role}: ${textOf(item)}`;
      if (item.type === 'tool_call') return `${item.name} ${item.arguments}`;
      return item.type === 'tool_result' ? item.output : item.type;
    });
    const decided = [];
    for (const { event } of await store.read(runId)) {
      if (event.type === 'run.claimed' && event.replaces !== undefined) takeovers += 1;
      if (event.type !== 'approval.decided' && event.type !== 'review.decided') continue;
      const { by, digest, decision } = event;
      decided.push({ by, ...decision });
      decisions.push(`${runId} ${digest} ${decision.type}`);
    }
    const by = answeredBy?.type === 'agent' ? answeredBy.agent : agent;
    runs.push({ agent, status, said, decided, answer: answer?.text, by });
  }
  await store.close();
  return { runs, decisions, takeovers };
}

test(`a supervised chat that is killed at random, ${KILLS} times, loses nothing and pays once`, {
  timeout: 600_000,
}, async () => {
  const random = makeRandom(SAMPLE_SEED);
  const calm = await readChat((await play(0, random)).folder);
  const answers = calm.runs.filter(({ agent }) => agent === 'front_desk');
  expect(answers.map(({ answer, by }) => `${by}: ${answer}`)).toEqual([
    'billing: You get 42 dollars back.',
    'front_desk: Within a week.',
    'billing: A-1002 was charged once.',
    'front_desk: From 9 to 5.',
  ]);

  let kills = 0;
  let takeovers = 0;
  while (kills < KILLS) {
    const { folder, kills: more } = await play(KILLS - kills, random);
    kills += more;
    const chat = await readChat(folder);
    takeovers += chat.takeovers;
    expect(chat.runs).toEqual(calm.runs);
    expect(linesOf(folder, 'payments.jsonl')).toMatchObject([{ orderId: 'A-1001', cents: 4200 }]);
    const acknowledged = linesOf(folder, 'acknowledged').map(
      ({ runId, digest, decision }) => `${runId} ${digest} ${decision}`,
    );
    expect(new Set(acknowledged).size).toBe(acknowledged.length);
    expect(chat.decisions).toEqual(expect.arrayContaining(acknowledged));
  }
  // Of few kills, all may hit processes that drive no run.
  if (TAKES_ALL) expect(takeovers).toBeGreaterThan(KILLS / 10);
});
