import type * as z from 'zod';
import { invalid, type ResponsesError } from '../api-error.ts';
import { describeIssue } from './describe-issue.ts';
import {
  builtinKind,
  builtinKindOf,
  type ChosenTool,
  isBuiltinTool,
  type McpTool,
  type RequestTool,
  TOOL_TYPES,
  toolSchema,
  type WireToolChoice,
} from './tool-schemas.ts';

/** Reads the tools of a request. Throws a `ResponsesError` for an invalid tool, and for two tools of equal name. */
export function readTools(tools: readonly { type: string }[]): RequestTool[] {
  const read = tools.map(readTool);
  assertDistinct(read);
  return read;
}

function readTool(tool: { type: string }, at: number): RequestTool {
  const schema = toolSchema(tool.type);
  if (schema === undefined) {
    throw invalid(
      `tools[${at}].type`,
      'unsupported_tool',
      `Tools of type ${JSON.stringify(tool.type)} are not supported. Use one of ${TOOL_TYPES.join(', ')}.`,
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

function assertDistinct(tools: readonly RequestTool[]): void {
  const labels = new Set<string>();
  const names = new Set<string>();
  for (const [at, tool] of tools.entries()) {
    if (tool.type === 'mcp') assertServer(tool, { at, labels });
    else if (isBuiltinTool(tool)) {
      const kind = builtinKindOf(tool);
      const isTwice = tools.slice(0, at).some(other => isBuiltinTool(other) && builtinKindOf(other) === kind);
      const message = `The built-in tool "${kind}" is declared twice.`;
      if (isTwice) throw invalid(`tools[${at}].type`, 'duplicate_tool', message);
    } else if (names.has(tool.name)) {
      const message = `Two functions or custom tools have the name "${tool.name}".`;
      throw invalid(`tools[${at}].name`, 'duplicate_function', message);
    } else names.add(tool.name);
  }
}

function assertServer(tool: McpTool, { at, labels }: { at: number; labels: Set<string> }): void {
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

/** Throws a `ResponsesError` unless the request has the tools that it chooses. */
export function assertChoice(choice: WireToolChoice | null | undefined, tools: readonly RequestTool[]): void {
  if (choice == null || choice === 'auto' || choice === 'none') return;
  if (tools.length === 0)
    throw invalid(
      'tool_choice',
      'tool_choice_requires_tools',
      "Tool choice is only allowed when specifying 'tools'.",
    );
  if (typeof choice === 'string') return;
  for (const wanted of choice.type === 'allowed_tools' ? choice.tools : [choice]) {
    if (tools.some(tool => isChosen(tool, wanted))) continue;
    const name = nameOf(wanted);
    throw invalid(
      'tool_choice',
      CODES[wanted.type] ?? 'tool_choice_tool_not_found',
      `Tool choice '${wanted.type}' refers to "${name}", which is not in 'tools'.`,
    );
  }
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
      return tool.type === wanted.type && tool.name === wanted.name;
    default:
      return isBuiltinTool(tool) && builtinKindOf(tool) === builtinKind(wanted.type);
  }
}
