import type { Agent } from '../agent/agent.ts';
import { defineAgent } from '../agent/agent-options.ts';
import { readRunContextNow } from '../agent/run-context.ts';
import { type AgentDefinition, runConfigOf } from '../engine/services/definition.ts';
import { dutiesOf, hasDuties } from '../machines/duties.ts';
import type { RunConfig } from '../protocol/config.ts';
import { EngineError, invalidInput } from '../protocol/error.ts';
import type { Duties } from '../protocol/event.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../protocol/json.ts';
import {
  type Approval,
  type CallView,
  readApproval,
  type SideEffect,
  type Tool,
  type Validation,
} from '../protocol/tool.ts';
import type { Rule, RuleAsk } from '../rules/rule.ts';
import { isToolSource } from '../tools/connect-tools.ts';
import type { KnownTools } from './known-tools.ts';
import type { Monitor } from './monitor.ts';

/** Sample inputs and outputs of a tool. `approval` is the answer of its approval function to that input. */
export type ToolSamples = {
  readonly calls?: readonly { readonly input: JsonValue; readonly approval?: Approval }[];
  readonly outputs?: readonly JsonValue[];
};

export type GateSample = { gate: boolean; reason?: string; expiresInMs?: number } & Duties;

export type ExploredTool = {
  name: string;
  sideEffect: SideEffect;
  reconcilable: boolean;
  executedBy: 'engine' | 'client';
  isSubAgent: boolean;
  tags?: readonly string[];
  /** Its answer is the run's. */
  answers?: 'directly';
  /** It may ask people before its calls begin. */
  prepares?: true;
  /** Its work continues in the background. */
  background?: true;
  attempts: number;
  /** For `function` both answers are explored; `pure` functions are called. */
  approval: 'never' | 'always' | 'function' | 'pure';
  /** With `pure`: for how many of the explored inputs it asks. */
  asks?: number;
  calls: { input: JsonValue; gates: GateSample[] }[];
  outputs: readonly JsonValue[];
};

/** Up to so many calls with background work are explored at a time. */
export const MOST_WORK = 2;

export type ExploredAgent = Pick<KnownTools, 'lacks'> & {
  name: string;
  version?: string;
  config: RunConfig;
  runContext?: JsonValue;
  /** Guardrails judge what the model reads. */
  judges?: true;
  /** Guardrails of the answer may ask for a review. */
  asks?: true;
  /** A tool server may need a sign-in. */
  signsIn?: true;
  tools: ExploredTool[];
  /** Those of the agent. */
  rules: readonly Rule[];
  /** The rules that are followed. Calls that differ for them count as different. */
  monitor?: Monitor;
  /** The parts that exploration skips, with reasons. */
  notes: string[];
};

type DescribeOptions = {
  /** The tools of the agent's sources. */
  connected?: readonly Tool[];
  samples?: Readonly<Record<string, ToolSamples>>;
  runContext?: unknown;
  /** Of a stored run, whose run context a schema once made: it is taken as it is, and `runContext` only if it has none. */
  stored?: { runContext?: JsonValue };
};

