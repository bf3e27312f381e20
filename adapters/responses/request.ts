import type { Item } from '../../protocol/item.ts';
import type { JsonObject, JsonValue } from '../../protocol/json.ts';
import type {
  ModelRequest,
  OutputFormat,
  Settings,
  ToolChoice,
  ToolDefinition,
} from '../../protocol/turn.ts';
import { nonEmpty, objectOf } from '../turn/json-access.ts';
import { mergeOptions } from '../turn/merge-options.ts';
import { strictSchema, withOutputSchema } from '../turn/strict-schema.ts';
import type { ResponsesDialect } from './dialect.ts';
import { endOfLastTurn, growingInput, type InputOptions } from './input.ts';
import { inputBehind } from './last-turn.ts';

export type BodyOptions = {
  model: string;
  /** A whole transcript as input; `stored` is whether the provider keeps items. */
  inputOf: (transcript: readonly Item[], stored: boolean) => JsonObject[];
  stream: boolean;
  /** Whether the provider is to keep the response; a `store` in the provider options goes before it. */
  store: boolean;
  /** Whether to ask for encrypted reasoning, without which no later turn can be replayed in full. */
  encryptedReasoning: boolean;
  /** The adapter's own; the request's go over them. */
  providerOptions: JsonObject | undefined;
};

/**
 * The body of one call. It continues from `request.continuation` if the provider keeps responses, and
 * then has only the input behind the last turn; everything else is sent as if it were the first turn.
 */
export function bodyOf(request: ModelRequest, dialect: ResponsesDialect, options: BodyOptions): JsonObject {
  const providerOptions = mergeOptions(options.providerOptions ?? {}, request.providerOptions);
  const stored = dialect.remembers && (providerOptions.store ?? options.store) !== false;
  const previous = stored ? nonEmpty(request.continuation) : undefined;
  const from = previous === undefined ? undefined : endOfLastTurn(request.transcript);
  const body = mergeOptions(
    {
      model: options.model,
      ...instructionsInput(request, dialect, from !== undefined),
      ...(previous === undefined || from === undefined ? {} : { previous_response_id: previous }),
      input:
        from === undefined
          ? options.inputOf(request.transcript, stored)
          : inputBehind(request.transcript, { ...inputOptions(dialect, stored), from }),
      ...(options.stream ? { stream: true } : {}),
      ...(stored || !dialect.remembers ? {} : { store: false }),
      ...(options.encryptedReasoning ? { include: ['reasoning.encrypted_content'] } : {}),
      ...(request.tools.length > 0 ? { tools: request.tools.map(toolInput) } : {}),
      ...(request.output ? { text: { format: formatInput(request.output, dialect) } } : {}),
      ...settingsInput(request.settings),
    },
    providerOptions,
  );
  const hasTools = Array.isArray(body.tools) && body.tools.length > 0;
  return hasTools ? { ...toolSettings(request), ...body } : body;
}

/** The input of transcripts that go on from call to call. */
export function growingInputs(dialect: ResponsesDialect): BodyOptions['inputOf'] {
  const kept = growingInput(inputOptions(dialect, true));
  const sent = growingInput(inputOptions(dialect, false));
  return (transcript, stored) => (stored ? kept(transcript) : sent(transcript));
}

function inputOptions(dialect: ResponsesDialect, stored: boolean): InputOptions {
  return {
    provider: dialect.provider,
    stored,
    reasoning: dialect.reasoningReplay ?? 'encrypted',
    callsTogether: dialect.callsTogether ?? false,
  };
}

function instructionsInput(
  { instructions, output }: ModelRequest,
  dialect: ResponsesDialect,
  continues: boolean,
): JsonObject {
  if (continues && dialect.keepsInstructions) return {};
  const told = output && dialect.structuredOutput === 'instructions';
  const text = told ? withOutputSchema(instructions, output) : instructions;
  return text === undefined ? {} : { instructions: text };
}

/** Both are refused where there are no tools. */
function toolSettings({ toolChoice, settings }: ModelRequest): JsonObject {
  return {
    tool_choice: choiceInput(toolChoice),
    ...(settings.parallelToolCalls === undefined ? {} : { parallel_tool_calls: settings.parallelToolCalls }),
  };
}

function choiceInput(choice: ToolChoice): JsonValue {
  return typeof choice === 'string' ? choice : { type: 'function', name: choice.name };
}

/**
 * An absent `strict` would mean true, which most schemas do not fit; a schema that cannot be strict is
 * sent as it is. An object schema must have `properties`.
 */
function toolInput({ name, description, inputSchema, strict }: ToolDefinition): JsonObject {
  const parameters: JsonObject = { ...inputSchema, properties: objectOf(inputSchema.properties) };
  const strictly = strict === true ? strictSchema(parameters) : undefined;
  return {
    type: 'function',
    name,
    description,
    parameters: strictly ?? parameters,
    strict: strictly !== undefined,
  };
}

function formatInput({ name, schema, strict }: OutputFormat, dialect: ResponsesDialect): JsonObject {
  if (dialect.structuredOutput === 'instructions') return { type: 'json_object' };
  const strictly = strict === true ? strictSchema(schema) : undefined;
  return {
    type: 'json_schema',
    name: name.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 64),
    schema: strictly ?? schema,
    ...(strict === undefined ? {} : { strict: strictly !== undefined }),
  };
}

function settingsInput(settings: Settings): JsonObject {
  return {
    ...(settings.temperature === undefined ? {} : { temperature: settings.temperature }),
    ...(settings.topP === undefined ? {} : { top_p: settings.topP }),
    ...(settings.maxOutputTokens === undefined ? {} : { max_output_tokens: settings.maxOutputTokens }),
    ...(settings.reasoningEffort === undefined ? {} : { reasoning: { effort: settings.reasoningEffort } }),
  };
}
