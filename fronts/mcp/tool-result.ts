import type { CallToolResult, Tool } from '@modelcontextprotocol/server';
import type { StandardSchemaV1 } from '@standard-schema/spec';
import * as z from 'zod';
import type { Caller } from '../../access/caller.ts';
import type { Agent } from '../../agent/agent.ts';
import { defineAgent } from '../../agent/agent-options.ts';
import { EngineError } from '../../protocol/error.ts';
import { isJsonObject, type JsonObject, omitUndefined } from '../../protocol/json.ts';
import { asSentence } from '../../protocol/options/refuse-unknown.ts';
import type { Settled } from '../../protocol/run-view.ts';
import { byPlainName } from '../../server/agent-names.ts';
import { fields } from '../../server/fields.ts';
import { cutText, fitsBytes } from '../../text/cut-text.ts';
import { buildObjectSchema } from '../../tools/build-object-schema.ts';
import { describeOpenCalls } from '../served/open-calls.ts';

/** The largest answer of a tool, in bytes of UTF-8. The full one is in the run. */
const MOST_BYTES = 1024 * 1024;

const RUN_KEY = 'agentchart/runId';

/** With `hasSchema`, clients take a result without `structuredContent` for an error. */
export function toolResultOf(
  runId: string,
  settled: Settled,
  { hasSchema, notes = [] }: { hasSchema: boolean; notes?: readonly string[] },
): CallToolResult {
  const say = (text: string, { isError = false } = {}): CallToolResult => ({
    content: [text, ...notes].map(each => ({ type: 'text', text: cutText(each, MOST_BYTES) })),
    _meta: { [RUN_KEY]: runId },
    ...(isError && { isError }),
  });
  switch (settled.status) {
    case 'finished': {
      const { output, incomplete, text } = settled;
      const { reason, refusal } = incomplete ?? {};
      const said = refusal === undefined ? '' : `\n\n[The model refused: ${refusal}]`;
      const why = reason === undefined ? '' : `${said}\n\n[The answer is incomplete: ${reason}]`;
      if (!hasSchema) return say(text + why);
      const json = JSON.stringify(output);
      if (!isJsonObject(output) || !fitsBytes(json, MOST_BYTES))
        return say(
          isJsonObject(output)
            ? `The output is larger than ${MOST_BYTES} bytes. Run ${runId} has it.`
            : `${text}${why}\n\n[The answer does not follow the output schema. Run ${runId}]`,
          { isError: true },
        );
      return { ...say(json), ...omitUndefined({ structuredContent: output }) };
    }
    case 'waiting':
      return say(describeOpenCalls(runId, settled), { isError: hasSchema });
    case 'failed':
      return say(`Run ${runId} failed: ${settled.error.message} (${settled.error.code})`, { isError: true });
    case 'cancelled':
      return say(`Run ${runId} was cancelled.`, { isError: true });
  }
}

export type Offer = { agent: Agent; tool: Tool };

const LONGEST_INPUT = 1_000_000;

export function makeOffers(agents: Iterable<Agent>): ReadonlyMap<string, Offer> {
  return new Map([...byPlainName(agents)].map(([name, agent]) => [name, offer(name, agent)]));
}

function offer(name: string, agent: Agent): Offer {
  const { options } = agent;
  const { output } = defineAgent(options);
  const context = options.runContext && describeContext(options.runContext);
  return {
    agent,
    tool: {
      name,
      description: options.description ?? `Gives a task to the agent "${agent.name}" and returns its answer.`,
      inputSchema: {
        type: 'object',
        properties: {
          input: { type: 'string', description: 'The task, with everything that the agent needs to know.' },
          ...omitUndefined({ runContext: context }),
        },
        required: ['input', ...(context === undefined ? [] : ['runContext'])],
        additionalProperties: false,
      },
      ...(output !== undefined && { outputSchema: output.format.schema as Tool['outputSchema'] & object }),
    },
  };
}

/** The JSON Schema of a run context: any JSON for a schema that has none, or is not that of an object. */
function describeContext(schema: StandardSchemaV1): JsonObject {
  try {
    return buildObjectSchema({ of: 'the run context', option: 'runContext', schema });
  } catch {
    return { description: 'The run context: whom or what the task is about.' };
  }
}

const input = z.string().min(1).max(LONGEST_INPUT);

export function readInput({ tool, agent }: Offer, given: Readonly<Record<string, unknown>>, caller: Caller) {
  const hasContext = agent.options.runContext !== undefined;
  const schema = fields(hasContext ? { input, runContext: z.json() } : { input });
  const read = schema.safeParse(given);
  if (read.success) {
    const { runContext, ...rest } = read.data as { input: string; runContext?: unknown };
    return [rest.input, caller, omitUndefined({ runContext })] as const;
  }
  const [issue] = read.error.issues;
  const place = issue?.path.join('.') || 'arguments';
  throw new EngineError(
    'input-invalid',
    asSentence(`The arguments of "${tool.name}" are invalid: ${place}: ${issue?.message}`),
  );
}
