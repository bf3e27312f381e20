import * as z from 'zod';
import { isJsonObject, type JsonObject } from '../../../protocol/json.ts';
import { fields } from '../../fields.ts';
import { SERVER_LABEL } from '../gateway/gateway-config.ts';

/** The most tools in a request, and in a choice. */
export const MOST_TOOLS = 1_000;

const object = z.custom<JsonObject>(isJsonObject, 'expected an object');
const maybe = <Schema extends z.ZodType>(schema: Schema) => z.nullish(schema);
const toolName = z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/, 'expected 1 to 64 letters, digits, "_" or "-"');

const functionTool = z.looseObject({
  type: z.literal('function'),
  name: toolName,
  description: maybe(z.string()),
  parameters: maybe(object),
  strict: maybe(z.boolean()),
});
export type FunctionTool = z.infer<typeof functionTool>;

/** A tool of the client whose input is a text. */
const customTool = z.looseObject({
  type: z.literal('custom'),
  name: toolName,
  description: maybe(z.string()),
  format: maybe(
    z.union(
      [
        z.looseObject({ type: z.literal('text') }),
        z.looseObject({
          type: z.literal('grammar'),
          syntax: z.enum(['lark', 'regex']),
          definition: z.string().min(1),
        }),
      ],
      'expected { "type": "text" } or { "type": "grammar", "syntax", "definition" }',
    ),
  ),
});
export type CustomTool = z.infer<typeof customTool>;

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

const webSearchTool = z.looseObject({
  type: z
    .string()
    .regex(/^web_search(?:_preview)?(?:_\d{4}_\d{2}_\d{2})?$/)
    .transform(type => type as 'web_search'),
  filters: maybe(fields({ allowed_domains: maybe(z.array(z.string().min(1)).max(100)) })),
  user_location: maybe(object),
  search_context_size: maybe(z.enum(['low', 'medium', 'high'])),
  external_web_access: maybe(z.boolean()),
  search_content_types: maybe(z.array(z.string())),
});
export type WebSearchTool = z.infer<typeof webSearchTool>;

const comparison = z.union([
  fields({
    type: z.enum(['eq', 'ne', 'gt', 'gte', 'lt', 'lte']),
    key: z.string(),
    value: z.union([z.string(), z.number(), z.boolean()]),
  }),
  fields({
    type: z.enum(['in', 'nin']),
    key: z.string(),
    value: z.array(z.union([z.string(), z.number()])).max(1_000),
  }),
]);
/** Conditions on the attributes of files. */
export type FileFilter = z.infer<typeof comparison> | { type: 'and' | 'or'; filters: FileFilter[] };
const fileFilter: z.ZodType<FileFilter> = z.lazy(() =>
  z.union([
    comparison,
    fields({ type: z.enum(['and', 'or']), filters: z.array(fileFilter).min(1).max(100) }),
  ]),
);

const fileSearchTool = z.looseObject({
  type: z.literal('file_search'),
  vector_store_ids: z.array(z.string()).min(1).max(10),
  max_num_results: maybe(z.int().min(1).max(50)),
  ranking_options: maybe(
    z.looseObject({
      ranker: maybe(z.string()),
      score_threshold: maybe(z.number().min(0).max(1)),
      hybrid_search: maybe(object),
    }),
  ),
  filters: maybe(fileFilter),
});
export type FileSearchTool = z.infer<typeof fileSearchTool>;

const codeInterpreterTool = z.looseObject({
  type: z.literal('code_interpreter'),
  container: z.union([z.string(), z.looseObject({ type: z.literal('auto') })]),
});
export type CodeInterpreterTool = z.infer<typeof codeInterpreterTool>;

/** A built-in tool: the client declares it, and the gateway or the provider runs it. */
export type BuiltinTool = WebSearchTool | FileSearchTool | CodeInterpreterTool;

/** The built-in tools. */
export const BUILTIN_KINDS = ['web_search', 'file_search', 'code_interpreter'] as const;
export type BuiltinKind = (typeof BUILTIN_KINDS)[number];

/** A tool of a request. */
export type RequestTool = FunctionTool | CustomTool | McpTool | BuiltinTool;

/** Whether the tool is a built-in one. */
export function isBuiltinTool(tool: RequestTool): tool is BuiltinTool {
  return builtinKind(tool.type) !== undefined;
}

/** Which built-in tool it is: the types of web search have dates and a preview. */
export function builtinKindOf(tool: BuiltinTool): BuiltinKind {
  return builtinKind(tool.type) ?? tool.type;
}

/** The built-in tool with this type, also as a choice; `undefined` for other types. */
export function builtinKind(type: string): BuiltinKind | undefined {
  return BUILTIN_KINDS.find(kind => type === kind || (kind === 'web_search' && type.startsWith(kind)));
}

/** The schema of a tool by its type; `undefined` for a type that is not supported. */
export function toolSchema(type: string): z.ZodType<RequestTool> | undefined {
  return TOOL_SCHEMAS.get(builtinKind(type) ?? type);
}

/** The types of tools. */
export const TOOL_TYPES = ['function', 'custom', 'mcp', ...BUILTIN_KINDS];

const TOOL_SCHEMAS: ReadonlyMap<string, z.ZodType<RequestTool>> = new Map<string, z.ZodType<RequestTool>>([
  ['function', functionTool],
  ['custom', customTool],
  ['mcp', mcpTool],
  ['web_search', webSearchTool],
  ['file_search', fileSearchTool],
  ['code_interpreter', codeInterpreterTool],
]);

const chosenTool = z.discriminatedUnion('type', [
  z.looseObject({ type: z.enum(['function', 'custom']), name: z.string() }),
  z.looseObject({ type: z.literal('mcp'), server_label: z.string(), name: maybe(z.string()) }),
  z.looseObject({
    type: z.enum([
      ...BUILTIN_KINDS,
      'web_search_preview',
      'web_search_preview_2025_03_11',
      'web_search_2025_08_26',
    ]),
  }),
]);

/** A request's `tool_choice`. */
export const toolChoice = z.union(
  [
    z.enum(['none', 'auto', 'required']),
    chosenTool,
    z.looseObject({
      type: z.literal('allowed_tools'),
      mode: z.enum(['auto', 'required']),
      tools: z.array(chosenTool).max(MOST_TOOLS),
    }),
  ],
  'expected "none", "auto", "required", or a choice of a function, custom, mcp or built-in tool, or allowed_tools with them',
);
export type WireToolChoice = z.infer<typeof toolChoice>;
export type ChosenTool = z.infer<typeof chosenTool>;
