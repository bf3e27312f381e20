import type { Meter, Attributes as MetricAttributes } from '@opentelemetry/api';
import { countRuns, countWaits } from '../../engine/listening/feed-follower.ts';
import type { Store } from '../../protocol/store.ts';
import type { RunSpan } from './run-span.ts';

/** Bucket boundaries of the GenAI conventions, in seconds. */
const AGENT_SECONDS = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6];
const CALL_SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const TOKENS = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864];

/** The labels of a metric: few values each, and nothing that a model, a user or a tool wrote. */
const LABELS = {
  invoke_agent: [
    'gen_ai.operation.name',
    'gen_ai.provider.name',
    'gen_ai.request.model',
    'gen_ai.agent.name',
    'error.type',
  ],
  chat: ['gen_ai.operation.name', 'gen_ai.provider.name', 'gen_ai.request.model', 'error.type'],
  execute_tool: ['gen_ai.operation.name', 'gen_ai.tool.name', 'gen_ai.agent.name', 'error.type'],
} as const;

export function makeSpanMetrics(meter: Meter): (span: RunSpan) => void {
  const seconds = (name: string, boundaries: number[]) =>
    meter.createHistogram(name, { unit: 's', advice: { explicitBucketBoundaries: boundaries } });
  const agentDuration = seconds('gen_ai.invoke_agent.duration', AGENT_SECONDS);
  const modelDuration = seconds('gen_ai.client.operation.duration', CALL_SECONDS);
  const toolDuration = seconds('gen_ai.execute_tool.duration', CALL_SECONDS);
  const modelCalls = meter.createHistogram('gen_ai.invoke_agent.inference_calls', { unit: '{call}' });
  const toolCalls = meter.createHistogram('gen_ai.invoke_agent.tool_calls', { unit: '{call}' });
  const waits = meter.createHistogram('agentchart.wait.duration', { unit: 's' });
  const tokens = meter.createHistogram('gen_ai.client.token.usage', {
    unit: '{token}',
    advice: { explicitBucketBoundaries: TOKENS },
  });
  return span => {
    const { attributes, start, end } = span;
    const duration = (end - start) / 1_000;
    switch (attributes['gen_ai.operation.name']) {
      case 'invoke_agent': {
        const labels = pick(span, LABELS.invoke_agent);
        agentDuration.record(duration, labels);
        modelCalls.record(Number(attributes['agentchart.model_calls']), labels);
        toolCalls.record(Number(attributes['agentchart.tool_calls']), labels);
        return;
      }
      case 'execute_tool':
        return toolDuration.record(duration, pick(span, LABELS.execute_tool));
      case 'chat': {
        const labels = pick(span, LABELS.chat);
        modelDuration.record(duration, labels);
        for (const type of ['input', 'output']) {
          const used = attributes[`gen_ai.usage.${type}_tokens`];
          if (typeof used === 'number') tokens.record(used, { ...labels, 'gen_ai.token.type': type });
        }
        return;
      }
      default:
        if (span.name === 'agentchart.wait')
          waits.record(duration, pick(span, ['agentchart.wait.for', 'agentchart.wait.outcome']));
    }
  };
}

function pick({ attributes }: RunSpan, names: readonly string[]): MetricAttributes {
  return Object.fromEntries(
    names.flatMap(name => (attributes[name] === undefined ? [] : [[name, attributes[name]]])),
  );
}

/** Adds gauges of the runs of a store by status, and of the calls that wait; they are read when metrics are collected. */
export function addStoreMetrics(meter: Meter, store: Store): void {
  meter.createObservableGauge('agentchart.runs', { unit: '{run}' }).addCallback(async result => {
    for (const [status, count] of Object.entries(await countRuns(store)))
      result.observe(count, { 'agentchart.run.status': status });
  });
  meter
    .createObservableGauge('agentchart.decisions.waiting', { unit: '{call}' })
    .addCallback(async result => {
      for (const [type, count] of Object.entries(await countWaits(store)))
        result.observe(count, { 'agentchart.wait.for': type });
    });
}
