import * as z from 'zod';
import { omitNull } from '../../protocol/json.ts';
import { fields, maybe, openFields, readGiven } from '../fields.ts';
import { type GatewayRequest, OPENAI_NAMES } from '../gateway/request/gateway-request.ts';
import { assertTools, MOST_TOOLS, readTool, toolChoice } from '../gateway/request/request-tools.ts';
import { readShared, sharedParameters, textOptions, tokens } from '../gateway/request/shared-parameters.ts';
import { describeIssue, invalid } from '../openai-error.ts';
import { readItems, readWireItems, type WireItem } from './item-reader.ts';

/** In tokens. With less, each turn would pay for a summary of next to nothing. */
const LEAST_THRESHOLD = 1_000;

export const createBody = z.object({
  ...sharedParameters,
  input: z.exactOptional(
    z.union([z.string(), z.array(z.unknown())], 'expected a string or a list of input items'),
  ),
  instructions: maybe(z.string()),
  previous_response_id: maybe(z.string()),
  tools: maybe(z.array(z.looseObject({ type: z.string() })).max(MOST_TOOLS)),
  tool_choice: maybe(toolChoice),
  max_tool_calls: maybe(z.number().int().nonnegative()),
  max_output_tokens: maybe(tokens),
  text: maybe(textOptions),
  reasoning: maybe(
    openFields({ effort: maybe(z.string()), summary: maybe(z.string()), context: maybe(z.string()) }),
  ),
  include: maybe(z.array(z.string())),
  context_management: maybe(
    z
      .array(
        fields({
          type: z.literal('compaction'),
          compact_threshold: maybe(z.number().int().min(LEAST_THRESHOLD)),
        }),
      )
      .min(1)
      .max(10),
  ),
  truncation: maybe(z.enum(['auto', 'disabled'])),
  background: maybe(z.boolean()),
  conversation: maybe(z.union([z.string().min(1), openFields({ id: z.string().min(1) })])),
});

type Parsed = z.infer<typeof createBody>;

const given = readGiven(createBody);

/** OpenAI's values of `include`. Those about built-in tools have no effect, because there are no such tools here. */
const INCLUDABLE: readonly string[] = [
  'reasoning.encrypted_content',
  'code_interpreter_call.outputs',
  'computer_call_output.output.image_url',
  'file_search_call.results',
  'message.input_image.image_url',
  'web_search_call.action.sources',
  'web_search_call.results',
];

/** Coding agents declare a web search whether or not the server has one. */
const DISPENSABLE = ['web_search'] as const;

/** Throws a `ResponsesError` with the path of the first problem. */
export function readCreateBody(value: unknown): GatewayRequest {
  const parsed = given.safeParse(value);
  if (!parsed.success) throw describeIssue(parsed.error.issues[0]);
  const body = parsed.data;
  if (body.background === true && body.store === false)
    throw invalid('background', 'background_requires_store', "'background' requires 'store' to be true.");
  const { text, reasoning, context_management, truncation, conversation } = body;
  if (conversation != null && body.previous_response_id != null) {
    const message =
      "Mutually exclusive parameters. Ensure you are only providing one of: 'previous_response_id' or 'conversation'.";
    throw invalid(null, 'mutually_exclusive_parameters', message);
  }
  assertIncludable(body.include ?? []);
  const tools = (body.tools ?? []).map((tool, at) => readTool(tool, `tools[${at}]`));
  assertTools(tools, body.tool_choice, OPENAI_NAMES.tool);
  const verbatim = itemsIn(body.input);
  const { settings, openai, ...shared } = readShared(body);
  return {
    ...shared,
    ...omitNull({
      instructions: body.instructions,
      toolChoice: body.tool_choice,
      maxToolCalls: body.max_tool_calls,
      text,
      reasoningSummary: reasoning?.summary,
      reasoningContext: reasoning?.context,
      include: body.include,
      previousResponseId: body.previous_response_id,
      background: body.background,
      conversation: typeof conversation === 'object' ? conversation?.id : conversation,
    }),
    tools,
    settings: {
      ...settings,
      ...omitNull({ maxOutputTokens: body.max_output_tokens, reasoningEffort: reasoning?.effort }),
    },
    openai: { ...openai, ...omitNull({ truncation, context_management }) },
    input: readItems(verbatim, 'input'),
    verbatim,
    api: 'responses',
    names: OPENAI_NAMES,
    dispensable: DISPENSABLE,
  };
}

function itemsIn(input: Parsed['input']): WireItem[] {
  if (input === '')
    throw invalid('input', 'input_text_empty', "'input' is empty. Send a text or a list of items.");
  if (typeof input === 'string') return [{ type: 'message', role: 'user', content: input }];
  return readWireItems(input ?? [], 'input');
}

function assertIncludable(include: readonly string[]): void {
  for (const [at, value] of include.entries()) {
    if (INCLUDABLE.includes(value)) continue;
    const param = `include[${at}]`;
    if (value === 'message.output_text.logprobs')
      throw invalid(param, 'unsupported_parameter', 'Log probabilities are not supported.');
    throw invalid(param, 'invalid_value', `'${param}' is not valid: expected ${INCLUDABLE.join(', ')}.`);
  }
}
