/** The tools of a request: what they may be, how they are read from JSON, and what of them is stored. */
import * as z from 'zod';
import { CALL_KINDS, callTypeDeclaredAs } from '../../../adapters/responses/item-kinds.ts';
import { isJsonObject, type JsonValue, omitNull, omitUndefined } from '../../../protocol/json.ts';
import {
  BUILTIN_KINDS,
  type BuiltinTool,
  builtinKind,
  builtinKindOf,
  codeInterpreterTool,
  fileSearchTool,
  isBuiltinTool,
  webSearchTool,
} from '../../builtins/builtin-schemas.ts';
import { maybe, object, openFields } from '../../fields.ts';
import { describeIssue, invalid, missing, type ResponsesError } from '../../openai-error.ts';
import { SERVER_LABEL } from '../config/gateway-config.ts';
import { functionFormOf } from './own-functions.ts';

export const MOST_TOOLS = 1_000;

const toolName = z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/, 'expected 1 to 64 letters, digits, "_" or "-"');

const functionTool = openFields({
  type: z.literal('function'),
  name: toolName,
  description: maybe(z.string()),
  parameters: maybe(object),
  strict: maybe(z.boolean()),
  async: maybe(z.boolean()),
  allowed_callers: maybe(z.array(z.enum(['direct', 'programmatic'])).max(2)),
  defer_loading: maybe(z.boolean()),
  output_schema: maybe(object),
});
export type FunctionTool = z.infer<typeof functionTool>;

const customTool = openFields({
  type: z.literal('custom'),
  name: toolName,
  description: maybe(z.string()),
  format: maybe(
    z.union(
      [
        openFields({ type: z.literal('text') }),
        openFields({
          type: z.literal('grammar'),
          syntax: z.enum(['lark', 'regex']),
          definition: z.string().min(1),
        }),
      ],
      'expected { "type": "text" } or { "type": "grammar", "syntax", "definition" }',
    ),
  ),
  async: maybe(z.boolean()),
  defer_loading: maybe(z.boolean()),
});
export type CustomTool = z.infer<typeof customTool>;

const toolFilter = openFields({
  tool_names: z.exactOptional(z.array(z.string())),
  read_only: z.exactOptional(z.boolean()),
});

const mcpTool = openFields({
  type: z.literal('mcp'),
  server_label: z
    .string()
    .regex(SERVER_LABEL, 'expected letters, digits, "_" and "-", starting with a letter'),
  server_url: maybe(z.string()),
  authorization: maybe(z.string()),
  headers: maybe(z.record(z.string(), z.string())),
  server_description: maybe(z.string()),
  allowed_tools: maybe(z.union([z.array(z.string()), toolFilter])),
  defer_loading: maybe(z.boolean()),
  require_approval: maybe(
    z.union([
      z.enum(['always', 'never']),
      openFields({ always: z.exactOptional(toolFilter), never: z.exactOptional(toolFilter) }),
    ]),
  ),
});
export type McpTool = z.infer<typeof mcpTool>;

const namespaceTool = openFields({
  type: z.literal('namespace'),
  name: toolName,
  description: maybe(z.string()),
  tools: z.array(z.discriminatedUnion('type', [functionTool, customTool])).max(MOST_TOOLS),
});
type NamespaceTool = z.infer<typeof namespaceTool>;

/** Tools that OpenAI's models know, and whose calls the client runs. Those in a container are the provider's. */
const ownTool = openFields({
  type: z.enum(['apply_patch', 'shell', 'local_shell', 'computer', 'computer_use_preview', 'tool_search']),
  environment: maybe(
    openFields({ type: z.literal('local', 'expected "local": commands do not run in containers here') }),
  ),
  execution: maybe(z.enum(['server', 'client'])),
  description: maybe(z.string()),
  parameters: maybe(object),
});
type OwnTool = z.infer<typeof ownTool>;

/** Has no calls of its own: what the model writes in it calls the functions. */
const programTool = openFields({ type: z.literal('programmatic_tool_calling') });

