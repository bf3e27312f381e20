import type { AgentDefinition } from '../engine/services/definition.ts';
import { describeNonJson, findNonJson, isPlain, type NonJson } from '../engine/services/read-output.ts';
import { EngineError, invalidInput, messageOf } from '../protocol/error.ts';
import { type JsonValue, toBoundedText } from '../protocol/json.ts';
import type { Tool, Validation } from '../protocol/tool.ts';
import { fitsBytes } from '../text/cut-text.ts';

/** In bytes of the JSON. Every process that opens the run reads the context. */
const MAX_BYTES = 65_536;

type Definition = Pick<AgentDefinition, 'name' | 'validateRunContext'>;

/**
 * Returns the run context for the journal: the schema's output, as JSON. Throws `input-invalid` for a value that the
 * agent's schema refuses, for one that is missing or not expected, and for one larger than 64 KiB; `agent-invalid` if
 * the schema's output is not JSON.
 */
export async function readRunContext(definition: Definition, given: unknown): Promise<JsonValue | undefined> {
  return toRunContext(definition, given, await validate(definition, given));
}

/** Like `readRunContext`, for a caller that cannot wait. Throws `agent-invalid` for an asynchronous schema. */
export function readRunContextNow(definition: Definition, given: unknown): JsonValue | undefined {
  const validation = validate(definition, given);
  if (!(validation instanceof Promise)) return toRunContext(definition, given, validation);
  validation.catch(() => {});
  throw new EngineError(
    'agent-invalid',
    `The runContext schema of agent "${definition.name}" is asynchronous, which only agent.start can wait for.`,
  );
}

/** Throws `agent-invalid` for the first tool that does not accept the run context which the agent's schema accepts. */
export async function assertToolsAccept(
  agent: string,
  tools: ReadonlyMap<string, Tool>,
  runContext: JsonValue | undefined,
): Promise<void> {
  for (const [name, tool] of tools) {
    const validation = await tool.validateRunContext?.(runContext);
    if (validation === undefined || validation.valid) continue;
    throw new EngineError(
      'agent-invalid',
      `Tool "${name}" does not accept the run context of agent "${agent}": ${validation.message}. Change the runContext schema of either, so that the tool accepts every value that the agent accepts.`,
    );
  }
}

/** Throws `agent-invalid` if a tool needs a run context and the agent has none. */
export function assertHasContext(
  { name, validateRunContext }: Definition,
  tools: readonly (Partial<Tool> | object)[],
): void {
  if (validateRunContext !== undefined) return;
  for (const tool of tools) {
    if (!('validateRunContext' in tool) || tool.validateRunContext === undefined) continue;
    throw new EngineError(
      'agent-invalid',
      `Tool "${'name' in tool ? tool.name : ''}" needs a run context, but agent "${name}" has none. Set its runContext to a schema that the tool's accepts.`,
    );
  }
}

function validate({ validateRunContext }: Definition, given: unknown): Validation | Promise<Validation> {
  return validateRunContext?.(given) ?? { valid: true, value: given };
}

function toRunContext(
  { name, validateRunContext }: Definition,
  given: unknown,
  validation: Validation,
): JsonValue | undefined {
  if (validateRunContext === undefined && given !== undefined) {
    throw invalidInput(
      `Agent "${name}" takes no run context. Leave runContext out, or give the agent a schema for it: createAgent({ runContext: schema }).`,
    );
  }
  if (!validation.valid) {
    throw invalidInput(
      given === undefined
        ? `Agent "${name}" needs a run context. Pass one: start(input, { runContext }).`
        : `The run context for agent "${name}" is invalid: ${validation.message}`,
    );
  }
  if (validation.value === undefined) return undefined;
  const text = toText(name, validation.value);
  if (!fitsBytes(text, MAX_BYTES))
    throw invalidInput(
      `The run context for agent "${name}" is larger than ${MAX_BYTES} bytes. Pass an id, and let the tools load the rest.`,
    );
  return JSON.parse(text);
}

function toText(agent: string, value: unknown): string {
  const foreign = findNonJson(value, isChanged);
  if (foreign !== undefined) {
    const path = ['runContext', ...(foreign.path === '' ? [] : [foreign.path])].join('.');
    throw notJson(agent, `${path} is ${describeNonJson(foreign.value)}`);
  }
  try {
    return toBoundedText(value);
  } catch (error) {
    throw notJson(agent, `${messageOf(error)}.`);
  }
}

/** Whether a JSON round trip would change a value, such as a `Date`. */
function isChanged({ value }: NonJson): boolean {
  if (typeof value === 'number') return !Number.isFinite(value);
  return typeof value === 'object' && value !== null && (!isPlain(value) || 'toJSON' in value);
}

function notJson(agent: string, problem: string): EngineError {
  return new EngineError(
    'agent-invalid',
    `The runContext schema of agent "${agent}" must return JSON, because the journal keeps it: ${problem}`,
  );
}
