import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import type { Tool } from '../../../protocol/tool.ts';
import type { ModelTurn } from '../../../protocol/turn.ts';
import { memory } from '../../../stores/memory.ts';
import { mcp } from '../../../tools/mcp.ts';
import { calls, makeTool, resultsIn } from '../../support/engine/agents.ts';
import { recordRequests } from '../../support/engine/models.ts';
import { hostileServer, toolWith } from '../../support/tools/hostile-server.ts';

const nested = (levels: number) => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`;

/** Replaces the parsed input of each call by a deeply nested value that differs from its text. */
function deepen(turn: ModelTurn): ModelTurn {
  const toolCalls = turn.toolCalls.map(call => ({ ...call, input: JSON.parse(nested(5_000)) }));
  return { ...turn, toolCalls };
}

/** Runs an agent, and returns what the model reads as the result of its only call. */
async function readAfter(model: ModelAdapter, tools: Parameters<typeof createAgent>[0]['tools']) {
  const store = memory();
  const { model: recorded, requests } = recordRequests(model);
  const run = await createAgent({ name: 'a', store, model: recorded, tools: tools ?? [] }).start('go');
  const settled = await run.settled();
  return { settled, read: resultsIn(requests[1]?.transcript ?? []).call_0_0 };
}

function makeSpy(run: () => unknown = () => 'ran'): { tool: Tool; ran: JsonValue[] } {
  const ran: JsonValue[] = [];
  const tool = makeTool('act', {
    run: (input: unknown) => {
      ran.push(input as JsonValue);
      return run();
    },
  });
  return { tool, ran };
}

describe('a value with thousands of nesting levels', () => {
  test('is refused as call arguments, and the model reads why', async () => {
    const { tool, ran } = makeSpy();
    const model = scripted([calls(['act', nested(5_000)]), { text: 'done' }]);
    const { settled, read } = await readAfter(model, [tool]);
    expect(settled.status).toBe('finished');
    expect(read).toContain('nested more than 200 levels deep');
    expect(ran).toEqual([]);
  });

  test('is refused as the input from a custom adapter', async () => {
    const { tool, ran } = makeSpy();
    const inner = scripted([calls(['act', '{}']), { text: 'done' }]);
    const model: ModelAdapter = {
      ...inner,
      async *stream(request, options) {
        for await (const delta of inner.stream(request, options)) {
          yield delta.type === 'turn' ? { type: 'turn', turn: deepen(delta.turn) } : delta;
        }
      },
    };
    const { settled, read } = await readAfter(model, [tool]);
    expect(settled.status).toBe('finished');
    expect(read).toContain('nested more than 200 levels deep');
    expect(ran).toEqual([]);
  });

  test.each([300, 5_000, 100_000])(
    'becomes an error for the model when a tool returns it (%i levels)',
    async levels => {
      const { tool, ran } = makeSpy(() => JSON.parse(nested(levels)));
      const { settled, read } = await readAfter(scripted([calls(['act', '{}']), { text: 'done' }]), [tool]);
      expect(settled).toMatchObject({ status: 'finished', results: [{ isError: true }] });
      expect(read).toBe(
        'The tool ran, but its result could not be recorded: the value is nested more than 200 levels deep',
      );
      expect(ran).toHaveLength(1);
    },
  );
});

describe('arguments that are only partly validated', () => {
  test('are named in the result that the model reads, and not in the output', async () => {
    const schema = { type: 'object', properties: { a: { type: 'string', pattern: '(?=b)c' } } };
    const source = mcp({
      ...hostileServer({ tools: toolWith(schema) }),
      tools: { act: { sideEffect: 'none' } },
    });
    const model = scripted([calls(['act', '{"a":"zz"}']), { text: 'done' }]);
    const { settled, read } = await readAfter(model, [source]);
    expect(settled).toMatchObject({ results: [{ output: 'done', isError: false }] });
    expect(read).toBe('[Not checked before the call, but left to the server: the pattern "(?=b)c".]\ndone');
    await source.close();
  });
});
