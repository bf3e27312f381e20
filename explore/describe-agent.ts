import type { Agent } from '../agent/agent.ts';
import { defineAgent } from '../agent/agent-options.ts';
import { readRunContextNow } from '../agent/run-context.ts';
import { runConfigOf } from '../engine/services/definition.ts';
import type { RunConfig } from '../protocol/config.ts';
import { EngineError } from '../protocol/error.ts';
import { type JsonValue, omitUndefined } from '../protocol/json.ts';
import {
  type Approval,
  type CallView,
  readApproval,
  type SideEffect,
  type Tool,
  type ToolSource,
  type Validation,
} from '../protocol/tool.ts';
import { sampleInputs } from './sample-input.ts';

/** Sample inputs and outputs of a tool. `approval` is the answer of its approval function to that input. */
export type ToolSamples = {
  readonly calls?: readonly { readonly input: JsonValue; readonly approval?: Approval }[];
  readonly outputs?: readonly JsonValue[];
};

/** An answer of the tool's approval rule. */
export type Gate = { gate: boolean; reason?: string; expiresInMs?: number };

/** What an exploration needs to know of a tool. */
export type ExploredTool = {
  name: string;
  sideEffect: SideEffect;
  reconcilable: boolean;
  executedBy: 'engine' | 'client';
  isSubAgent: boolean;
  attempts: number;
  /** For `function` both answers are explored; `pure` functions are called. */
  approval: 'never' | 'always' | 'function' | 'pure';
  calls: { input: JsonValue; gates: Gate[] }[];
  outputs: readonly JsonValue[];
};

export type ExploredAgent = {
  name: string;
  version?: string;
  config: RunConfig;
  runContext?: JsonValue;
  tools: ExploredTool[];
  /** The parts that exploration skips, with reasons. */
  notes: string[];
};

type DescribeOptions = {
  /** The tools of the agent's sources. */
  connected?: readonly Tool[];
  samples?: Readonly<Record<string, ToolSamples>>;
  runContext?: unknown;
};

/** Describes the agent as data. Calls none of its functions but pure approval functions, and connects to nothing. */
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
  const context = readRunContextNow(definition, runContext);
  const explored = tools.map(tool => describeTool(tool, samples[tool.name] ?? {}, context));
  const asking = explored.filter(({ approval }) => approval === 'function').map(({ name }) => name);
  if (asking.length > 0)
    notes.push(
      `Approval functions are not called: both answers are explored for ${asking.join(', ')}. With \`approval: { pure: true, rule }\` they are called.`,
    );
  const decided = explored
    .filter(tool => tool.approval === 'pure' && hasOneAnswer(tool))
    .map(({ name }) => name);
  if (decided.length > 0)
    notes.push(
      `The approval function gives one answer for all explored inputs of ${decided.join(', ')}. Use \`samples\` to explore inputs with another one.`,
    );
  if (definition.prepareTurn !== undefined)
    notes.push('prepareTurn is not called: every turn may call every tool.');
  const config = runConfigOf(definition);
  const models = config.models.length === 0 ? [{ provider: 'any', model: 'any' }] : config.models;
  const { name, version } = definition;
  return {
    name,
    ...omitUndefined({ version, runContext: context }),
    config: { ...config, models },
    tools: explored,
    notes,
  };
}

function isTool(entry: Tool | ToolSource): entry is Tool {
  return !('connect' in entry && typeof entry.connect === 'function');
}

function describeTool(
  tool: Tool,
  { calls, outputs }: ToolSamples,
  runContext: JsonValue | undefined,
): ExploredTool {
  const { name, sideEffect, retries, fixedApproval } = tool;
  const sampleCalls: NonNullable<ToolSamples['calls']> =
    calls ?? acceptedBy(tool, sampleInputs(tool.inputSchema)).map(input => ({ input }));
  const answered = sampleCalls.map(({ input, approval = fixedApproval }) => {
    const answer = approval ?? askPure(tool, input, runContext);
    return {
      call: { input, gates: gatesOf(answer) },
      isOpen: answer === undefined,
      isPure: approval === undefined,
    };
  });
  return {
    name,
    sideEffect,
    reconcilable: tool.reconcile !== undefined,
    executedBy: tool.run === undefined && tool.subAgent === undefined ? 'client' : 'engine',
    isSubAgent: tool.subAgent !== undefined,
    attempts: sideEffect === 'once' ? 1 : retries + 1,
    approval: nameApproval(tool, answered),
    calls: answered.map(({ call }) => call),
    outputs: outputs ?? ['done'],
  };
}

function nameApproval(
  { fixedApproval }: Tool,
  answered: readonly { isOpen: boolean; isPure: boolean }[],
): ExploredTool['approval'] {
  if (answered.some(({ isOpen }) => isOpen)) return 'function';
  if (answered.some(({ isPure }) => isPure)) return 'pure';
  const isGated = typeof fixedApproval === 'object' ? fixedApproval.required : fixedApproval;
  return isGated === false ? 'never' : 'always';
}

function hasOneAnswer({ calls }: ExploredTool): boolean {
  return new Set(calls.flatMap(({ gates }) => gates.map(({ gate }) => gate))).size === 1;
}

/**
 * Calls a pure approval function as a run would. Returns `undefined` if there is none, or if the tool's schema refuses
 * the input or is asynchronous. As in a run, a function that throws requires approval. Throws `agent-invalid` for an
 * answer that is no approval.
 */
function askPure(tool: Tool, input: JsonValue, given: JsonValue | undefined): Approval | undefined {
  if (tool.pureApproval === undefined) return undefined;
  const { name } = tool;
  // The arguments of a tool server's tool reach its approval function unchanged, and are checked asynchronously.
  const value = tool.origin === undefined ? acceptedValue(tool.validate(input)) : { value: input };
  const context =
    tool.validateRunContext === undefined ? { value: given } : acceptedValue(tool.validateRunContext(given));
  if (value === undefined || context === undefined) return undefined;
  const answer = ask(tool, {
    callId: 'call_explored',
    runId: 'run_explored',
    name,
    input: value.value,
    runContext: context.value,
  });
  const approval = readApproval(answer);
  if (approval !== undefined) return approval;
  throw new EngineError(
    'agent-invalid',
    `tool "${name}": expected its pure approval function to return a boolean or { required, reason?, expiresInMs? } at once, got ${answer instanceof Promise ? 'a promise' : typeof answer}.`,
  );
}

/** For a pure approval function: the inputs that a run would ask it about, or all if there is none. */
function acceptedBy(tool: Tool, inputs: readonly JsonValue[]): readonly JsonValue[] {
  if (tool.pureApproval === undefined) return inputs;
  const accepted = inputs.filter(input => {
    const validation = tool.validate(input);
    return validation instanceof Promise || validation.valid;
  });
  return accepted.length > 0 ? accepted : inputs;
}

function ask(tool: Tool, call: CallView<unknown>): unknown {
  try {
    return tool.pureApproval?.(call);
  } catch {
    return true;
  }
}

function acceptedValue(validation: Validation | Promise<Validation>): { value: unknown } | undefined {
  if (!(validation instanceof Promise)) return validation.valid ? { value: validation.value } : undefined;
  validation.catch(() => {});
  return undefined;
}

/** The possible answers: no, yes, and yes with an expiry for an approval function. */
function gatesOf(approval: Approval | undefined): Gate[] {
  if (approval === undefined) return [{ gate: false }, { gate: true }, { gate: true, expiresInMs: 60_000 }];
  if (typeof approval === 'boolean') return [{ gate: approval }];
  const { required, ...rest } = approval;
  return [{ gate: required, ...rest }];
}