/** Describes the agent as data. Calls none of its functions but pure approval functions, and connects to nothing. */
export function describeAgent(
  agent: Agent,
  { connected, samples = {}, runContext, stored }: DescribeOptions,
): ExploredAgent {
  const definition = defineAgent(agent.options);
  const own = definition.tools.filter((entry): entry is Tool => !isToolSource(entry));
  const sources = definition.tools.filter(isToolSource);
  const notes: string[] = [];
  if (sources.length > 0 && connected === undefined) {
    notes.push(
      `${sources.length === 1 ? 'A tool source is' : `${sources.length} tool sources are`} left out: its tools are known only after connecting. Use \`--connect\`, or \`tools\` in code, to include them.`,
    );
  }
  const tools = [...own, ...(connected ?? [])].filter(
    ({ name }, index, all) => all.findLastIndex(other => other.name === name) === index,
  );
  for (const name of Object.keys(samples)) {
    if (tools.some(tool => tool.name === name)) continue;
    throw invalidInput(`samples: expected the name of a tool of the agent, got "${name}".`);
  }
  const isTaken = stored !== undefined && (stored.runContext !== undefined || runContext === undefined);
  const context = isTaken ? stored.runContext : readRunContextNow(definition, runContext);
  const explored = tools.map(tool => describeTool(tool, samples[tool.name] ?? {}, context));
  const asking = explored.filter(({ approval }) => approval === 'function').map(({ name }) => name);
  if (asking.length > 0)
    notes.push(
      `Approval functions are not called: both answers are explored for ${asking.join(', ')}. With \`approval: { pure: true, rule }\` they are called.`,
    );
  const unasked = explored.filter(({ asks }) => asks === 0).map(({ name }) => name);
  if (unasked.length > 0)
    notes.push(
      `The approval functions of ${unasked.join(', ')} ask for none of the explored inputs. Use \`samples\` to explore inputs for which they ask.`,
    );
  if (explored.some(({ background, executedBy }) => background === true && executedBy === 'engine'))
    notes.push(`At most ${MOST_WORK} calls with background work are explored at a time.`);
  if (definition.prepareTurn !== undefined)
    notes.push('prepareTurn is not called: every turn may call every tool.');
  // An exploration follows the automata of the rules, so its runs keep no history.
  const { history: _, ...config } = runConfigOf(definition);
  const models = config.models.length === 0 ? [{ provider: 'any', model: 'any' }] : config.models;
  const { name, version } = definition;
  return {
    name,
    ...omitUndefined({ version, runContext: context }),
    config: { ...config, models },
    ...(judgesItems(definition) && { judges: true as const }),
    ...(definition.guardrails.answer.length > 0 && { asks: true as const }),
    ...(definition.tools.some(tool => 'signIn' in tool) && { signsIn: true as const }),
    ...(sources.length > 0 &&
      connected === undefined && { lacks: { tags: sources.flatMap(({ tags = [] }) => tags) } }),
    rules: definition.rules,
    tools: explored,
    notes,
  };
}

function judgesItems({ guardrails: { input, toolOutput } }: AgentDefinition): boolean {
  return input.length + toolOutput.length > 0;
}

/** Whether a call of the agent is for certain people to decide. */
export function asksForPeople({ tools, rules }: Pick<ExploredAgent, 'tools' | 'rules'>): boolean {
  const asks = ({ then, isShadow }: Rule) =>
    typeof then === 'object' && !isShadow && hasDuties(askedBy(then));
  return rules.some(asks) || tools.some(({ calls }) => calls.some(({ gates }) => gates.some(hasDuties)));
}

/** Who has to approve a call for which a rule asks. */
export function askedBy(then: RuleAsk): Duties {
  return dutiesOf(readApproval({ ...then, required: true }) ?? {});
}