export type RequestTool =
  | FunctionTool
  | CustomTool
  | McpTool
  | BuiltinTool
  | NamespaceTool
  | OwnTool
  | z.infer<typeof programTool>;

const TOOL_SCHEMAS: ReadonlyMap<string, z.ZodType<RequestTool>> = new Map<string, z.ZodType<RequestTool>>([
  ['function', functionTool],
  ['custom', customTool],
  ['mcp', mcpTool],
  ['web_search', webSearchTool],
  ['file_search', fileSearchTool],
  ['code_interpreter', codeInterpreterTool],
  ['namespace', namespaceTool],
  ['programmatic_tool_calling', programTool],
  ...ownTool.shape.type.options.map(type => [type, ownTool] as const),
]);

const chosenTool = z.discriminatedUnion('type', [
  openFields({ type: z.enum(['function', 'custom']), name: z.string(), namespace: maybe(z.string()) }),
  openFields({ type: z.literal('mcp'), server_label: z.string(), name: maybe(z.string()) }),
  openFields({
    type: z.enum([
      ...ownTool.shape.type.options,
      ...BUILTIN_KINDS,
      'web_search_preview',
      'web_search_preview_2025_03_11',
      'web_search_2025_08_26',
    ]),
  }),
]);

export const toolChoice = z.union(
  [
    z.enum(['none', 'auto', 'required']),
    chosenTool,
    openFields({
      type: z.literal('allowed_tools'),
      mode: z.enum(['auto', 'required']),
      tools: z.array(chosenTool).max(MOST_TOOLS),
    }),
  ],
  'expected "none", "auto", "required", or a choice of a function, custom, mcp or built-in tool, or allowed_tools with them',
);
export type RequestToolChoice = z.infer<typeof toolChoice>;
export type ChosenTool = z.infer<typeof chosenTool>;

/** The client's name of a member of the tool at a place of the list. */
export type ToolNames = (at: number, member: string) => string;

export function readTool(tool: { type: string; [member: string]: unknown }, place: string): RequestTool {
  const schema = TOOL_SCHEMAS.get(builtinKind(tool.type) ?? tool.type);
  if (schema === undefined) {
    const message = `Tools of type ${JSON.stringify(tool.type)} are not supported. Use one of ${[...TOOL_SCHEMAS.keys()].join(', ')}.`;
    throw invalid(`${place}.type`, 'unsupported_tool', message);
  }
  const parsed = schema.safeParse(tool);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  if (issue?.path[0] === 'server_label') throw badLabel(`${place}.server_label`, issue);
  throw describeIssue(issue, place);
}

/** Tools that an item declares, which are read like those of a request. */
export function readDeclarations(tools: JsonValue | undefined, place: string): RequestTool[] {
  if (!Array.isArray(tools)) return [];
  if (tools.length > MOST_TOOLS)
    throw invalid(place, 'invalid_value', `'${place}' is not valid: expected at most ${MOST_TOOLS} tools.`);
  return tools.map((tool, at) => {
    if (isJsonObject(tool) && typeof tool.type === 'string')
      return readTool({ ...tool, type: tool.type }, `${place}[${at}]`);
    throw missing(`${place}[${at}].type`);
  });
}

function badLabel(param: string, { message, code, input }: z.core.$ZodIssue): ResponsesError {
  return code === 'invalid_type' && input === undefined
    ? missing(param)
    : invalid(param, 'invalid_server_label', `Invalid '${param}': ${message}.`);
}

