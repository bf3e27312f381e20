import type { JsonValue } from '../../../protocol/json.ts';
import type { Tool } from '../../../protocol/tool.ts';
import { uniqueToolNames } from '../../../tools/unique-tool-names.ts';
import type { FunctionTool, McpTool } from '../request/request-body.ts';
import type { Exposed, ServerTool } from '../wire/response-spec.ts';
import type { ApprovalPolicy } from './gateway-config.ts';
import type { ConnectedServer } from './gateway-servers.ts';

/** The tools of one request as its agent has them, and the lists that clients get to see. */
export type Toolset = {
  tools: Tool[];
  exposed: Exposed;
  lists: { label: string; tools: JsonValue[]; error?: string }[];
};

/**
 * Functions keep their names. A server's tool keeps its own unless something else has it, a hidden server's
 * only where nothing visible has it; else it is `mcp_LABEL_NAME` for the model, and its own for the client.
 */
export function makeToolset(
  functions: readonly FunctionTool[],
  servers: readonly ConnectedServer[],
): Toolset {
  const declared = functions.map(functionTool);
  const offered = servers.flatMap(server => offeredTools(server).map(tool => ({ server, tool })));
  const visible = offered.filter(({ server }) => !server.hidden);
  const hidden = offered.filter(({ server }) => server.hidden);
  const seen = [...declared, ...toolsOf(visible)];
  const shown = nameTools(visible, uniqueToolNames(seen));
  const unseen = nameTools(hidden, uniqueToolNames([...seen, ...toolsOf(shown), ...toolsOf(hidden)]));
  const named = [...shown, ...unseen];
  return {
    tools: [...declared, ...toolsOf(named)],
    exposed: Object.fromEntries(named.map(({ tool, exposed }) => [tool.name, exposed])),
    lists: servers.filter(server => !server.hidden).map(listTools),
  };
}

type Offered = { server: ConnectedServer; tool: Tool };

function toolsOf(offered: readonly { tool: Tool }[]): Tool[] {
  return offered.map(({ tool }) => tool);
}

function nameTools(offered: readonly Offered[], nameOf: (tool: Tool) => string) {
  return offered.map(({ server, tool }) => {
    const { label, target, hidden } = server;
    const known = { label, name: ownName(tool), target };
    const exposed: ServerTool = hidden ? { ...known, hidden: true } : known;
    return { exposed, tool: serverTool(tool, nameOf(tool), server) };
  });
}

/** What the server itself calls the tool. */
function ownName({ name, origin }: Tool): string {
  return origin?.tool.name ?? name;
}

function offeredTools(server: ConnectedServer): Tool[] {
  return server.tools.filter(tool => isOffered(tool, server));
}

function isOffered(tool: Tool, { config, asked }: ConnectedServer): boolean {
  if (config?.allowedTools !== undefined && !config.allowedTools.includes(ownName(tool))) return false;
  const allowed = asked?.allowed_tools;
  if (allowed == null) return true;
  if (Array.isArray(allowed)) return allowed.includes(ownName(tool));
  return isEmpty(allowed) || matches(tool, allowed);
}

type Filter = { tool_names?: string[] | undefined; read_only?: boolean | undefined };

function isEmpty({ tool_names: names, read_only: readOnly }: Filter): boolean {
  return names === undefined && readOnly === undefined;
}

/** A filter with both demands both, and an empty one matches nothing. What only reads is what its server says only reads. */
function matches(tool: Tool, filter: Filter): boolean {
  const { tool_names: names, read_only: readOnly } = filter;
  if (isEmpty(filter)) return false;
  if (names !== undefined && !names.includes(ownName(tool))) return false;
  if (readOnly === undefined) return true;
  return (tool.origin?.tool.annotations?.readOnlyHint === true) === readOnly;
}

/** The client runs it: what the model writes goes out as it is. */
function functionTool({ name, description, parameters, strict }: FunctionTool): Tool {
  return {
    name,
    description: description ?? '',
    inputSchema: { type: 'object', properties: {}, ...parameters },
    ...(strict == null ? {} : { strict }),
    sideEffect: 'once',
    retries: 0,
    validate: value => ({ valid: true, value }),
    approval: () => false,
  };
}

function serverTool(tool: Tool, name: string, server: ConnectedServer): Tool {
  const asks = needsApproval(tool, server);
  return {
    ...tool,
    name,
    approval: asks ? () => true : call => (server.hidden ? false : tool.approval(call)),
  };
}

/**
 * Whoever says `always` wins. Without a word from the configuration or the request a call needs approval, as
 * at OpenAI; a hidden server's never does.
 */
export function needsApproval(tool: Tool, { config, asked, hidden }: ConnectedServer): boolean {
  if (hidden) return false;
  const name = ownName(tool);
  const configured = config?.tools?.[name]?.approval ?? readPolicy(name, config?.approval);
  const requested = readRequest(tool, asked?.require_approval);
  if (configured === true || requested === true) return true;
  return configured === undefined && requested === undefined;
}

function readPolicy(name: string, policy: ApprovalPolicy | undefined): boolean | undefined {
  if (policy === undefined) return undefined;
  if (typeof policy === 'string') return policy === 'always';
  if (policy.always?.includes(name)) return true;
  return policy.never?.includes(name) ? false : undefined;
}

function readRequest(tool: Tool, asked: McpTool['require_approval']): boolean | undefined {
  if (asked == null) return undefined;
  if (typeof asked === 'string') return asked === 'always';
  const { always, never } = asked;
  if (always !== undefined && matches(tool, always)) return true;
  return never !== undefined && matches(tool, never) ? false : undefined;
}

/** As the server describes them. */
function listTools(server: ConnectedServer) {
  const tools = offeredTools(server).map(({ name, description, inputSchema, origin }) => {
    const told = origin?.tool;
    const { annotations } = told ?? {};
    return {
      name: told?.name ?? name,
      description: told?.description ?? description,
      input_schema: told?.inputSchema ?? inputSchema,
      ...(annotations === undefined ? {} : { annotations }),
    };
  });
  return {
    label: server.label,
    tools,
    ...(server.error === undefined ? {} : { error: 'The MCP server could not be reached.' }),
  };
}