function describeTool(
  tool: Tool,
  { calls: given, outputs }: ToolSamples,
  runContext: JsonValue | undefined,
): ExploredTool {
  const { name, sideEffect, retries, fixedApproval } = tool;
  const sampleCalls: NonNullable<ToolSamples['calls']> =
    given ?? acceptedBy(tool, sampleInputs(tool.inputSchema)).map(input => ({ input }));
  const answered = sampleCalls.map(({ input, approval = fixedApproval }) => {
    const answer = approval ?? askPure(tool, input, runContext);
    return {
      call: { input, gates: gatesOf(answer) },
      isOpen: answer === undefined,
      isPure: approval === undefined,
    };
  });
  const approval = nameApproval(tool, answered);
  const calls = answered.map(({ call }) => call);
  return {
    name,
    sideEffect,
    reconcilable: tool.reconcile !== undefined,
    executedBy: tool.run === undefined && tool.subAgent === undefined ? 'client' : 'engine',
    isSubAgent: tool.subAgent !== undefined,
    ...omitUndefined({ tags: tool.tags }),
    ...(tool.answers === 'directly' && { answers: 'directly' as const }),
    ...(tool.prepare !== undefined && { prepares: true as const }),
    ...(tool.background === true && { background: true as const }),
    attempts: sideEffect === 'once' ? 1 : retries + 1,
    approval,
    ...(approval === 'pure' && { asks: calls.filter(({ gates }) => gates.some(({ gate }) => gate)).length }),
    calls,
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

/**
 * Asks as a run would: a function that throws requires approval. `undefined` if there is none, or if the tool's schema
 * refuses the input or is asynchronous.
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
    `tool "${name}": expected its pure approval function to return a boolean or { required, reason?, by?, not?, quorum?, expiresInMs? } at once, got ${answer instanceof Promise ? 'a promise' : typeof answer}.`,
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
function gatesOf(approval: Approval | undefined): GateSample[] {
  if (approval === undefined) return [{ gate: false }, { gate: true }, { gate: true, expiresInMs: 60_000 }];
  if (typeof approval === 'boolean') return [{ gate: approval }];
  const read = readApproval(approval);
  if (read === undefined) throw invalidInput('samples: expected an approval as a tool gives it.');
  const { required, by, not, quorum, ...rest } = read;
  return [{ gate: required, ...rest, ...(required && dutiesOf(read)) }];
}

const MAX_INPUTS = 8;
const MAX_DEPTH = 6;
const LARGE = 1_000_000;

/** Up to 8 inputs that a JSON Schema allows, the simplest first. Ignores `pattern` and refinements. */
function sampleInputs(schema: JsonObject): JsonValue[] {
  const [simplest = {}, ...others] = sample(schema, schema, 0);
  return [simplest, ...others].slice(0, MAX_INPUTS);
}

function sample(place: JsonValue | undefined, root: JsonObject, depth: number): JsonValue[] {
  const schema = resolve(place, root);
  if (depth > MAX_DEPTH || schema === null) return [{}];
  if ('const' in schema) return [schema.const ?? null];
  if (Array.isArray(schema.enum) && schema.enum.length > 0) return schema.enum;
  const choices = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(choices)) return choices.flatMap(choice => sample(choice, root, depth + 1));
  if (Array.isArray(schema.allOf)) return sampleAll(schema.allOf, schema, root, depth);
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  switch (type ?? (isJsonObject(schema.properties) ? 'object' : undefined)) {
    case 'object':
      return sampleObject(schema, root, depth);
    case 'array': {
      const [first = 'text'] = sample(schema.items, root, depth + 1);
      return [Array.from({ length: Math.max(1, numberOf(schema.minItems) ?? 1) }, () => first)];
    }
    case 'number':
    case 'integer':
      return sampleNumbers(schema);
    case 'boolean':
      return [true, false];
    case 'null':
      return [null];
    default:
      return [sampleText(schema)];
  }
}

function sampleAll(parts: JsonValue[], { allOf: _, ...rest }: JsonObject, root: JsonObject, depth: number) {
  const merged: JsonObject = {};
  for (const part of [...parts, rest]) {
    const schema = resolve(part, root) ?? {};
    const properties = { ...asObject(merged.properties), ...asObject(schema.properties) };
    Object.assign(merged, schema, { properties });
  }
  return sample(merged, root, depth + 1);
}

function sampleObject(schema: JsonObject, root: JsonObject, depth: number): JsonValue[] {
  const values = Object.entries(asObject(schema.properties)).map(
    ([name, property]) => [name, sample(property, root, depth + 1)] as const,
  );
  const simplest = Object.fromEntries(values.map(([name, [first = null]]) => [name, first]));
  const others = values.flatMap(([name, [, ...rest]]) => rest.map(value => ({ ...simplest, [name]: value })));
  return [simplest, ...others];
}

function sampleNumbers(schema: JsonObject): JsonValue[] {
  const above = numberOf(schema.exclusiveMinimum);
  const least = numberOf(schema.minimum) ?? (above === undefined ? 1 : above + 1);
  const below = numberOf(schema.exclusiveMaximum);
  const most = numberOf(schema.maximum) ?? (below === undefined ? Math.max(LARGE, least * 2) : below - 1);
  const bounded = Math.min(most, Number.MAX_SAFE_INTEGER);
  const capped = bounded === Number.MAX_SAFE_INTEGER ? Math.max(LARGE, least) : bounded;
  return capped > least ? [least, capped] : [least];
}

const BY_FORMAT: Readonly<Record<string, string>> = {
  email: 'ada@example.com',
  uri: 'https://example.com/',
  url: 'https://example.com/',
  uuid: '00000000-0000-4000-8000-000000000000',
  date: '2026-01-01',
  'date-time': '2026-01-01T00:00:00Z',
};

function sampleText({ format, minLength }: JsonObject): string {
  const text = (typeof format === 'string' ? BY_FORMAT[format] : undefined) ?? 'text';
  return text.padEnd(numberOf(minLength) ?? 0, 'x');
}

function resolve(schema: JsonValue | undefined, root: JsonObject): JsonObject | null {
  if (!isJsonObject(schema)) return null;
  const { $ref } = schema;
  if (typeof $ref !== 'string') return schema;
  const found = $ref
    .replace(/^#\/?/, '')
    .split('/')
    .filter(Boolean)
    .reduce<JsonValue | undefined>((value, key) => (isJsonObject(value) ? value[key] : undefined), root);
  return isJsonObject(found) ? found : null;
}

function asObject(value: JsonValue | undefined): JsonObject {
  return isJsonObject(value) ? value : {};
}

function numberOf(value: JsonValue | undefined): number | undefined {
  return typeof value === 'number' ? value : undefined;
}
