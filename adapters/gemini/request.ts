import type { Item } from '../../protocol/item.ts';
import { type JsonObject, omitUndefined } from '../../protocol/json.ts';
import type { ModelRequest, Settings, ToolChoice, ToolDefinition } from '../../protocol/turn.ts';
import { convertOnce } from '../http/body-text.ts';
import type { Input } from '../turn/growing-input.ts';
import { arrayOf } from '../turn/json-access.ts';
import { mergeOptions } from '../turn/merge-options.ts';
import { withOutputSchema } from '../turn/strict-schema.ts';
import { generationOf } from './generation.ts';
import { thinkingConfig } from './thinking.ts';

/** Inputs of `bodyOf` besides the model request. */
export type BodyOptions = {
  model: string;
  contentsOf(transcript: readonly Item[]): Input;
  /** The adapter's options; the request's options take precedence. */
  providerOptions: JsonObject | undefined;
};

/**
 * Builds the request body of one call. Tools and answers are described by full JSON Schemas. In requests with
 * tools, models before Gemini 3 do not accept an output schema, so it is added to the instructions.
 */
export function bodyOf(
  request: ModelRequest,
  { model, contentsOf, providerOptions }: BodyOptions,
): JsonObject {
  const options = mergeOptions(providerOptions ?? {}, request.providerOptions);
  const { opening, input: contents } = contentsOf(request.transcript);
  const { tools, output } = request;
  const hasTools = tools.length > 0 || arrayOf(options.tools).length > 0;
  const needsText = output !== undefined && hasTools && generationOf(model) < 3;
  const all = [request.instructions ?? '', ...opening].filter(text => text !== '').join('\n\n');
  const system = needsText ? withOutputSchema(all === '' ? undefined : all, output) : all;
  const generationConfig: JsonObject = {
    ...settingsInput(request.settings, model),
    ...(output && !needsText
      ? { responseMimeType: 'application/json', responseJsonSchema: schemaInput(output.schema) }
      : {}),
  };
  return mergeOptions(
    {
      contents,
      ...(system === '' ? {} : { systemInstruction: { parts: [{ text: system }] } }),
      ...(tools.length > 0
        ? {
            tools: toolInputs(tools),
            toolConfig: { functionCallingConfig: choiceInput(request.toolChoice) },
          }
        : {}),
      ...(Object.keys(generationConfig).length > 0 ? { generationConfig } : {}),
    },
    options,
  );
}

function choiceInput(choice: ToolChoice): JsonObject {
  switch (choice) {
    case 'auto':
      return { mode: 'AUTO' };
    case 'required':
      return { mode: 'ANY' };
    case 'none':
      return { mode: 'NONE' };
    default:
      return { mode: 'ANY', allowedFunctionNames: [choice.name] };
  }
}

const toolInputs = convertOnce<ToolDefinition>(tools => [{ functionDeclarations: tools.map(toolInput) }]);

function toolInput({ name, description, inputSchema }: ToolDefinition): JsonObject {
  return { name, description, parametersJsonSchema: schemaInput(inputSchema) };
}

function schemaInput({ $schema: _, ...schema }: JsonObject): JsonObject {
  return schema;
}

function settingsInput(settings: Settings, model: string): JsonObject {
  const { temperature, topP, maxOutputTokens, reasoningEffort } = settings;
  return omitUndefined({
    temperature,
    topP,
    maxOutputTokens,
    thinkingConfig: reasoningEffort === undefined ? undefined : thinkingConfig(reasoningEffort, model),
  });
}
