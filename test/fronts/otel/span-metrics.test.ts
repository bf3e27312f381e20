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
import { recordSpans } from '../../support/fronts/otel/record-spans.ts';

test('a meter provider gets durations and tokens, with labels from the agent alone', async () => {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  const meterProvider = new MeterProvider({ readers: [reader] });
  const usage = { inputTokens: 10, outputTokens: 4, cachedInputTokens: 3 };
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
    'gen_ai.client.inference.duration': 2,
    'gen_ai.client.inference.time_to_first_chunk': 2,
    'gen_ai.client.inference.time_per_output_chunk': expect.any(Number),
    'gen_ai.client.inference.usage.input_tokens': 20,
    'gen_ai.client.inference.usage.output_tokens': 8,
    'gen_ai.client.inference.usage.cache_read.input_tokens': 6,
    'gen_ai.client.inference.usage.cache_write.input_tokens': 0,
    'gen_ai.client.inference.usage.reasoning.output_tokens': 0,
    'gen_ai.execute_tool.duration': 1,
    'agentchart.wait.duration': 1,
    'agentchart.runs': 1,
    'agentchart.decisions.waiting': 0,
  });
  const labelsOf = (name: string) =>
    metrics
      .find(({ descriptor }) => descriptor.name === name)
      ?.dataPoints.map(({ attributes }) => attributes);
  const call = {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'scripted',
    'gen_ai.request.model': 'script',
  };
  const answered = { ...call, 'gen_ai.response.model': 'script' };
  expect(labelsOf('gen_ai.client.inference.duration')).toEqual([answered]);
  expect(labelsOf('gen_ai.client.inference.time_to_first_chunk')).toEqual([call]);
  expect(labelsOf('gen_ai.client.inference.usage.input_tokens')).toEqual([
    { ...answered, 'gen_ai.token.modality': 'unknown' },
  ]);
  expect(labelsOf('gen_ai.invoke_agent.duration')).toEqual([
    { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': 'a' },
  ]);
  expect(JSON.stringify(metrics)).not.toContain('secret');
  const runs = metrics.find(({ descriptor }) => descriptor.name === 'agentchart.runs');
  const finished = runs?.dataPoints.find(({ value }) => value === 1);
  expect(finished?.attributes).toEqual({ 'agentchart.run.status': 'finished' });
  await meterProvider.shutdown();
});

test('tokens that the provider did not report count as 0, also if the engine estimates them', async () => {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  const meterProvider = new MeterProvider({ readers: [reader] });
  const { tracerProvider, spans } = recordSpans();
  const agent = createAgent({ name: 'a', model: scripted([{ text: 'done' }]), onUnknownUsage: 'estimate' });
  await instrument(agent, { meterProvider, tracerProvider }).run('go');
  await meterProvider.forceFlush();
  const metrics = exporter
    .getMetrics()
    .flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(one => one.metrics));
  const tokens = metrics.filter(({ descriptor }) => descriptor.name.includes('.usage.'));
  expect(tokens.map(({ dataPoints }) => dataPoints.map(({ value }) => value))).toEqual([
    [0],
    [0],
    [0],
    [0],
    [0],
  ]);
  const [chat, drive] = spans();
  for (const span of [chat, drive])
    expect(span?.attributes).toMatchObject({
      'gen_ai.usage.input_tokens': expect.any(Number),
      'agentchart.usage.estimated': true,
    });
  await meterProvider.shutdown();
});
