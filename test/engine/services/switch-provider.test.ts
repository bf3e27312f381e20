import { describe, expect, test } from 'vitest';
import { createAgent } from '../../../agent/agent.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import { ProviderError } from '../../../protocol/error.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { makeTool } from '../../support/engine/agents.ts';
import { answerWith } from '../../support/engine/models.ts';

const sealed = (provider: string, id: string): Item => ({
  type: 'reasoning',
  id,
  text: 'hm',
  opaque: { provider, data: `sealed by ${provider}` },
});

/** Calls a tool in its first `rounds` turns; each turn has an item that only its provider can read. */
function sealing(provider: string, rounds: number, failAt?: number): ModelAdapter {
  return answerWith(
    (_, before) => {
      if (before === failAt) throw refused(provider);
      const items = [sealed(provider, `${provider}-${before}`)];
      if (before >= rounds) return { text: `by ${provider}`, items: [...items, says(`by ${provider}`)] };
      const callId = `${provider}_${before}`;
      const call: Item = { type: 'tool_call', callId, name: 'read', arguments: '{}' };
      return { toolCalls: [{ callId, name: 'read' }], items: [...items, call] };
    },
    { provider, model: `${provider}-1` },
  );
}

const says = (text: string): Item => ({
  type: 'message',
  role: 'assistant',
  content: [{ type: 'text', text }],
});

function refused(provider: string): ProviderError {
  return new ProviderError('no quota', {
    code: 'quota',
    status: 429,
    retryable: false,
    retryAfterMs: null,
    provider,
    model: `${provider}-1`,
    raw: null,
  });
}

type Completed = Extract<RunEvent, { type: 'turn.completed' }>;

async function completedTurns(model: ModelAdapter[], options: { prepareModel?: ModelAdapter } = {}) {
  const store = memory();
  const { prepareModel } = options;
  const agent = createAgent({
    name: 'a',
    host: new ManualHost(),
    store,
    model,
    tools: [makeTool('read', { sideEffect: 'none' })],
    ...(prepareModel && {
      prepareTurn: ({ turns }: { turns: number }) => (turns === 1 ? { model: prepareModel } : undefined),
    }),
  });
  const run = await agent.start('go');
  const settled = await run.settled();
  const events = (await store.read(run.id)).map(({ event }) => event);
  return { settled, turns: events.filter((event): event is Completed => event.type === 'turn.completed') };
}

describe('a provider that takes over during a run', () => {
  test('continues from the transcript, and its first turn names the items that were dropped', async () => {
    const { settled, turns } = await completedTurns([sealing('north', 9, 2), sealing('south', 1)]);
    expect(settled).toMatchObject({ status: 'finished', text: 'by south' });
    expect(turns.map(({ provider, dropped }) => [provider, dropped])).toEqual([
      ['north', undefined],
      ['north', undefined],
      ['south', ['north-0', 'north-1']],
      ['south', undefined],
    ]);
  });

  test('for one turn only drops items in both directions', async () => {
    const { turns } = await completedTurns([sealing('north', 2)], { prepareModel: sealing('south', 1) });
    expect(turns.map(({ provider, dropped }) => [provider, dropped])).toEqual([
      ['north', undefined],
      ['south', ['north-0']],
      ['north', ['south-0']],
      ['north', undefined],
    ]);
  });
});
