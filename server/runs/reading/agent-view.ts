import * as z from 'zod';
import type { Agent } from '../../../agent/agent.ts';
import { defineAgent } from '../../../agent/agent-options.ts';
import type { ForkModel } from '../../../engine/run/forks/copy-journal.ts';
import { limitsSchema } from '../../../protocol/config.ts';
import { type JsonObject, omitUndefined } from '../../../protocol/json.ts';
import type { AgentSummary, AgentView, ToolSummary } from '../../../protocol/run-view.ts';
import type { AgentTool, Tool } from '../../../protocol/tool.ts';
import { optional } from '../../fields.ts';

const toolSummarySchema = z.object({
  name: z.string(),
  description: z.string(),
  inputSchema: z.custom<JsonObject>().meta({ type: 'object', description: 'The JSON Schema of the input.' }),
  sideEffect: z.enum(['none', 'idempotent', 'once']),
  approval: z
    .enum(['always', 'never', 'depends'])
    .meta({ description: 'depends: a function decides for each call.' }),
  reason: z.exactOptional(z.string()),
  reconcilable: z
    .boolean()
    .meta({ description: 'Whether the tool can find out the outcome of a call in doubt.' }),
  executedBy: z.enum(['engine', 'client', 'agent']),
  agent: optional(z.string(), 'The sub-agent whose run each call is.'),
  retries: z.number().int(),
  timeoutMs: z.exactOptional(z.number()),
  server: optional(z.string(), 'The label of the tool server that provides the tool.'),
}) satisfies z.ZodType<ToolSummary>;

export const agentViewSchema = z.object({
  name: z.string(),
  description: z.exactOptional(z.string()),
  version: z.exactOptional(z.string()),
  models: z.array(z.object({ provider: z.string(), model: z.string() })),
  forkModels: z.array(z.string()).meta({
    description: 'The models that its runs can be forked on, as provider:model. The first is its own.',
  }),
  instructions: optional(
    z.string().nullable(),
    'The system prompt; null if a function writes it for each run.',
  ),
  tools: z.array(toolSummarySchema),
  sources: z
    .number()
    .int()
    .meta({ description: 'The number of tool servers. Their tools are known only after a connection.' }),
  limits: limitsSchema,
  onLimit: z.enum(['answer', 'stop']),
  finalAnswer: z.enum(['live', 'held', 'separate']),
  onMessage: z.enum(['queue', 'supersede']),
  toolConcurrency: z.number().int(),
  needsRunContext: z.boolean(),
  hasOutput: z.boolean(),
}) satisfies z.ZodType<AgentView>;

export function summarizeAgent({ name, options }: Agent): AgentSummary {
  const { description, version, model = [], tools = [] } = options;
  const models = 'length' in model ? model : [model];
  const isKnown = tools.every(tool => 'name' in tool);
  return {
    name,
    models: models.map(({ provider, model: id }) => ({ provider, model: id })),
    ...omitUndefined({ description, version, tools: isKnown ? tools.length : undefined }),
  };
}

export function viewAgent(agent: Agent): AgentView {
  const definition = defineAgent(agent.options);
  const { tools, instructions, limits, onLimit, finalAnswer, onMessage, toolConcurrency } = definition;
  const { tools: _, ...summary } = summarizeAgent(agent);
  const known = tools.filter(isTool);
  return {
    ...summary,
    forkModels: [...forkModelsOf(agent).keys()],
    ...(instructions !== undefined && {
      instructions: typeof instructions === 'string' ? instructions : null,
    }),
    tools: known.map(summarizeTool),
    sources: tools.length - known.length,
    limits,
    onLimit,
    finalAnswer,
    onMessage,
    toolConcurrency,
    needsRunContext: definition.validateRunContext !== undefined,
    hasOutput: definition.output !== undefined,
  };
}

export function forkModelsOf({ options }: Agent): ReadonlyMap<string, ForkModel> {
  const { models, forkModels, prices } = defineAgent(options);
  return new Map(
    [...models, ...forkModels].map(({ provider, model }) => [
      `${provider}:${model}`,
      { provider, model, prices },
    ]),
  );
}

function isTool(entry: AgentTool): entry is Tool {
  return !('connect' in entry && typeof entry.connect === 'function');
}

function summarizeTool(tool: Tool): ToolSummary {
  const { name, description, inputSchema, sideEffect, retries, timeoutMs, subAgent, origin } = tool;
  const { approval, reason } = approvalOf(tool);
  return {
    name,
    description,
    inputSchema,
    sideEffect,
    approval,
    reconcilable: tool.reconcile !== undefined,
    executedBy: executorOf(tool),
    retries,
    ...omitUndefined({ reason, timeoutMs, agent: subAgent?.name, server: origin?.label }),
  };
}

function approvalOf({
  fixedApproval,
}: Tool): Pick<ToolSummary, 'approval'> & { reason?: string | undefined } {
  if (fixedApproval === undefined) return { approval: 'depends' };
  if (typeof fixedApproval === 'boolean') return { approval: fixedApproval ? 'always' : 'never' };
  return { approval: fixedApproval.required ? 'always' : 'never', reason: fixedApproval.reason };
}

function executorOf({ subAgent, run }: Tool): ToolSummary['executedBy'] {
  if (subAgent !== undefined) return 'agent';
  return run === undefined ? 'client' : 'engine';
}
