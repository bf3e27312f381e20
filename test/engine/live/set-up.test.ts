import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { EngineError } from '../../../protocol/error.ts';
import type { ToolSource } from '../../../protocol/tool.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, makeTool } from '../../support/engine/agents.ts';
import { answersTo, begin, makeAgent, rest, resume, unpause } from '../../support/engine/live-actors.ts';
import { answerWith } from '../../support/engine/models.ts';

describe('what cannot be set up', () => {
  test('a model without its key lets the run rest with the reason, and the call is made once there is one', async () => {
    const host = new ManualHost();
    let hasKey = false;
    const model = answerWith(() => {
      if (hasKey) return { text: 'done' };
      throw new EngineError('key-missing', 'Set OPENAI_API_KEY.');
    });
    const actor = begin(makeAgent({ turns: [], model }, host), 'go');
    await rest(host, actor);
    expect(actor.getSnapshot().context.quarantined).toBe('Set OPENAI_API_KEY.');
    hasKey = true;
    unpause(actor, host);
    await rest(host, actor);
    expect(actor.getSnapshot().output).toMatchObject({ status: 'finished', text: 'done', turns: 1 });
  });

  test('a tool server that is away when a call may run lets the run rest with the reason', async () => {
    const host = new ManualHost();
    const script = { turns: [calls('act'), { text: 'done' }] };
    const first = begin(makeAgent(script, host), 'go');
    await rest(host, first);
    let isThere = false;
    const server: ToolSource = {
      connect: async () => {
        if (isThere) return [];
        throw new Error('desk is away');
      },
      close: async () => {},
    };
    const agent = createAgent({
      name: 'a',
      host,
      model: scripted(script.turns),
      tools: [makeTool('act', { approval: true }), server],
    });
    const second = resume(agent, JSON.parse(JSON.stringify(first.getPersistedSnapshot())));
    for (const answer of answersTo(second.getSnapshot().context, host.now())) second.send(answer);
    await rest(host, second);
    expect(second.getSnapshot().context.quarantined).toBe('desk is away');
    isThere = true;
    unpause(second, host);
    await rest(host, second);
    expect(second.getSnapshot().output).toMatchObject({ status: 'finished', results: [{ isError: false }] });
  });
});
