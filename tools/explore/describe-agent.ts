import { runConfigOf } from '../../engine/definition.ts';
import type { RunConfig } from '../../protocol/config.ts';
import { EngineError } from '../../protocol/error.ts';
import { type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { Approval, SideEffect, Tool, ToolSource } from '../../protocol/tool.ts';
import type { Agent } from '../agent/agent.ts';
import { defineAgent } from '../agent/agent-options.ts';
import { readRunContextNow } from '../agent/run-context.ts';
import { sampleInputs } from './sample-input.ts';

/** Sample inputs and outputs of a tool. `approval` is the answer of its approval function to that input. */
export type ToolSamples = {
  readonly calls?: readonly { readonly input: JsonValue; readonly approval?: Approval }[];
  readonly outputs?: readonly JsonValue[];
};

/** An answer of the tool's approval rule. */
export type Gate = { gate: boolean; reason?: string; expiresInMs?: number };

/** What an exploration needs to know of a tool. None of the tool's functions are called. */
export type ExploredTool = {
  name: string;
  sideEffect: SideEffect;
  reconcilable: boolean;
  executedBy: 'engine' | 'client';
  isSubAgent: boolean;
  attempts: number;
  /** For `function` both answers are explored. */
  approval: 'never' | 'always' | 'function';
  calls: { input: JsonValue; gates: Gate[] }[];
  outputs: readonly JsonValue[];
};

export type ExploredAgent = {
  name: string;
  version?: string;
  config: RunConfig;
  runContext?: JsonValue;
  tools: ExploredTool[];
  /** What is not explored, and why. */
  notes: string[];
};

type DescribeOptions = {
  /** The tools of the agent's sources. */
  connected?: readonly Tool[];
  samples?: Readonly<Record<string, ToolSamples>>;
  runContext?: unknown;
};

/** Describes the agent as data. Calls none of its functions and connects to nothing. */
export function describeAgent(
  agent: Agent,
  { connected, samples = {}, runContext }: DescribeOptions,
): ExploredAgent {
  const definition = defineAgent(agent.options);
  const own = definition.tools.filter(isTool);
  const sources = definition.tools.length - own.length;
  const notes: string[] = [];
  if (sources > 0 && connected === undefined) {
    notes.push(
      `${sources === 1 ? 'A tool source is' : `${sources} tool sources are`} left out: its tools are known only after connecting. Use \`--connect\`, or \`tools\` in code, to include them.`,
    );
  }
  const tools = [...own, ...(connected ?? [])].filter(
    ({ name }, index, all) => all.findLastIndex(other => other.name === name) === index,
  );
  for (const name of Object.keys(samples)) {
    if (tools.some(tool => tool.name === name)) continue;
    throw new EngineError(
      'input-invalid',
      `samples: expected the name of a tool of the agent, got "${name}".`,
    );
  }
  const explored = tools.map(tool => describeTool(tool, samples[tool.name] ?? {}));
  const asking = explored.filter(({ approval }) => approval === 'function').map(({ name }) => name);
  if (asking.length > 0)
    notes.push(`Approval functions are not called: both answers are explored for ${asking.join(', ')}.`);
  if (definition.prepareTurn !== undefined)
    notes.push('prepareTurn is not called: every turn may call every tool.');
  const config = runConfigOf(definition);
  const models = config.models.length === 0 ? [{ provider: 'any', model: 'any' }] : config.models;
  const { name, version } = definition;
  return {
    name,
    ...omitUndefined({ version, runContext: readRunContextNow(definition, runContext) }),
    config: { ...config, models },
    tools: explored,
    notes,
  };
}

function isTool(entry: Tool | ToolSource): entry is Tool {
  return !('connect' in entry && typeof entry.connect === 'function');
}

function describeTool(tool: Tool, { calls, outputs }: ToolSamples): ExploredTool {
  const { name, sideEffect, retries, fixedApproval } = tool;
  const sampleCalls = calls ?? sampleInputs(tool.inputSchema).map(input => ({ input }));
  const isGated = typeof fixedApproval === 'object' ? fixedApproval.required : fixedApproval;
  const asks = fixedApproval === undefined && sampleCalls.some(call => !('approval' in call));
  const fixed = isGated === false ? 'never' : 'always';
  return {
    name,
    sideEffect,
    reconcilable: tool.reconcile !== undefined,
    executedBy: tool.run === undefined && tool.subAgent === undefined ? 'client' : 'engine',
    isSubAgent: tool.subAgent !== undefined,
    attempts: sideEffect === 'once' ? 1 : retries + 1,
    approval: asks ? 'function' : fixed,
    calls: sampleCalls.map(({ input, ...call }) => ({
      input,
      gates: gatesOf('approval' in call && call.approval !== undefined ? call.approval : fixedApproval),
    })),
    outputs: outputs ?? ['done'],
  };
}

/** The possible answers: no, yes, and yes with an expiry for an approval function. */
function gatesOf(approval: Approval | undefined): Gate[] {
  if (approval === undefined) return [{ gate: false }, { gate: true }, { gate: true, expiresInMs: 60_000 }];
  if (typeof approval === 'boolean') return [{ gate: approval }];
  const { required, ...rest } = approval;
  return [{ gate: required, ...rest }];
}
