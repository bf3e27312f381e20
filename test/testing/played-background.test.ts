import { describe, expect, test, vi } from 'vitest';
import type { ScriptedTurn } from '../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import type { AgentOptions } from '../../agent/agent-options.ts';
import { recordRun } from '../../engine/replay/record-run.ts';
import type { RunEvent } from '../../protocol/event.ts';
import type { Store } from '../../protocol/store.ts';
import type { Tool } from '../../protocol/tool.ts';
import { memory } from '../../stores/memory.ts';
import { playRun } from '../../testing/play/play-run.ts';
import { regress } from '../../testing/regress/regress.ts';
import { calls, countEvents, makeGate, makeTool } from '../support/engine/agents.ts';

type Parts = {
  turns: ScriptedTurn[];
  ship?: Parameters<typeof makeTool>[1];
  researches?: ScriptedTurn[];
  options?: Partial<AgentOptions>;
  more?: Tool[];
};

const RESEARCH = calls(['research', { input: 'red' }]);
const SHIP = calls(['ship', { parcel: 1 }]);
const end = [{ text: 'On its way.' }, { text: 'Done.' }, { text: 'Done.' }];

/** An agent with both kinds of background work; what it reaches is in `reached`. */
function makeShop({ turns, ship, researches = [{ text: 'Found it.' }], options = {}, more = [] }: Parts) {
  const store = memory();
  const reached: string[] = [];
  const researcher = createAgent({
    name: 'researcher',
    model: {
      ...scripted(researches),
      generate: (request, given) => {
        reached.push('researcher');
        return scripted(researches).generate(request, given);
      },
    },
    stream: false,
  });
  const agent = createAgent({
    name: 'shop',
    store,
    model: scripted(turns),
    tools: [
      makeTool('ship', {
        background: true,
        run: () => {
          reached.push('ship');
          return { sent: 1 };
        },
        ...ship,
      }),
      researcher.asTool({ name: 'research', description: 'Researches.', background: true }),
      ...more,
    ],
    ...options,
  });
  return { agent, store, reached };
}

async function record(parts: Parts) {
  const shop = makeShop(parts);
  const run = await shop.agent.start('Go.');
  await run.settled();
  return { ...shop, run };
}

async function until(store: Store, runId: string, type: RunEvent['type']): Promise<void> {
  await vi.waitFor(async () => expect(await countEvents(store, runId, type)).toBe(1));
}

describe('a played run with work in the background', () => {
  test.each<[string, Parts]>([
    ['of a tool', { turns: [SHIP, ...end] }],
    ['of a sub-agent', { turns: [RESEARCH, ...end] }],
    ['of both at once', { turns: [calls('ship', ['research', { input: 'blue' }]), ...end, ...end] }],
    ['that is made twice alike', { turns: [calls('ship', 'ship'), ...end, ...end] }],
    [
      'that fails',
      {
        turns: [SHIP, ...end],
        ship: {
          run: () => {
            throw new Error('no stamps');
          },
        },
      },
    ],
    ['whose result is long', { turns: [SHIP, ...end], ship: { run: () => 'x'.repeat(200_000) } }],
    [
      'for which a limit leaves nothing',
      { turns: [RESEARCH, { text: 'Then not.' }], options: { limits: { turns: 2 } } },
    ],
    [
      'that a guardrail judges',
      {
        turns: [SHIP, ...end],
        options: {
          guardrails: {
            toolOutput: output =>
              JSON.stringify(output).includes('sent')
                ? { type: 'block', reason: 'a secret' }
                : { type: 'pass' },
          },
        },
      },
    ],
  ])('%s is the same on an equal agent, which begins none', async (_, parts) => {
    const { agent, store, run } = await record(parts);
    const again = makeShop(parts);
    const report = await regress(again.agent, { runs: { store } });
    expect(report).toMatchObject({ runs: 1, same: 1, differences: [], undecidable: 0 });
    const recorded = await recordRun(store, run.id);
    expect(await playRun(recorded.recording)).toEqual(recorded.outcome);
    const raw = await recordRun(store, run.id, { raw: true });
    expect(await playRun(raw.recording, again.agent)).toEqual(raw.outcome);
    expect(again.reached).toEqual([]);
    await agent.close();
  });

  test('is read in the turn in which it was, also with the result of another call', async () => {
    const [gate, sent] = [makeGate(), makeGate()];
    const look = makeTool('look', { sideEffect: 'none', run: () => gate.promise });
    const parts: Parts = {
      turns: [calls('ship', 'look'), ...end],
      ship: { run: () => sent.promise },
      more: [look],
    };
    const { store, agent } = makeShop(parts);
    const run = await agent.start('Go.');
    const settled = run.settled();
    await until(store, run.id, 'tool.suspended');
    sent.open();
    await until(store, run.id, 'message.received');
    gate.open();
    expect(await settled).toMatchObject({ status: 'finished', text: 'On its way.' });
    const report = await regress(makeShop(parts).agent, { runs: { store } });
    expect(report).toMatchObject({ runs: 1, same: 1, differences: [] });
    const { recording, outcome } = await recordRun(store, run.id);
    expect(await playRun(recording)).toEqual(outcome);
  });

  test('does not begin what was not recorded', async () => {
    const { store } = await record({ turns: [SHIP, ...end] });
    const again = makeShop({ turns: [calls(['ship', { parcel: 2 }]), ...end] });
    const report = await regress(again.agent, { runs: { store } });
    expect(report).toMatchObject({ runs: 1, same: 0 });
    expect(report.differences).toMatchObject([{ kind: 'input', tool: 'ship' }]);
    expect(again.reached).toEqual([]);
  });

  test('is missing if the agent does not begin it, and is not delivered', async () => {
    const { store } = await record({ turns: [SHIP, ...end] });
    const report = await regress(makeShop({ turns: [{ text: 'No.' }] }).agent, { runs: { store } });
    expect(report.differences).toMatchObject([{ kind: 'missing-call', tool: 'ship' }]);
  });

  test('counts the recorded spending of agents', async () => {
    const usage = { inputTokens: 1000, outputTokens: 100 };
    const researches = [{ text: 'Found it.', usage }];
    const turns = [RESEARCH, ...end].map(turn => ({ ...turn, usage }));
    const parts = { turns, researches, options: { limits: { tokens: 5000 } } };
    const { store, run } = await record(parts);
    const { recording, outcome } = await recordRun(store, run.id);
    expect(await playRun(recording)).toEqual(outcome);
    expect(await regress(makeShop(parts).agent, { runs: { store } })).toMatchObject({ runs: 1, same: 1 });
  });

  test('the run of one call is no recording of its own', async () => {
    const { store, run } = await record({ turns: [SHIP, ...end] });
    const [child] = (await store.list({ parent: run.id })).runs;
    await expect(recordRun(store, child?.runId ?? '')).rejects.toMatchObject({ code: 'refused' });
  });
});
