import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import { textOf } from '../../../protocol/message.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, countEvents, makeTool } from '../../support/engine/agents.ts';
import { answerWith, recordRequests } from '../../support/engine/models.ts';

const verdict = z.object({ order: z.string(), cents: z.number().int() });
const GOOD = { order: 'A-1', cents: 9900 };

function makeAgent(turns: Parameters<typeof scripted>[0], options: Partial<AgentOptions> = {}) {
  const { model, requests } = recordRequests(scripted(turns));
  const store = memory();
  const agent = createAgent({ name: 'a', host: new ManualHost(), store, model, output: verdict, ...options });
  return { agent, requests, store };
}

const say = (value: JsonValue) => ({ text: JSON.stringify(value) });

describe('an agent with an output schema', () => {
  test('settles with the validated value next to the text, and sends the schema to the provider', async () => {
    const { agent, requests } = makeAgent([say(GOOD)]);
    expect(await agent.run('go')).toMatchObject({
      status: 'finished',
      text: JSON.stringify(GOOD),
      output: GOOD,
    });
    expect(requests[0]?.output).toMatchObject({
      name: 'answer',
      schema: { type: 'object', required: ['order', 'cents'] },
    });
  });

  test('accepts an answer in a code fence, and returns the output of the schema', async () => {
    const doubled = z.object({ n: z.number().transform(n => n * 2) });
    const { agent } = makeAgent([{ text: '```json\n{"n": 4}\n```' }], { output: doubled });
    expect(await agent.run('go')).toMatchObject({ status: 'finished', output: { n: 8 } });
  });

  test.each([
    ['no JSON', { text: 'It was A-1.' }, 'not valid JSON'],
    ['a value of the wrong shape', say({ order: 'A-1', cents: 'many' }), 'cents:'],
  ])('returns %s to the model with the problem, and accepts the next answer', async (_, bad, feedback) => {
    const { agent, requests, store } = makeAgent([bad, say(GOOD)]);
    const run = await agent.start('go');
    expect(await run.settled()).toMatchObject({ status: 'finished', output: GOOD });
    expect(requests[1]?.transcript.map(textOf).at(-1)).toContain(feedback);
    expect(await countEvents(store, run.id, 'answer.blocked')).toBe(1);
  });

  test('fails with output-invalid after three rejected answers', async () => {
    const { agent, requests } = makeAgent([{ text: 'a' }, { text: 'b' }, { text: 'c' }, { text: 'd' }]);
    expect(await agent.run('go')).toMatchObject({
      status: 'failed',
      error: {
        code: 'output-invalid',
        message: expect.stringContaining('the answer was refused 3 times, most recently: '),
      },
    });
    expect(requests).toHaveLength(3);
  });

  test('validates the answer after tool calls, and after the guardrails have changed the text', async () => {
    const { agent } = makeAgent([calls('read'), { text: 'order A-1' }], {
      tools: [makeTool('read', { sideEffect: 'none' })],
      guardrails: { answer: () => ({ type: 'replace', value: JSON.stringify(GOOD) }) },
    });
    expect(await agent.run('go')).toMatchObject({ output: GOOD, text: JSON.stringify(GOOD) });
  });

  test('does not constrain planning turns when the final answer is separate', async () => {
    const { model, requests } = recordRequests(
      answerWith((_, before) => (before === 0 ? { text: 'a draft' } : say(GOOD))),
    );
    const options = { host: new ManualHost(), model, output: verdict, finalAnswer: 'separate' } as const;
    expect(await createAgent({ name: 'a', ...options }).run('go')).toMatchObject({ output: GOOD });
    expect(requests.map(request => request.output?.name)).toEqual([undefined, 'answer']);
  });

  test.each(['length', 'content_filter'] as const)(
    'leaves an answer cut off by %s without an output, and does not ask again',
    async finishReason => {
      const { agent, requests } = makeAgent([{ text: '{"order": "A', finishReason }]);
      const settled = await agent.run('go');
      expect(settled).toMatchObject({ status: 'finished', incomplete: { reason: finishReason } });
      expect(settled).not.toHaveProperty('output');
      expect(requests).toHaveLength(1);
    },
  );

  test('accepts no answer when its validator throws', async () => {
    const broken = { ...verdict, '~standard': { ...verdict['~standard'], validate: () => fail() } };
    const { agent } = makeAgent([say(GOOD), say(GOOD), say(GOOD)], { output: broken });
    expect(await agent.run('go')).toMatchObject({ status: 'failed', error: { code: 'output-invalid' } });
  });

  test.each([
    ['an array', z.array(z.string()), 'type "object" at the top level'],
    ['no schema', {} as typeof verdict, 'must be a Standard Schema'],
  ])('of %s is refused when the agent is created', (_, output, message) => {
    expect(() => makeAgent([], { output })).toThrow(
      expect.objectContaining({ code: 'agent-invalid', message: expect.stringContaining(message) }),
    );
  });
});

function fail(): never {
  throw new Error('the validator is down');
}