export function assertTools(
  tools: readonly RequestTool[],
  choice: RequestToolChoice | null | undefined,
  named: ToolNames,
): void {
  const labels = new Set<string>();
  const names = new Set<string>();
  for (const [at, tool] of tools.entries()) {
    if (tool.type === 'mcp') assertServer(tool, labels, member => named(at, member));
    else if (isBuiltinTool(tool)) {
      const kind = builtinKindOf(tool);
      const isTwice = tools.slice(0, at).some(other => isBuiltinTool(other) && builtinKindOf(other) === kind);
      const message = `The built-in tool "${kind}" is declared twice.`;
      if (isTwice) throw invalid(named(at, 'type'), 'duplicate_tool', message);
    } else
      for (const { name, namespace, tool: declared } of clientTools(tool)) {
        assertAsync(declared, member => named(at, member));
        const key = JSON.stringify([namespace, name]);
        const message = `Two functions, custom tools or tools of the model have the name "${name}".`;
        if (names.has(key)) throw invalid(named(at, 'name'), 'duplicate_function', message);
        names.add(key);
      }
  }
  assertChoice(choice, tools);
}

/** A program of OpenAI's waits for the output of each call. */
function assertAsync(tool: ClientTool['tool'], named: (member: string) => string): void {
  if (tool.type !== 'function' || !isAsync(tool)) return;
  if (tool.allowed_callers?.includes('programmatic') !== true) return;
  const message = `'${named('async')}' is not supported for a tool that programs call: the function "${tool.name}".`;
  throw invalid(named('async'), 'unsupported_parameter', message);
}

/** Whether the model continues after a call of the tool, whose output the client may send with any later request. */
export function isAsync(tool: ClientTool['tool']): boolean {
  return (tool.type === 'function' || tool.type === 'custom') && tool.async === true;
}

export type ClientTool = { name: string; namespace?: string } & (
  | { kind: 'function'; tool: FunctionTool }
  | { kind: 'custom'; tool: CustomTool }
  | { kind: 'own'; tool: OwnTool }
);

/** The tools whose calls the client runs. */
export function clientTools(tool: RequestTool): ClientTool[] {
  switch (tool.type) {
    case 'function':
      return [{ kind: 'function', name: tool.name, tool }];
    case 'custom':
      return [{ kind: 'custom', name: tool.name, tool }];
    case 'namespace':
      return tool.tools.flatMap(clientTools).map(one => ({ ...one, namespace: tool.name }));
    default:
      return isOwnTool(tool) && !isSearch(tool) ? [{ kind: 'own', name: ownNameOf(tool.type), tool }] : [];
  }
}

/** Whether the tool asks for a search for deferred tools, which the client does not run. */
export function isSearch(tool: RequestTool): boolean {
  return tool.type === 'tool_search' && tool.execution !== 'client';
}

function isOwnTool(tool: RequestTool): tool is OwnTool {
  return callTypeDeclaredAs(tool.type) !== undefined;
}

function ownNameOf(type: string): string {
  return CALL_KINDS[callTypeDeclaredAs(type) ?? '']?.tool ?? type;
}

/** Whether the tool means something only to models that OpenAI's Responses API serves. */
export function isOfResponses(tool: RequestTool): boolean {
  if (tool.type === 'function')
    return tool.allowed_callers != null && !tool.allowed_callers.includes('direct');
  if (isSearch(tool)) return false;
  return tool.type === 'programmatic_tool_calling' || (isOwnTool(tool) && !functionFormOf(tool));
}

/** Whether OpenAI's API has to be sent the declaration as the client wrote it. */
export function isDeclaredAsSent(tool: RequestTool): boolean {
  if (isOfResponses(tool) || isOwnTool(tool) || tool.type === 'namespace') return true;
  if (tool.type !== 'function') return false;
  return (tool.allowed_callers ?? tool.output_schema) != null;
}

function assertServer(tool: McpTool, labels: Set<string>, named: (member: string) => string): void {
  const label = tool.server_label.toLowerCase();
  if (labels.has(label)) {
    const message = `Two MCP tools have the server_label "${tool.server_label}".`;
    throw invalid(named('server_label'), 'mcp_tool_duplicate_server_label', message);
  }
  labels.add(label);
  if (tool.connector_id == null) return;
  const param = named('connector_id');
  if (tool.server_url != null)
    throw invalid(param, 'mcp_tool_conflicting_targets', 'Send server_url or connector_id, not both.');
  throw invalid(param, 'unsupported_parameter', 'Connectors are not supported. Use server_url.');
}

