import * as z from 'zod';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../protocol/json.ts';
import { invalid, type ResponsesError } from '../api-error.ts';
import { SERVER_LABEL } from '../gateway/gateway-config.ts';
import { describeIssue } from './describe-issue.ts';

const MOST_ITEMS = 10_000;
const MOST_TOOLS = 1_000;

const object = z.custom<JsonObject>(isJsonObject, 'expected an object');
const maybe = <Schema extends z.ZodType>(schema: Schema) => z.nullish(schema);

const functionTool = z.looseObject({
  type: z.literal('function'),
  name: z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/, 'expected 1 to 64 letters, digits, "_" or "-"'),
  description: maybe(z.string()),
  parameters: maybe(object),
  strict: maybe(z.boolean()),
});
export type FunctionTool = z.infer<typeof functionTool>;

const toolFilter = z.looseObject({
  tool_names: z.optional(z.array(z.string())),
  read_only: z.optional(z.boolean()),
});

const mcpTool = z.looseObject({
  type: z.literal('mcp'),
  server_label: z
    .string()
    .regex(SERVER_LABEL, 'expected letters, digits, "_" and "-", starting with a letter'),
  server_url: maybe(z.string()),
  authorization: maybe(z.string()),
  headers: maybe(z.record(z.string(), z.string())),
  server_description: maybe(z.string()),
  allowed_tools: maybe(z.union([z.array(z.string()), toolFilter])),
  require_approval: maybe(
    z.union([
      z.enum(['always', 'never']),
      z.looseObject({ always: z.optional(toolFilter), never: z.optional(toolFilter) }),
    ]),
  ),
});
export type McpTool = z.infer<typeof mcpTool>;

const chosenTool = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('function'), name: z.string() }),
  z.looseObject({ type: z.literal('mcp'), server_label: z.string(), name: maybe(z.string()) }),
]);

const toolChoice = z.union(
  [
    z.enum(['none', 'auto', 'required']),
    chosenTool,
    z.looseObject({
      type: z.literal('allowed_tools'),
      mode: z.enum(['auto', 'required']),
      tools: z.array(chosenTool).max(MOST_TOOLS),
    }),
  ],
  'expected "none", "auto", "required", or a function, mcp or allowed_tools choice of function and mcp tools',
);
type WireToolChoice = z.infer<typeof toolChoice>;

const format = z.union(
  [
    z.looseObject({ type: z.literal('text') }),
    z.looseObject({ type: z.literal('json_object') }),
    z.looseObject({
      type: z.literal('json_schema'),
      name: z.string().min(1),
      schema: object,
      description: maybe(z.string()),
      strict: maybe(z.boolean()),
    }),
  ],
  'expected { "type": "text" }, { "type": "json_object" } or { "type": "json_schema", "name", "schema" }',
);

/** An input item. `ItemReader` validates the fields of each type. */
export type WireItem = JsonObject & { type?: JsonValue };

const createBody = z.object({
  model: maybe(z.string().min(1)),
  input: z.optional(
    z.union([z.string(), z.array(z.unknown()).max(MOST_ITEMS)], 'expected a string or a list of input items'),
  ),
  instructions: maybe(z.string()),
  stream: maybe(z.boolean()),
  store: maybe(z.boolean()),
  previous_response_id: maybe(z.string()),
  tools: maybe(z.array(z.looseObject({ type: z.string() })).max(MOST_TOOLS)),
  tool_choice: maybe(toolChoice),
  parallel_tool_calls: maybe(z.boolean()),
  max_tool_calls: maybe(z.number().int().nonnegative()),
  max_output_tokens: maybe(z.number().int().positive()),
  temperature: maybe(z.number().min(0).max(2)),
  top_p: maybe(z.number().min(0).max(1)),
  presence_penalty: maybe(z.number()),
  frequency_penalty: maybe(z.number()),
  top_logprobs: maybe(z.number().int().min(0).max(20)),
  text: maybe(z.looseObject({ format: maybe(format), verbosity: maybe(z.string()) })),
  reasoning: maybe(z.looseObject({ effort: maybe(z.string()), summary: maybe(z.string()) })),
  include: maybe(z.array(z.string())),
  context_management: z.optional(z.unknown()),
  metadata: maybe(z.record(z.string().max(64), z.string().max(512))),
  truncation: maybe(z.enum(['auto', 'disabled'])),
  service_tier: maybe(z.string()),
  safety_identifier: maybe(z.string()),
  prompt_cache_key: maybe(z.string()),
  user: maybe(z.string()),
  background: maybe(z.boolean()),
  conversation: z.optional(z.unknown()),
  prompt: z.optional(z.unknown()),
});

type Parsed = z.infer<typeof createBody>;

/** A validated request for a response. Unknown fields are ignored. */
export type CreateBody = Omit<Parsed, 'tools' | 'input'> & {
  input: readonly WireItem[];
  functions: readonly FunctionTool[];
  servers: readonly McpTool[];
};

/** OpenAI's parameters that this server refuses, because ignoring them would change the result. */
const UNSUPPORTED = ['conversation', 'prompt', 'context_management'] as const;

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

