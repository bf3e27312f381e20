import { AsyncLocalStorage } from 'node:async_hooks';
import { type Context, context, ROOT_CONTEXT } from '@opentelemetry/api';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { instrument } from '../../../fronts/otel/index.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { Tool } from '../../../protocol/tool.ts';
import { calls, makeTool } from '../../support/engine/agents.ts';
import { recordSpans } from '../../support/fronts/otel/record-spans.ts';

beforeAll(() => {
  const active = new AsyncLocalStorage<Context>();
  const manager = {
    active: () => active.getStore() ?? ROOT_CONTEXT,
    with: (within: Context, run: (...args: never[]) => unknown, self: unknown, ...args: never[]) =>
      active.run(within, () => run.apply(self, args)),
    bind: (_: Context, target: unknown) => target,
    enable: () => manager,
    disable: () => manager,
  };
  context.setGlobalContextManager(manager as never);
});
afterAll(() => context.disable());

type Recorded = ReturnType<typeof recordSpans>;

/** What an instrumented client does: it starts a span below the one that is active. */
const fetchSomething = ({ tracerProvider }: Recorded, name: string) =>
  tracerProvider.getTracer('http').startSpan(name).end();

/** A model that makes an HTTP request for each call, and one for each part of a stream. */
function requesting(recorded: Recorded, model: ModelAdapter): ModelAdapter {
  return {
    ...model,
    async generate(request, options) {
      fetchSomething(recorded, 'POST');
      return await model.generate(request, options);
    },
    async *stream(request, options) {
      for await (const delta of model.stream(request, options)) {
        fetchSomething(recorded, 'POST');
        yield delta;
      }
    },
  };
}

/** The names of the spans above each span of this name. */
function parentsOf({ spans }: Recorded, name: string) {
  const found = spans().filter(span => span.name === name);
  return found.map(({ parentSpanId, traceId }) =>
    spans().find(span => span.spanId === parentSpanId && span.traceId === traceId),
  );
}

test('spans that a tool starts are below its call, whose trace context it gets', async () => {
  const recorded = recordSpans();
  const seen: unknown[] = [];
  const look = makeTool('look', {
    run: (_input, { trace: passed }) => {
      seen.push(passed);
      fetchSomething(recorded, 'query');
      return 'ok';
    },
  });
  const source = { connect: async (): Promise<Tool[]> => [look], close: async () => {} };
  const model = scripted({ turns: [calls('look'), { text: 'done' }] });
  await instrument(createAgent({ name: 'a', model, tools: [source] }), {
    tracerProvider: recorded.tracerProvider,
  }).run('go');
  const [call] = parentsOf(recorded, 'query');
  expect(call?.name).toBe('execute_tool look');
  expect(seen).toEqual([{ traceparent: `00-${call?.traceId}-${call?.spanId}-01` }]);
});

test('spans that an adapter starts are below its model call, streamed or not, also when it is repeated', async () => {
  for (const stream of [true, false]) {
    const recorded = recordSpans();
    const script = [{ error: { code: 'overloaded', times: 1 } } as const, calls('look'), { text: 'done' }];
    const model = requesting(recorded, scripted({ turns: script }));
    const retry = { baseMs: 1, maxMs: 1 };
    const agent = createAgent({ name: 'a', model, retry, tools: [makeTool('look')] });
    await (
      await instrument(agent, { tracerProvider: recorded.tracerProvider }).start('go', { stream })
    ).settled();
    const parents = parentsOf(recorded, 'POST');
    expect(new Set(parents.map(span => span?.name))).toEqual(new Set(['chat script']));
    expect(new Set(parents.map(span => span?.spanId)).size).toBe(stream ? 2 : 3);
    expect(context.active()).toBe(ROOT_CONTEXT);
  }
});

test('spans of a sub-agent’s model and tools are in the trace of the topmost run', async () => {
  const recorded = recordSpans();
  const look = makeTool('look', { run: () => void fetchSomething(recorded, 'query') });
  const below = createAgent({
    name: 'below',
    model: requesting(recorded, scripted({ turns: [calls('look'), { text: 'seen' }] })),
    tools: [look],
  });
  const above = createAgent({
    name: 'above',
    model: scripted({ turns: [calls(['ask', { input: 'look' }]), { text: 'done' }] }),
    tools: [below.asTool({ name: 'ask', description: 'Asks.' })],
  });
  await instrument(above, { tracerProvider: recorded.tracerProvider }).run('go');
  expect(parentsOf(recorded, 'query').map(span => span?.attributes['gen_ai.agent.name'])).toEqual(['below']);
  expect(parentsOf(recorded, 'POST').every(span => span?.name === 'chat script')).toBe(true);
  expect(new Set(recorded.spans().map(({ traceId }) => traceId)).size).toBe(1);
});
