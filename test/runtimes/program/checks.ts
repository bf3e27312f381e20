import { type Agent, type JsonValue, memory, type Settled } from 'agentchart';
import { type AgentMachine, agentInput, agentMachine, agentServices } from 'agentchart/machine';
import { type Actor, createActor, waitFor } from 'xstate';
import { ANSWER, expectAnswer, expectSame, type Outcome, QUESTION, report } from './outcome.ts';
import { ADAPTERS, makeDesk, makeTools } from './refund-desk.ts';

/** What every runtime has to do. Nothing here uses a module or a global of Node. */

/** Runs the checks with the stand-in at the origin `provider`. */
export async function runChecks(provider: string): Promise<Outcome> {
  const outcome: Record<string, string> = {};
  for (const [name, check] of Object.entries(CHECKS)) outcome[name] = await report(check(provider));
  return outcome;
}

const CHECKS = {
  'tools in parallel, an approval': checkApproval,
  'streamed text': checkStream,
  'resumed from `run.snapshot()`': checkSnapshot,
  '`createActor` with `agent.services()`': checkActor,
  '`agentchart/machine` alone': checkMachine,
};

/** Approves the one call that waits, and returns the settled run. */
export async function approveOpen(run: Awaited<ReturnType<Agent['open']>>): Promise<Settled> {
  const settled = await run.settled();
  if (settled.status !== 'waiting') throw new Error(`Not waiting: ${JSON.stringify(settled)}`);
  const { approvals } = settled;
  expectSame(
    approvals.map(({ name, input }) => [name, input]),
    [['refund', { orderId: 'A-1001', cents: 4200 }]],
  );
  for (const { callId, digest } of approvals) {
    expectSame(await run.approve(callId, { digest }), { accepted: true });
    expectSame((await run.approve(callId)).accepted, false);
  }
  return run.settled();
}

function adapters() {
  return Object.keys(ADAPTERS) as (keyof typeof ADAPTERS)[];
}

async function checkApproval(provider: string): Promise<void> {
  for (const adapter of adapters()) {
    const agent = makeDesk({ provider, adapter });
    expectAnswer(await approveOpen(await agent.start(QUESTION)));
  }
}

async function checkStream(provider: string): Promise<void> {
  for (const adapter of adapters()) {
    const run = await makeDesk({ provider, adapter }).start(QUESTION, { stream: true });
    await approveOpen(run);
    const pieces: string[] = [];
    for await (const piece of run.text()) pieces.push(piece);
    expectSame(pieces.join(''), ANSWER);
  }
  const watched = await makeDesk({ provider }).start(QUESTION, { stream: true });
  const pieces: string[] = [];
  const reading = (async () => {
    for await (const event of watched.events({ follow: true }))
      if (event.type === 'text.delta') pieces.push(event.text);
  })();
  await approveOpen(watched);
  await reading;
  if (pieces.length < 2) throw new Error(`The text came in ${pieces.length} pieces.`);
}

async function checkSnapshot(provider: string): Promise<void> {
  const run = await makeDesk({ provider }).start(QUESTION);
  await run.settled();
  const snapshot: JsonValue = JSON.parse(JSON.stringify(run.snapshot()));
  const elsewhere = makeDesk({ provider, store: memory() });
  expectAnswer(await approveOpen(await elsewhere.restore(snapshot)));
}

async function checkActor(provider: string): Promise<void> {
  const agent = makeDesk({ provider });
  const machine = agent.machine.provide({ actors: agent.services() });
  await decide(createActor(machine, { input: agent.input(QUESTION) }).start());
}

async function checkMachine(provider: string): Promise<void> {
  const options = { model: ADAPTERS['openai-chat'](provider), tools: makeTools() };
  const machine = agentMachine.provide({ actors: agentServices(options) });
  await decide(createActor(machine, { input: agentInput(QUESTION, options) }).start());
}

/** Approves the call that the actor waits for. */
async function decide(actor: Actor<AgentMachine>): Promise<void> {
  const { context } = await waitFor(actor, state => state.matches({ resting: 'awaitingApproval' }));
  const call = context.calls.find(({ name }) => name === 'refund');
  if (call === undefined) throw new Error('No call waits.');
  const { callId, digest } = call;
  actor.send({ type: 'approval.decided', at: Date.now(), callId, digest, decision: { type: 'approve' } });
  const { output } = await waitFor(actor, ({ status }) => status === 'done');
  expectAnswer(output);
}