function assertChoice(choice: RequestToolChoice | null | undefined, tools: readonly RequestTool[]): void {
  if (choice == null || choice === 'auto' || choice === 'none') return;
  if (tools.length === 0) {
    const message = "Tool choice is only allowed when specifying 'tools'.";
    throw invalid('tool_choice', 'tool_choice_requires_tools', message);
  }
  if (typeof choice === 'string') return;
  for (const wanted of choice.type === 'allowed_tools' ? choice.tools : [choice]) {
    if (tools.some(tool => isChosen(tool, wanted))) continue;
    const name = nameOf(wanted);
    const message = `Tool choice '${wanted.type}' refers to "${name}", which is not in 'tools'.`;
    throw invalid('tool_choice', CODES[wanted.type] ?? 'tool_choice_tool_not_found', message);
  }
}

/** Whether the choice makes the model call one of these tools. */
export function isDemanded(
  some: readonly RequestTool[],
  { tools, toolChoice: choice }: { tools: readonly RequestTool[]; toolChoice?: RequestToolChoice },
): boolean {
  if (choice === undefined || choice === 'auto' || choice === 'none') return false;
  if (choice === 'required') return tools.every(tool => some.includes(tool));
  const chosen = choice.type === 'allowed_tools' ? choice.tools : [choice];
  if (choice.type === 'allowed_tools' && choice.mode === 'auto') return false;
  return chosen.every(wanted => some.some(tool => isChosen(tool, wanted)));
}

const CODES: Readonly<Record<string, string>> = {
  function: 'tool_choice_function_not_found',
  custom: 'tool_choice_function_not_found',
  mcp: 'tool_choice_server_not_found',
};

function nameOf(wanted: ChosenTool): string {
  if (wanted.type === 'mcp') return wanted.server_label;
  return wanted.type === 'function' || wanted.type === 'custom' ? wanted.name : wanted.type;
}

function isChosen(tool: RequestTool, wanted: ChosenTool): boolean {
  switch (wanted.type) {
    case 'mcp':
      return tool.type === 'mcp' && tool.server_label === wanted.server_label;
    case 'function':
    case 'custom':
      return clientTools(tool).some(
        ({ kind, name, namespace }) =>
          kind === wanted.type && name === wanted.name && (wanted.namespace ?? namespace) === namespace,
      );
    default:
      if (isOwnTool(tool)) return tool.type === wanted.type;
      return isBuiltinTool(tool) && builtinKindOf(tool) === builtinKind(wanted.type);
  }
}

/** What is stored and shown: a function's and a server's own members, and no credentials. */
export function describeTool(tool: RequestTool): RequestTool {
  switch (tool.type) {
    case 'function': {
      const { type, name, description = null, parameters = null, strict = null } = tool;
      const { async, allowed_callers, defer_loading, output_schema } = tool;
      const more = omitNull({ async, allowed_callers, defer_loading, output_schema });
      return { type, name, description, parameters, strict, ...more };
    }
    case 'custom': {
      const { type, name, description, format, async, defer_loading } = tool;
      const more = omitNull({ description, async, defer_loading });
      return { type, name, ...more, format: format ?? { type: 'text' } };
    }
    case 'mcp':
      return describeServer(tool);
    default:
      return tool;
  }
}

/** Other fields and the query of the URL may contain tokens. */
function describeServer(server: McpTool) {
  const { type, server_label, server_url, server_description, allowed_tools, require_approval } = server;
  const { defer_loading } = server;
  const url = server_url == null || !URL.canParse(server_url) ? null : new URL(server_url);
  return {
    type,
    server_label,
    ...omitUndefined({
      server_description,
      defer_loading,
      allowed_tools,
      require_approval,
      server_url: url === null ? undefined : `${url.origin}${url.pathname}`,
    }),
    headers: null,
  };
}
