import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { Finisher, FinisherInput } from '../../../protocol/finisher.ts';
import { textOf } from '../../../protocol/message.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, countEvents, makeGate, makeTool } from '../../support/engine/agents.ts';
import { answerWith, recordRequests } from '../../support/engine/models.ts';

function makeAgent(finishers: Finisher[], host = new ManualHost()) {
  const { model, requests } = recordRequests(answerWith((_, before) => ({ text: `answer ${before}` })));
  const store = memory();
  return { agent: createAgent({ name: 'a', host, store, model, finishers }), requests, store, host };
}

describe('finishers', () => {
  test('run in order over the answer, and their text becomes the answer', async () => {
    const { agent } = makeAgent([
      ({ text }) => ({ text: `${text}!` }),
      () => undefined,
      async ({ text }) => ({ text: `${text}?` }),
    ]);
    expect(await agent.run('go')).toMatchObject({ status: 'finished', text: 'answer 0!?' });
  });

  test('receive the results of all rounds and the whole transcript', async () => {
    const inputs: FinisherInput[] = [];
    const host = new ManualHost();
    const agent = createAgent({
      name: 'a',
      host,
      model: scripted([calls('read'), calls('read'), { text: 'done' }]),
      tools: [makeTool('read', { sideEffect: 'none' })],
      finishers: [
        input => {
          inputs.push(input);
          return undefined;
        },
      ],
    });
    const run = await agent.start('go');
    await run.settled();
    expect(inputs).toHaveLength(1);
    expect(inputs[0]).toMatchObject({
      runId: run.id,
      text: 'done',
      results: [
        { callId: 'call_0_0', name: 'read', output: 'read ran' },
        { callId: 'call_1_0', name: 'read', output: 'read ran' },
      ],
    });
    expect(inputs[0]?.transcript).toHaveLength(6);
  });

  test('that reject an answer send their feedback to the model, which answers again', async () => {
    const { agent, requests } = makeAgent([
      ({ text }) => (text === 'answer 0' ? { reject: 'Name your source.' } : undefined),
    ]);
    expect(await agent.run('go')).toMatchObject({ status: 'finished', text: 'answer 1' });
    expect(requests[1]?.transcript.map(textOf)).toEqual(['go', 'answer 0', 'Name your source.']);
  });

  test('that reject three answers fail the run', async () => {
    const { agent, requests, store } = makeAgent([() => ({ reject: 'Again.' })]);
    const run = await agent.start('go');
    expect(await run.settled()).toMatchObject({
      status: 'failed',
      error: { code: 'finishers-rejected' },
    });
    expect(requests).toHaveLength(3);
    expect(await countEvents(store, run.id, 'finishers.rejected')).toBe(3);
  });

  test('that throw reject the answer, and later finishers do not run', async () => {
    let behind = 0;
    const { agent, requests } = makeAgent([
      () => {
        throw new Error('the guard is down');
      },
      () => {
        behind += 1;
        return undefined;
      },
    ]);
    expect((await agent.run('go')).status).toBe('failed');
    expect(behind).toBe(0);
    expect(requests[1]?.transcript.map(textOf).at(-1)).toContain('the guard is down');
  });

  test('run again after a message that arrives while they run', async () => {
    const gate = makeGate();
    let checked = 0;
    const { agent, host } = makeAgent([
      async () => {
        checked += 1;
        if (checked === 1) await gate.promise;
        return undefined;
      },
    ]);
    const run = await agent.start('go');
    await host.idle();
    expect(await run.send('and this')).toEqual({ accepted: true });
    gate.open();
    expect(await run.settled()).toMatchObject({ status: 'finished', text: 'answer 1', unread: [] });
    expect(checked).toBe(2);
  });
});
