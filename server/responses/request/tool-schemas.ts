import * as z from 'zod';
import { isJsonObject, type JsonObject } from '../../../protocol/json.ts';
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

/** A tool of a request. */
export type RequestTool = FunctionTool | CustomTool | McpTool;

/** The schemas of the tools, by type. */
export const TOOL_SCHEMAS: ReadonlyMap<string, z.ZodType<RequestTool>> = new Map<
  string,
  z.ZodType<RequestTool>
>([
  ['function', functionTool],
  ['custom', customTool],
  ['mcp', mcpTool],
]);

const chosenTool = z.discriminatedUnion('type', [
  z.looseObject({ type: z.enum(['function', 'custom']), name: z.string() }),
  z.looseObject({ type: z.literal('mcp'), server_label: z.string(), name: maybe(z.string()) }),
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
  'expected "none", "auto", "required", or a choice of a function, custom or mcp tool, or allowed_tools with them',
);
export type WireToolChoice = z.infer<typeof toolChoice>;
