/**
 * A program whose `persist` rejects at each of its calls in turn, for ever from there on. Prints for each where the run
 * rests, which tools ran before, and how it ended once the storage worked again.
 */
import { createActor, waitFor } from 'xstate';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { makeTool } from './agents.ts';

const POINTS = 5;

for (let point = 0; point < POINTS; point += 1) {
  const ran: string[] = [];
  let calls = 0;
  let isAway = true;
  const traced = (name: string) =>
    makeTool(name, {
      run: () => {
        ran.push(name);
        return 'ok';
      },
    });
  const agent = createAgent({
    name: 'a',
    model: scripted([{ toolCalls: [{ name: 'pay' }] }, { toolCalls: [{ name: 'book' }] }, { text: 'done' }]),
    tools: [traced('pay'), traced('book')],
  });
  const persist = () => {
    calls += 1;
    return isAway && calls > point ? Promise.reject(new Error('quota exceeded')) : Promise.resolve();
  };
  const machine = agent.machine.provide({ actors: agent.services({ persist, patienceMs: 50 }) });
  const actor = createActor(machine, { input: agent.input('go') }).start();
  const rested = await waitFor(actor, state => state.hasTag('rest'));
  const before = [...ran];
  isAway = false;
  actor.send({ type: 'run.unpaused', at: Date.now() });
  const ended = await waitFor(actor, state => state.status !== 'active');
  console.log(
    JSON.stringify({
      reason: rested.context.quarantined,
      before,
      value: ended.value,
      ran,
      status: ended.status,
    }),
  );
}