/** Validates a request body. Throws a `ResponsesError` with the path of the first problem. */
export function readCreateBody(value: unknown): CreateBody {
  const parsed = createBody.safeParse(value);
  if (!parsed.success) throw describeIssue(parsed.error.issues[0]);
  const body = parsed.data;
  for (const field of UNSUPPORTED) {
    if (body[field] != null) throw invalid(field, 'unsupported_parameter', `"${field}" is not supported.`);
  }
  if (body.background === true)
    throw invalid('background', 'unsupported_parameter', 'Background responses are not supported.');
  assertIncludable(body.include ?? []);
  const { tools, input, ...rest } = body;
  const read = (tools ?? []).map(readTool);
  const functions = read.filter(tool => tool.type === 'function');
  const servers = read.filter(tool => tool.type === 'mcp');
  assertDistinct(tools ?? []);
  assertChoice(body.tool_choice, functions, servers);
  return { ...rest, functions, servers, input: readInput(input) };
}

function readInput(input: Parsed['input']): WireItem[] {
  if (input === undefined || input === '') return [];
  if (typeof input === 'string') return [{ type: 'message', role: 'user', content: input }];
  return input.map((item, at) => {
    if (isJsonObject(item) && ('type' in item || 'role' in item || 'id' in item)) return item;
    const place = `input[${at}]`;
    if (!isJsonObject(item))
      throw invalid(place, 'invalid_value', `'${place}' is not valid: expected an object.`);
    const param = `${place}.type`;
    throw invalid(param, 'missing_required_parameter', `Missing required parameter: '${param}'.`);
  });
}

function assertIncludable(include: readonly string[]): void {
  for (const [at, value] of include.entries()) {
    if (INCLUDABLE.includes(value)) continue;
    const known = value === 'message.output_text.logprobs';
    throw invalid(
      `include[${at}]`,
      known ? 'unsupported_parameter' : 'invalid_value',
      known
        ? 'Log probabilities are not supported.'
        : `'include[${at}]' is not valid: expected ${INCLUDABLE.join(', ')}.`,
    );
  }
}

const TOOL_SCHEMAS = new Map<string, typeof functionTool | typeof mcpTool>([
  ['function', functionTool],
  ['mcp', mcpTool],
]);

function readTool(tool: { type: string }, at: number): FunctionTool | McpTool {
  const schema = TOOL_SCHEMAS.get(tool.type);
  if (schema === undefined) {
    throw invalid(
      `tools[${at}].type`,
      'unsupported_tool',
      `Tools of type ${JSON.stringify(tool.type)} are not supported. Use "function" or "mcp".`,
    );
  }
  const parsed = schema.safeParse(tool);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  if (issue?.path[0] === 'server_label') throw badLabel(`tools[${at}].server_label`, issue);
  throw describeIssue(issue, `tools[${at}]`);
}

function badLabel(param: string, { message, code, input }: z.core.$ZodIssue): ResponsesError {
  const missing = code === 'invalid_type' && input === undefined;
  return invalid(
    param,
    missing ? 'missing_required_parameter' : 'invalid_server_label',
    missing ? `Missing required parameter: '${param}'.` : `Invalid '${param}': ${message}.`,
  );
}

function assertDistinct(tools: readonly { type: string }[]): void {
  const labels = new Set<string>();
  const names = new Set<unknown>();
  for (const [at, tool] of (tools as readonly (FunctionTool | McpTool)[]).entries()) {
    if (tool.type === 'function') {
      if (names.has(tool.name))
        throw invalid(
          `tools[${at}].name`,
          'duplicate_function',
          `Two functions have the name "${tool.name}".`,
        );
      names.add(tool.name);
      continue;
    }
    const label = tool.server_label.toLowerCase();
    if (labels.has(label)) {
      throw invalid(
        `tools[${at}].server_label`,
        'mcp_tool_duplicate_server_label',
        `Two MCP tools have the server_label "${tool.server_label}".`,
      );
    }
    labels.add(label);
    if (tool.connector_id != null) {
      const both = tool.server_url != null;
      throw invalid(
        `tools[${at}].connector_id`,
        both ? 'mcp_tool_conflicting_targets' : 'unsupported_parameter',
        both ? 'Send server_url or connector_id, not both.' : 'Connectors are not supported. Use server_url.',
      );
    }
  }
}

function assertChoice(
  choice: WireToolChoice | null | undefined,
  functions: readonly FunctionTool[],
  servers: readonly McpTool[],
): void {
  if (choice == null || choice === 'auto' || choice === 'none') return;
  if (functions.length === 0 && servers.length === 0)
    throw invalid(
      'tool_choice',
      'tool_choice_requires_tools',
      "Tool choice is only allowed when specifying 'tools'.",
    );
  if (typeof choice === 'string') return;
  const wanted = choice.type === 'allowed_tools' ? choice.tools : [choice];
  for (const tool of wanted) {
    if (tool.type === 'function' && !functions.some(({ name }) => name === tool.name)) {
      throw invalid(
        'tool_choice',
        'tool_choice_function_not_found',
        `Tool choice 'function' refers to "${tool.name}", which is not in 'tools'.`,
      );
    }
    if (tool.type === 'mcp' && !servers.some(({ server_label }) => server_label === tool.server_label)) {
      throw invalid(
        'tool_choice',
        'tool_choice_server_not_found',
        `Tool choice 'mcp' refers to "${tool.server_label}", which is not in 'tools'.`,
      );
    }
  }
}
