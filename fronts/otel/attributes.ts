import type { Call, Context } from '../../machines/context.ts';
import { statusOf } from '../../machines/status.ts';
import type { ChartState } from '../../machines/step.ts';
import type { RunEvent } from '../../protocol/event.ts';
import type { Item, Part } from '../../protocol/item.ts';
import { type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { Usage } from '../../protocol/turn.ts';
import type { Attributes } from './run-span.ts';

/**
 * Attributes by the GenAI conventions of OpenTelemetry, in development.
 * Source: https://github.com/open-telemetry/semantic-conventions-genai
 */

const PROVIDERS: Readonly<Record<string, string>> = {
  'openai-chat': 'openai',
  'openai-responses': 'openai',
  azure: 'azure.ai.openai',
  gemini: 'gcp.gemini',
  mistral: 'mistral_ai',
  xai: 'x_ai',
};

/** The well-known name of a provider in the conventions; else the adapter's own. */
function providerName(provider: string): string {
  return PROVIDERS[provider] ?? provider;
}

/** The tokens that a model call or a drive used. Unknown counts are left out. */
function usageAttributes(usage: Usage | null): Attributes {
  if (usage === null) return {};
  const counts = {
    'gen_ai.usage.input_tokens': usage.inputTokens,
    'gen_ai.usage.output_tokens': usage.outputTokens,
    'gen_ai.usage.cache_read.input_tokens': usage.cachedInputTokens,
    'gen_ai.usage.cache_write.input_tokens': usage.cacheWriteTokens,
    'gen_ai.usage.reasoning.output_tokens': usage.reasoningTokens,
  };
  return Object.fromEntries(Object.entries(counts).filter(entry => entry[1] !== null)) as Attributes;
}

/** The sum of two usages; a count that either does not know is unknown. */
export function addUsage(sum: Usage | null, usage: Usage | null): Usage | null {
  if (sum === null || usage === null) return sum ?? usage;
  const add = (a: number | null, b: number | null) => (a === null || b === null ? null : a + b);
  return {
    inputTokens: sum.inputTokens + usage.inputTokens,
    outputTokens: sum.outputTokens + usage.outputTokens,
    cachedInputTokens: add(sum.cachedInputTokens, usage.cachedInputTokens),
    cacheWriteTokens: add(sum.cacheWriteTokens, usage.cacheWriteTokens),
    reasoningTokens: add(sum.reasoningTokens, usage.reasoningTokens),
  };
}

type Turned = Extract<RunEvent, { type: 'turn.completed' | 'turn.failed' }>;

/** A model call. `before` is the context before it; `cost` is its cost, in the unit of the prices. */
export function chatAttributes(event: Turned, before: Context, cost: number): Attributes {
  const asked = before.config.models[before.turn.model];
  const provider = event.type === 'turn.completed' ? event.provider : asked?.provider;
  return {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': providerName(provider ?? 'unknown'),
    'gen_ai.request.model': asked?.model ?? 'unknown',
    'gen_ai.request.stream': before.stream,
    'agentchart.turn': before.turn.number,
    'agentchart.attempt': before.turn.attempt,
    ...(event.type === 'turn.failed'
      ? { 'error.type': event.error.code, 'agentchart.retryable': event.retryable }
      : {
          'gen_ai.response.model': event.model,
          'gen_ai.response.finish_reasons': [event.finishReason],
          ...usageAttributes(event.usage),
          ...(cost > 0 && { 'agentchart.cost': cost }),
        }),
  };
}

/** The instructions and messages of a model call, as JSON in the shape of the conventions. */
export function chatContent(
  event: Turned,
  before: Context,
  instructions = before.params.instructions,
): Attributes {
  const input = {
    ...(instructions && {
      'gen_ai.system_instructions': JSON.stringify([{ type: 'text', content: instructions }]),
    }),
    'gen_ai.input.messages': describeItems(before.transcript),
  };
  if (event.type === 'turn.failed') return input;
  return { ...input, 'gen_ai.output.messages': describeItems(event.items) };
}

function describeItems(items: readonly Item[]): string {
  return JSON.stringify(items.flatMap(describeItem));
}

function describeItem(item: Item): JsonValue[] {
  switch (item.type) {
    case 'message':
      return [{ role: item.role, parts: item.content.map(describePart) }];
    case 'reasoning':
      return [{ role: 'assistant', parts: [{ type: 'reasoning', content: item.text }] }];
    case 'tool_call': {
      const { callId: id, name } = item;
      return [{ role: 'assistant', parts: [{ type: 'tool_call', id, name, arguments: item.arguments }] }];
    }
    case 'tool_result': {
      const response = item.shown ?? item.output;
      return [{ role: 'tool', parts: [{ type: 'tool_call_response', id: item.callId, response }] }];
    }
    default:
      return [];
  }
}

function describePart(part: Part): JsonValue {
  if (part.type === 'text') return { type: 'text', content: part.text };
  return { type: 'uri', modality: part.type, uri: part.url.startsWith('data:') ? 'data:' : part.url };
}

/** An attempt of a tool call. `server` is the label of its MCP server. */
export function callAttributes(
  { callId, attempt }: Extract<RunEvent, { type: 'tool.started' }>,
  call: Call | undefined,
  server: string | undefined,
): Attributes {
  return {
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': call?.name ?? 'unknown',
    'gen_ai.tool.call.id': callId,
    'gen_ai.tool.type': server === undefined ? 'function' : 'extension',
    'agentchart.attempt': attempt,
    ...(call !== undefined && { 'agentchart.tool.side_effect': call.sideEffect }),
    ...(server !== undefined && { 'mcp.method.name': 'tools/call', 'agentchart.mcp.server': server }),
  };
}

/** The facts of a drive. `number` counts the drives of the run from 1. */
export type DriveFacts = {
  number: number;
  modelCalls: number;
  toolCalls: number;
  usage: Usage | null;
  costBefore: number;
};

export function driveAttributes(state: ChartState, drive: DriveFacts): Attributes {
  const { agent, config, cost } = state.context;
  const model = config.models[0];
  return {
    'gen_ai.operation.name': 'invoke_agent',
    'gen_ai.provider.name': providerName(model?.provider ?? 'unknown'),
    'gen_ai.request.model': model?.model ?? 'unknown',
    ...omitUndefined({ 'gen_ai.agent.version': agent.version }),
    ...usageAttributes(drive.usage),
    'agentchart.drive': drive.number,
    'agentchart.run.status': statusOf(state),
    'agentchart.model_calls': drive.modelCalls,
    'agentchart.tool_calls': drive.toolCalls,
    ...(cost > drive.costBefore && { 'agentchart.cost': cost - drive.costBefore }),
  };
}
