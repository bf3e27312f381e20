import { DatabaseSync } from 'node:sqlite';
import { makeCall, makeResult, type StepContender } from './step-contender.ts';

type Message = { role: string; [member: string]: unknown };

/**
 * Opens a loop that stores its full state after each step, as checkpointing engines do: one row per run, in SQLite
 * with the same durability settings.
 */
export function openCheckpointLoop(file: string): StepContender {
  const database = new DatabaseSync(file);
  database.exec('pragma journal_mode = WAL; pragma synchronous = FULL; pragma busy_timeout = 5000');
  database.exec('create table checkpoints (run text primary key, step integer, state text) strict');
  const save = database.prepare(
    'insert into checkpoints values (?, ?, ?) on conflict (run) do update set step = excluded.step, state = excluded.state',
  );
  const load = database.prepare('select state from checkpoints where run = ?');
  let bytes = 0;
  return {
    async run(steps, onStep) {
      const messages: Message[] = [{ role: 'user', content: 'Measure the points.' }];
      for (let step = 0; step < steps; step += 1) {
        onStep(step);
        const call = makeCall(step);
        messages.push({ role: 'assistant', content: '', toolCalls: [call] });
        messages.push({ role: 'tool', toolCallId: call.callId, content: await makeResult(step) });
        const state = JSON.stringify({ messages, step, turns: step + 1 });
        bytes += state.length;
        save.run('run', step, state);
      }
      onStep(steps);
    },
    handedBytes: () => bytes,
    async resume() {
      const state: { messages: Message[] } = JSON.parse(String(load.get('run')?.state));
      return state.messages.length;
    },
    async close() {
      database.close();
    },
  };
}
