import type { Agent } from '../../../agent/agent.ts';
import { defineAgent } from '../../../agent/agent-options.ts';
import type { ForkModel } from '../../../engine/run/forks/copy-journal.ts';
import type { AgentSummary, AgentView, ToolSummary } from '../../../protocol/agent-view.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import type { AgentTool, Tool } from '../../../protocol/tool.ts';
import { factsOfAgent, sayTool } from './describe-agent.ts';

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
  const view = {
    ...summary,
    forkModels: [...forkModelsOf(agent).keys()],
    ...(instructions !== undefined && {
      instructions: typeof instructions === 'string' ? instructions : null,
    }),
    tools: known.map(summarizeTool),
    sources: tools.length - known.length,
    limits,
    onLimit,
    onUnknownUsage: definition.onUnknownUsage ?? 'stop',
    finalAnswer,
    onMessage,
    toolConcurrency,
    needsRunContext: definition.validateRunContext !== undefined,
    hasOutput: definition.output !== undefined,
  };
  return { ...view, facts: factsOfAgent(view) };
}

export function forkModelsOf({ options }: Agent): ReadonlyMap<string, ForkModel> {
  const { models, forkModels, prices } = defineAgent(options);
  return new Map(
    [...models, ...forkModels].map(({ provider, model, capabilities: { usage } }) => [
      `${provider}:${model}`,
      { provider, model, prices, usage },
    ]),
  );
}

function isTool(entry: AgentTool): entry is Tool {
  return !('connect' in entry && typeof entry.connect === 'function');
}

function summarizeTool(tool: Tool): ToolSummary {
  const { name, description, inputSchema, sideEffect, retries, timeoutMs, subAgent, origin } = tool;
  const { approval, reason } = approvalOf(tool);
  const summary = {
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
  return { ...summary, says: sayTool(summary) };
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
