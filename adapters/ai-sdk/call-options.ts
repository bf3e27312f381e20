// Language models of the AI SDK, specifications v2 to v4: the call options and prompt, the reading of results and
// streams, time limits, and the mapping of the SDK's errors.
import type {
  LanguageModelV4CallOptions,
  LanguageModelV4FunctionTool,
  LanguageModelV4ProviderTool,
  LanguageModelV4ToolChoice,
  SharedV4ProviderOptions,
} from '@ai-sdk/provider';
import { type JsonObject, omitUndefined } from '../../protocol/json.ts';
import type {
  ModelRequest,
  OutputFormat,
  Settings,
  ToolChoice,
  ToolDefinition,
} from '../../protocol/turn.ts';
import { mergeOptions } from '../turn/merge-options.ts';
import { promptOf } from './prompt.ts';
import type { ProviderTools } from './provider-tools.ts';

type CallOptionsInput = {
  model: { specificationVersion: 'v2' | 'v3' | 'v4'; provider: string };
  /** The provider whose opaque data is sent back. */
  provider: string;
  signal: AbortSignal;
  providerOptions?: JsonObject;
  providerTools?: ProviderTools;
  headers?: Record<string, string>;
};

/** Builds the options of one call. */
export function callOptionsOf(request: ModelRequest, input: CallOptionsInput): LanguageModelV4CallOptions {
  const { model, provider, signal, headers } = input;
  const { settings, output } = request;
  const version = model.specificationVersion;
  const tools = [...request.tools.map(functionTool), ...providerTools(input)];
  const providerOptions = providerOptionsOf(request, input);
  return {
    prompt: promptOf(request, { provider, version }),
    ...omitUndefined({
      maxOutputTokens: settings.maxOutputTokens,
      temperature: settings.temperature,
      topP: settings.topP,
    }),
    ...(version === 'v4' ? reasoningOf(settings) : {}),
    ...(tools.length === 0 ? {} : { tools, toolChoice: choiceOf(request.toolChoice) }),
    ...omitUndefined({
      responseFormat: output && formatOf(output),
      providerOptions: Object.keys(providerOptions).length === 0 ? undefined : providerOptions,
      headers,
    }),
    abortSignal: signal,
  };
}

function functionTool({
  name,
  description,
  inputSchema,
  strict,
}: ToolDefinition): LanguageModelV4FunctionTool {
  return {
    type: 'function',
    name,
    description,
    inputSchema: inputSchema as LanguageModelV4FunctionTool['inputSchema'],
    ...omitUndefined({ strict }),
  };
}

function providerTools({ model, providerTools: tools }: CallOptionsInput): LanguageModelV4ProviderTool[] {
  const type = model.specificationVersion === 'v2' ? 'provider-defined' : 'provider';
  return Object.entries(tools ?? {}).map(
    ([name, { id, args }]) => ({ type, id, name, args }) as LanguageModelV4ProviderTool,
  );
}

function choiceOf(choice: ToolChoice): LanguageModelV4ToolChoice {
  return typeof choice === 'string' ? { type: choice } : { type: 'tool', toolName: choice.name };
}

function formatOf({ name, schema }: OutputFormat): NonNullable<LanguageModelV4CallOptions['responseFormat']> {
  return { type: 'json', name, schema: schema as LanguageModelV4FunctionTool['inputSchema'] };
}

function reasoningOf({ reasoningEffort }: Settings): Pick<LanguageModelV4CallOptions, 'reasoning'> {
  if (reasoningEffort === undefined) return {};
  return { reasoning: reasoningEffort as NonNullable<LanguageModelV4CallOptions['reasoning']> };
}

/**
 * Settings outside of the specification are sent under the provider's name; providers ignore unknown options.
 */
function providerOptionsOf(
  { settings, tools, providerOptions }: ModelRequest,
  input: CallOptionsInput,
): SharedV4ProviderOptions {
  const { reasoningEffort, parallelToolCalls: parallel } = settings;
  const [name = ''] = input.model.provider.split('.');
  const own: JsonObject = {
    ...(reasoningEffort === undefined || input.model.specificationVersion === 'v4'
      ? {}
      : { reasoningEffort }),
    ...(parallel === undefined || tools.length === 0
      ? {}
      : { parallelToolCalls: parallel, disableParallelToolUse: !parallel }),
  };
  const settled: JsonObject = Object.keys(own).length === 0 ? {} : { [name]: own };
  return mergeOptions(
    mergeOptions(settled, input.providerOptions),
    providerOptions,
  ) as SharedV4ProviderOptions;
}
