import type { Call } from '../../machines/context.ts';
import { digestCall } from '../../protocol/content/digest.ts';
import { messageOf } from '../../protocol/error.ts';
import { type JsonValue, toBoundedJson } from '../../protocol/json.ts';
import type { Tool } from '../../protocol/tool.ts';
import { type Refusal, refuse } from './refusal.ts';

/* Checks the inputs and outputs in the commands of people and clients with the tool of their call. */

/** Connects the tools of the run's agent. */
export type ConnectTools = () => Promise<ReadonlyMap<string, Tool>>;

/** Returns an edited input with its digest, or why it is refused; `undefined` for an unknown call. */
export async function checkEdit(
  call: Call | undefined,
  edited: unknown,
  connectTools: ConnectTools,
): Promise<{ input: JsonValue; editDigest: string } | Refusal | undefined> {
  if (call === undefined) return undefined;
  const { name } = call;
  const read = readJson(edited);
  if ('accepted' in read) return read;
  const input = read.json;
  const tool = (await connectTools()).get(name);
  if (tool === undefined) {
    return refuse(
      'input-invalid',
      `Cannot validate the edited input: the agent has no tool ${name}. Approve the call without an edit, or reject it.`,
    );
  }
  const validation = await tool.validate(input);
  if (validation.valid) return { input, editDigest: digestCall(name, input) };
  return refuse('input-invalid', `The edited input is not valid for ${name}: ${validation.message}`);
}

/**
 * Validates an output that a person or a client provides for a call. Returns it as the tool's output schema returns it,
 * or the reason to refuse it. Without an output schema, for an unknown tool, and for a call that needs no output, any
 * JSON is valid.
 */
export async function checkOutput(
  call: Call | undefined,
  output: unknown,
  connectTools: ConnectTools,
): Promise<{ json: JsonValue } | Refusal> {
  const read = readJson(output);
  if ('accepted' in read || call === undefined || call.status === 'settled') return read;
  const tool = (await connectTools()).get(call.name);
  const validation = await tool?.validateOutput?.(read.json);
  if (validation === undefined) return read;
  if (validation.valid) return readJson(validation.value);
  return refuse('input-invalid', `The output is not valid for ${call.name}: ${validation.message}`);
}

/** The value as JSON, or why it is refused: not JSON, too deep or too large. */
export function readJson(value: unknown): { json: JsonValue } | Refusal {
  try {
    return { json: toBoundedJson(value) };
  } catch (error) {
    return refuse('input-invalid', `Expected a JSON value: ${messageOf(error)}.`);
  }
}
