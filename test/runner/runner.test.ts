import { describe, expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import type { Item } from '../../protocol/item.ts';
import { type RunnerTurn, turns } from '../../runner/index.ts';
import { calls, makeTool } from '../support/engine/agents.ts';
import { asking, brief, makeAgent, sent } from '../support/tools/asking-agent.ts';

describe('a runner', () => {
  test('sends, yields the turn, runs the body and then the tools, and repeats until a turn has no calls', async () => {
    const { agent, ran, requests } = makeAgent(asking(2));
    const order: string[] = [];
    const runner = turns(agent, 'go');
    for await (const turn of runner) {
      order.push(`turn ${turn.number} after ${requests.length} requests and ${ran.length} tools`);
    }
    expect(order).toEqual([
      'turn 1 after 1 requests and 0 tools',
      'turn 2 after 2 requests and 1 tools',
      'turn 3 after 3 requests and 2 tools',
    ]);
    expect(await runner.done()).toMatchObject({ status: 'finished', text: 'answer 2', turns: 3 });
    expect(sent(requests, 2)).toEqual(['user: go', 'call c0_0', 'result c0_0', 'call c1_0', 'result c1_0']);
  });

  test('yields the turn with its text, calls, finish reason and items', async () => {
    const { agent } = makeAgent(scripted([{ text: 'I look.', ...calls('read') }, { text: 'Done.' }]));
    const seen: RunnerTurn[] = [];
    for await (const turn of turns(agent, 'go')) seen.push(turn);
    expect(seen).toMatchObject([
      { number: 1, text: 'I look.', finishReason: 'tool_calls', toolCalls: [{ name: 'read' }] },
      { number: 2, text: 'Done.', finishReason: 'stop', toolCalls: [] },
    ]);
    expect(seen[0]?.items.map(({ type }) => type)).toEqual(['message', 'tool_call']);
  });

  test('keeps the reply unless the body changes the transcript, which then replaces it', async () => {
    const { agent, ran, requests } = makeAgent(asking(1));
    for await (const turn of turns(agent, 'go')) {
      if (turn.number === 1) break;
    }
    const runner = turns(agent, 'go');
    const before = requests.length;
    for await (const turn of runner) if (turn.number === 1) runner.pushMessages('Say it shorter.');
    expect(sent(requests, before + 1)).toEqual(['user: go', 'user: Say it shorter.']);
    expect(ran).toEqual([]);
    expect(await runner.done()).toMatchObject({ status: 'finished' });
  });

  test('yields with a turn why its request did not begin with the one before it', async () => {
    const { agent } = makeAgent(asking(1));
    const runner = turns(agent, 'go');
    const causes: (string | undefined)[] = [];
    for await (const turn of runner) {
      causes.push(turn.broken?.by);
      if (turn.number === 1) runner.setMessagesParams({ instructions: 'Be loud.' });
    }
    expect(causes).toEqual([undefined, 'instructions']);
  });

  test('runs the calls of a pushed reply, and inserts the results before later items', async () => {
    const { agent, ran, requests } = makeAgent(asking(1));
    const runner = turns(agent, 'go');
    for await (const turn of runner) {
      if (turn.number === 1) runner.pushMessages(...turn.items, 'And mind the date.');
    }
    expect(sent(requests, 1)).toEqual(['user: go', 'call c0_0', 'result c0_0', 'user: And mind the date.']);
    expect(ran).toEqual(['c0_0']);
  });

  test('sends the next request when both reply and response were pushed', async () => {
    const { agent, ran, requests } = makeAgent(asking(1, ['read', 'read']));
    const runner = turns(agent, 'go');
    for await (const turn of runner) {
      if (turn.number > 1) continue;
      const response = await runner.generateToolResponse();
      expect(brief(response ?? [])).toEqual(['result c0_0', 'result c0_1']);
      expect(await runner.generateToolResponse()).toBe(response);
      expect(brief(runner.params.messages)).toEqual(['user: go']);
      runner.pushMessages(...turn.items, ...(response ?? []), 'Go on.');
    }
    expect(ran).toEqual(['c0_0', 'c0_1']);
    expect(sent(requests, 1)).toEqual([
      'user: go',
      'call c0_0',
      'call c0_1',
      'result c0_0',
      'result c0_1',
      'user: Go on.',
    ]);
  });

  test('runs nothing twice when the response was made and only the reply was pushed, or nothing', async () => {
    for (const push of [true, false]) {
      const { agent, ran, requests } = makeAgent(asking(1));
      const runner = turns(agent, 'go');
      for await (const turn of runner) {
        if (turn.number > 1) continue;
        await runner.generateToolResponse();
        if (push) runner.pushMessages(...turn.items);
      }
      expect(ran).toEqual(['c0_0']);
      expect(sent(requests, 1)).toEqual(['user: go', 'call c0_0', 'result c0_0']);
    }
  });

  test('returns null for a turn without calls', async () => {
    const { agent } = makeAgent(asking(0));
    const runner = turns(agent, 'go');
    for await (const _ of runner) expect(await runner.generateToolResponse()).toBeNull();
  });

  test('runs calls that the body pushed into the transcript', async () => {
    const { agent, ran, requests } = makeAgent(asking(0));
    const runner = turns(agent, 'go');
    for await (const turn of runner) {
      if (turn.number > 1) continue;
      runner.pushMessages({ type: 'tool_call', callId: 'mine', name: 'read', arguments: '{}' });
    }
    expect(ran).toEqual(['mine']);
    expect(sent(requests, 1)).toEqual(['user: go', 'call mine', 'result mine']);
  });

  test('continues after an answer when the body pushes a message', async () => {
    const { agent, requests } = makeAgent(asking(0));
    const runner = turns(agent, 'go');
    for await (const turn of runner) if (turn.number === 1) runner.pushMessages(...turn.items, 'And then?');
    expect(sent(requests, 1)).toEqual(['user: go', 'assistant: answer 0', 'user: And then?']);
    expect(await runner.done()).toMatchObject({ status: 'finished', text: 'answer 1' });
  });

  test('keeps the reply when only settings change, and uses them in later turns', async () => {
    const { agent, requests } = makeAgent(asking(1), { settings: { temperature: 1 } });
    const runner = turns(agent, 'go');
    for await (const turn of runner) {
      if (turn.number === 1)
        runner.setMessagesParams({ settings: { maxOutputTokens: 9 }, instructions: 'Be brief.' });
    }
    expect(requests[0]?.settings).toEqual({ temperature: 1 });
    expect(requests[1]).toMatchObject({ settings: { maxOutputTokens: 9 }, instructions: 'Be brief.' });
    expect(sent(requests, 1)).toEqual(['user: go', 'call c0_0', 'result c0_0']);
  });

  test('sends the transcript that the body set', async () => {
    const { agent, requests } = makeAgent(asking(0));
    const runner = turns(agent, 'go');
    for await (const turn of runner) {
      if (turn.number === 1)
        runner.setMessagesParams(({ messages }) => ({ messages: [...messages.slice(1), say('anew')] }));
    }
    expect(sent(requests, 1)).toEqual(['user: anew']);
  });

  test('refuses an invalid edit, and the run can be resumed', async () => {
    const { agent } = makeAgent(asking(1));
    const runner = turns(agent, 'go');
    const iterating = (async () => {
      for await (const _ of runner)
        runner.pushMessages({ type: 'tool_result', callId: 'x', output: 1, isError: false });
    })();
    await expect(iterating).rejects.toMatchObject({
      code: 'input-invalid',
      message: expect.stringContaining('result of call x'),
    });
    expect(await runner.run.settled()).toMatchObject({ status: 'waiting', paused: true });
    const numbers: number[] = [];
    for await (const turn of turns(agent, { runId: runner.run.id })) numbers.push(turn.number);
    expect(numbers, 'the body whose edit was refused is entered again').toEqual([1, 2]);
  });

  test('refuses a reply that was pushed twice, because its calls would be duplicated', async () => {
    const { agent, ran } = makeAgent(asking(1));
    const runner = turns(agent, 'go');
    const iterating = (async () => {
      for await (const turn of runner) runner.pushMessages(...turn.items, ...turn.items);
    })();
    await expect(iterating).rejects.toMatchObject({
      code: 'input-invalid',
      message: expect.stringContaining('c0_0 occurs 2 times'),
    });
    expect(ran).toEqual([]);
  });

  test('waits for a response that the body requested and did not await', async () => {
    const { agent, ran, requests } = makeAgent(asking(1));
    const runner = turns(agent, 'go');
    for await (const turn of runner) {
      if (turn.number > 1) continue;
      void runner.generateToolResponse();
      runner.pushMessages(...turn.items, 'and more');
    }
    expect(sent(requests, 1)).toEqual(['user: go', 'call c0_0', 'result c0_0', 'user: and more']);
    expect(ran).toEqual(['c0_0']);
  });

  test('ends at maxTurns with results for all calls', async () => {
    const { agent, ran } = makeAgent(asking(9));
    const runner = turns(agent, 'go', { maxTurns: 2 });
    let seen = 0;
    for await (const _ of runner) seen += 1;
    expect(seen).toBe(2);
    expect(ran).toEqual(['c0_0', 'c1_0']);
    expect(await runner.done()).toMatchObject({ status: 'finished', incomplete: { reason: 'turns' } });
    expect(brief(runner.run.context.transcript).at(-1)).toBe('result c1_0');
  });

  test('settles done after a break, and the run resumes at the same turn', async () => {
    const { agent, ran } = makeAgent(asking(1));
    const runner = turns(agent, 'go');
    for await (const turn of runner) {
      runner.pushMessages('lost with the body');
      if (turn.number === 1) break;
    }
    expect(await runner.done()).toMatchObject({ status: 'waiting', paused: true });
    expect(ran).toEqual([]);
    const again = turns(agent, { runId: runner.run.id });
    const numbers: number[] = [];
    for await (const turn of again) numbers.push(turn.number);
    expect(numbers).toEqual([1, 2]);
    expect(ran).toEqual(['c0_0']);
    expect(await again.done()).toMatchObject({ status: 'finished', text: 'answer 1' });
  });

  test('repeats a body that threw when the run is resumed, but not a body that completed', async () => {
    const { agent } = makeAgent(asking(2));
    const runner = turns(agent, 'go');
    const failing = (async () => {
      for await (const turn of runner) if (turn.number === 2) throw new Error('the body is broken');
    })();
    await expect(failing).rejects.toThrow('the body is broken');
    await runner.done();
    const numbers: number[] = [];
    for await (const turn of turns(agent, { runId: runner.run.id })) numbers.push(turn.number);
    expect(numbers).toEqual([2, 3]);
  });

  test('iterates itself with runUntilDone, and can be iterated only once', async () => {
    const { agent } = makeAgent(asking(1));
    const runner = turns(agent, 'go');
    expect(await runner.runUntilDone()).toMatchObject({ status: 'finished', text: 'answer 1' });
    expect(() => runner[Symbol.asyncIterator]()).toThrow('can be iterated once');
  });

  test('retry runs a failed call again with its key, and no other call of the turn', async () => {
    const keys: string[] = [];
    let broken = true;
    const flaky = makeTool('flaky', {
      sideEffect: 'once',
      run: (_, { key }) => {
        keys.push(key);
        if (broken) throw new Error('try me again');
        return 'well';
      },
    });
    const { agent, ran, requests } = makeAgent(asking(1, ['read', 'flaky']));
    const with2 = createAgent({ ...agent.options, tools: [...(agent.options.tools ?? []), flaky] });
    const runner = turns(with2, 'go');
    for await (const turn of runner) {
      if (turn.number > 1) continue;
      const first = await runner.generateToolResponse();
      expect(first?.map(({ isError }) => isError)).toEqual([false, true]);
      broken = false;
      const second = await runner.retry('c0_1');
      expect(second?.map(({ isError, output }) => [isError, output])).toEqual([
        [false, 'result of c0_0'],
        [false, 'well'],
      ]);
    }
    expect(ran).toEqual(['c0_0']);
    expect(keys).toHaveLength(2);
    expect(new Set(keys).size).toBe(1);
    expect(sent(requests, 1)).toEqual(['user: go', 'call c0_0', 'call c0_1', 'result c0_0', 'result c0_1']);
  });

  test('stops when a call waits for approval, and continues when the run is resumed', async () => {
    const { agent, ran } = makeAgent(asking(1));
    const gated = makeTool('read', { approval: true, run: (_, { callId }) => void ran.push(callId) });
    const careful = createAgent({ ...agent.options, tools: [gated] });
    const runner = turns(careful, 'go');
    for await (const _ of runner) {
      await expect(runner.generateToolResponse()).rejects.toMatchObject({ code: 'refused' });
    }
    expect(await runner.done()).toMatchObject({ status: 'waiting', approvals: [{ callId: 'c0_0' }] });
    await runner.run.approve('c0_0');
    const texts: string[] = [];
    for await (const turn of turns(careful, { runId: runner.run.id })) texts.push(turn.text);
    expect(texts).toEqual(['answer 1']);
    expect(ran).toEqual(['c0_0']);
  });

  test('runs a call that was approved in the body', async () => {
    const { agent, ran } = makeAgent(asking(1));
    const gated = makeTool('read', { approval: true, run: (_, { callId }) => void ran.push(callId) });
    const runner = turns(createAgent({ ...agent.options, tools: [gated] }), 'go');
    for await (const turn of runner) {
      for (const { callId } of turn.toolCalls) await runner.run.approve(callId);
    }
    expect(await runner.done()).toMatchObject({ status: 'finished' });
    expect(ran).toEqual(['c0_0']);
  });
});

function say(text: string): Item {
  return { type: 'message', role: 'user', content: [{ type: 'text', text }] };
}
