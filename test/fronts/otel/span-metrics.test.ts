import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import { expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { instrument } from '../../../fronts/otel/index.ts';
import { calls, makeTool } from '../../support/engine/agents.ts';

test('a meter provider gets durations and tokens, with labels from the agent alone', async () => {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  const meterProvider = new MeterProvider({ readers: [reader] });
  const usage = { inputTokens: 10, outputTokens: 4 };
  const agent = createAgent({
    name: 'a',
    model: scripted({
      turns: [
        { ...calls(['pay', { to: 'secret' }]), usage },
        { text: 'secret', usage },
      ],
    }),
    tools: [makeTool('pay', { approval: true })],
  });
  const run = await instrument(agent, { meterProvider }).start('secret');
  await run.settled();
  await run.approve('call_0_0', { by: 'secret' });
  await run.settled();
  await meterProvider.forceFlush();
  const scopes = exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics);
  const metrics = scopes.flatMap(scope => scope.metrics);
  const countOf = (value: unknown) =>
    typeof value === 'number' ? value : (value as { count: number }).count;
  const counts = metrics.map(({ descriptor, dataPoints }) => [
    descriptor.name,
    dataPoints.reduce((sum, { value }) => sum + countOf(value), 0),
  ]);
  expect(Object.fromEntries(counts)).toEqual({
    'gen_ai.invoke_agent.duration': 2,
    'gen_ai.invoke_agent.inference_calls': 2,
    'gen_ai.invoke_agent.tool_calls': 2,
    'gen_ai.client.operation.duration': 2,
    'gen_ai.client.token.usage': 4,
    'gen_ai.execute_tool.duration': 1,
    'agentchart.wait.duration': 1,
    'agentchart.runs': 1,
    'agentchart.decisions.waiting': 0,
  });
  const tokens = metrics.find(({ descriptor }) => descriptor.name === 'gen_ai.client.token.usage');
  const sums = tokens?.dataPoints.map(({ attributes, value }) => [
    attributes['gen_ai.token.type'],
    (value as { sum: number }).sum,
  ]);
  expect(sums).toEqual([
    ['input', 20],
    ['output', 8],
  ]);
  expect(JSON.stringify(metrics)).not.toContain('secret');
  const runs = metrics.find(({ descriptor }) => descriptor.name === 'agentchart.runs');
  const finished = runs?.dataPoints.find(({ value }) => value === 1);
  expect(finished?.attributes).toEqual({ 'agentchart.run.status': 'finished' });
  await meterProvider.shutdown();
});
