import type { Item } from '../../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../../protocol/json.ts';
import type { Tool } from '../../../protocol/tool.ts';
import { SEARCH_TOOL } from '../../../tools/search-tools.ts';
import { uniqueToolNames } from '../../../tools/unique-tool-names.ts';
import type { OfferedBuiltin } from '../../builtins/builtin-tools.ts';
import { invalid, type ResponsesError } from '../../openai-error.ts';
import { itemIdOf } from '../answer/wire-ids.ts';
import type { ApprovalPolicy } from '../config/gateway-config.ts';
import { functionFormOf } from '../request/own-functions.ts';
import {
  type ClientTool,
  type CustomTool,
  clientTools,
  type FunctionTool,
  isAsync,
  type McpTool,
  type RequestTool,
} from '../request/request-tools.ts';
import {
  type Exposed,
  type ExposedTool,
  flatNameOf,
  isClientTool,
  isHidden,
  isOwnTool,
  isSameTool,
  type ServerTool,
} from '../runs/response-spec.ts';
import type { ConnectedServer } from './gateway-servers.ts';

/** `exposed`: the tools that are more than functions of their own name. `lists`: what the client sees. */
export type Toolset = {
  tools: Tool[];
  exposed: Exposed;
  lists: { label: string; tools: JsonValue[]; error?: string }[];
};

type Offered = { known: ExposedTool; tool: Tool };

/**
 * A tool keeps the name under which the conversation called it (`used`), so that a name in the history has one meaning.
 * Otherwise names go first to the tools of the agent that the request names (`own`), then to the client's, the built-in,
 * the visible servers' and the hidden servers'; a tool whose name is taken is `client_NAME`, `gateway_NAME` or
 * `mcp_LABEL_NAME` for the model. Clients see each tool's own name.
 */
export function makeToolset(
  requested: readonly RequestTool[],
  {
    servers,
    builtins = [],
    used = {},
    own: agent = { label: '', tools: [] },
    searched = false,
    searchesTools = false,
  }: {
    servers: readonly ConnectedServer[];
    builtins?: readonly OfferedBuiltin[];
    used?: Exposed;
    own?: { label: string; tools: readonly Tool[] };
    /** Whether clients see searches for deferred tools, because the provider runs them. */
    searched?: boolean;
    /** Whether the client searches its deferred tools. */
    searchesTools?: boolean;
  },
): Toolset {
  const deferral = searchesTools ? 'client' : true;
  const declared = requested.flatMap(tool => clientTool(tool, deferral));
  const offered = servers.flatMap(server =>
    offeredTools(server).map(tool => ({ known: identify(tool, server), tool: serverTool(tool, server) })),
  );
  const visible = offered.filter(({ known }) => !isHidden(known));
  const hidden = offered.filter(({ known }) => isHidden(known));
  const built = builtins.map(({ kind, tool }) => ({ known: { builtin: kind, name: kind }, tool }));
  const ofAgent = agent.tools.map(tool => ({ known: identifyOwn(tool, agent.label), tool }));
  const all = [...declared, ...built, ...offered, ...ofAgent];
  const search = all.some(({ tool }) => tool.deferred === true)
    ? { [SEARCH_TOOL]: searched ? SEARCHED : SEARCH }
    : {};
  const held = { ...namesInUse(used, all), ...search };
  const kept = nameTools(ofAgent, { held });
  const own = [...kept, ...nameTools(declared, { held, among: kept, prefix: 'client_' })];
  const ours = nameTools(built, { held, among: own, prefix: 'gateway_' });
  const shown = nameTools(visible, { held, among: [...own, ...ours] });
  const unseen = nameTools(hidden, { held, among: [...own, ...ours, ...visible, ...shown] });
  const named = [...own, ...ours, ...shown, ...unseen];
  for (const { known, tool } of named)
    if (isOwnTool(known) && known.name !== tool.name) throw takenName(known.name);
  return {
    tools: named.map(({ tool }) => tool),
    exposed: {
      ...Object.fromEntries(
        named.flatMap(({ known, tool }) => (isPlain(known, tool) ? [] : [[tool.name, known]])),
      ),
      ...search,
    },
    lists: servers.filter(server => !server.hidden).map(listTools),
  };
}

/** The search for deferred tools, which the engine adds to the others; clients see none of its calls. */
const SEARCH: ServerTool = { label: '', name: SEARCH_TOOL, hidden: true };
const SEARCHED: ServerTool = { ...SEARCH, target: 'provider' };

/** The model calls these tools by a name of its own. */
function takenName(name: string): ResponsesError {
  const message = `The tool "${name}" cannot be offered: another tool of this conversation has its name.`;
  return invalid('tools', 'duplicate_tool', message);
}

/** Names that only their tool may have: also of the client's tools, which may be declared again. */
function namesInUse(used: Exposed, offered: readonly Offered[]): Exposed {
  const kept = Object.entries(used).filter(
    ([, tool]) => isClientTool(tool) || offered.some(({ known }) => isSameTool(known, tool)),
  );
  return Object.fromEntries(kept);
}

function nameTools(
  offered: readonly Offered[],
  { held, among = [], prefix }: { held: Exposed; among?: readonly Offered[]; prefix?: string },
): Offered[] {
  if (offered.length === 0) return [];
  const heldName = ({ known }: Offered) => Object.keys(held).find(name => isSameTool(held[name], known));
  const free = offered.filter(each => heldName(each) === undefined);
  const nameOf = uniqueToolNames(
    [...among, ...free].map(({ tool }) => tool),
    Object.keys(held).filter(name => !among.some(({ tool }) => tool.name === name)),
  );
  return offered.map(each => {
    const { known, tool } = each;
    return { known, tool: { ...tool, name: heldName(each) ?? nameOf(tool, prefix) } };
  });
}

function isPlain(known: ExposedTool, { name }: Tool): boolean {
  return 'kind' in known && known.kind === 'function' && known.name === name;
}

function identify(tool: Tool, { label, target, hidden }: ConnectedServer): ServerTool {
  const known = { label, name: ownName(tool), target };
  return hidden ? { ...known, hidden: true } : known;
}

/** The client runs those that wait for a result; the others look like a server's. */
function identifyOwn({ name, run }: Tool, label: string): ExposedTool {
  return run === undefined ? { kind: 'function', name } : { label, name, target: 'agent' };
}

function ownName({ name, origin }: Tool): string {
  return origin?.tool.name ?? name;
}

function offeredTools({ tools, config, asked }: ConnectedServer): Tool[] {
  const allowed = asked?.allowed_tools;
  const isAllowed = (tool: Tool) =>
    allowed == null || (!Array.isArray(allowed) && isEmpty(allowed)) || matches(tool, allowed);
  return tools.filter(tool => (config?.allowedTools?.includes(ownName(tool)) ?? true) && isAllowed(tool));
}

type Filter = { tool_names?: string[] | undefined; read_only?: boolean | undefined };

function isEmpty({ tool_names: names, read_only: readOnly }: Filter): boolean {
  return names === undefined && readOnly === undefined;
}

/** A filter with both fields requires both; an empty one matches nothing. `read_only` uses the server's annotation. */
function matches(tool: Tool, filter: string[] | Filter): boolean {
  if (Array.isArray(filter)) return filter.includes(ownName(tool));
  const { tool_names: names, read_only: readOnly } = filter;
  if (isEmpty(filter) || names?.includes(ownName(tool)) === false) return false;
  if (readOnly === undefined) return true;
  return (tool.origin?.tool.annotations?.readOnlyHint === true) === readOnly;
}

/** Outputs of functions are kept in full, because a cut image is none. */
const MOST_OUTPUT_BYTES = 64 * 1024 * 1024;

const CLIENT_SIDE = { sideEffect: 'once', repeatable: true, retries: 0, approval: () => false } as const;

function clientTool(declared: RequestTool, deferral: true | 'client'): Offered[] {
  return clientTools(declared).map(given => {
    const { kind, name, namespace } = given;
    const isDeferred = given.kind !== 'own' && given.tool.defer_loading === true;
    const tool = {
      ...toolOf(given),
      ...(isDeferred && { deferred: deferral }),
      ...(isAsync(given.tool) && { background: true }),
    };
    if (namespace === undefined) return { known: { kind, name }, tool };
    const member = { namespace, name };
    return { known: { kind, ...member }, tool: { ...tool, name: flatNameOf(member), member } };
  });
}

function toolOf(given: ClientTool): Tool {
  switch (given.kind) {
    case 'custom':
      return customTool(given.tool);
    case 'function':
      return functionTool(given.tool);
    case 'own':
      return { ...functionTool({ type: 'function', name: given.name }), ...functionFormOf(given.tool) };
  }
}

/** To models without such tools it is a function with the text as its only parameter. */
function customTool({ name, description, format }: CustomTool): Tool {
  const grammar = format?.type === 'grammar' ? grammarOf(format) : '';
  const input = { type: 'string', description: `The text of the input, with nothing around it.${grammar}` };
  return {
    ...CLIENT_SIDE,
    name,
    description: description ?? '',
    inputSchema: { type: 'object', properties: { input }, required: ['input'], additionalProperties: false },
    custom: omitUndefined({ format: format ?? undefined }) as JsonObject,
    validate: value =>
      isJsonObject(value) && typeof value.input === 'string'
        ? { valid: true, value }
        : { valid: false, message: 'expected an object with the text in "input"' },
  };
}

function grammarOf({ syntax, definition }: { syntax: string; definition: string }): string {
  const what = syntax === 'regex' ? 'regular expression' : 'Lark grammar';
  return ` All of it must match this ${what}:\n${definition}`;
}

function functionTool({ name, description, parameters, strict }: FunctionTool): Tool {
  return {
    ...CLIENT_SIDE,
    name,
    description: description ?? '',
    inputSchema: { type: 'object', properties: {}, ...parameters },
    ...omitUndefined({ strict: strict ?? undefined }),
    maxResultBytes: MOST_OUTPUT_BYTES,
    validate: value => ({ valid: true, value }),
  };
}

function serverTool(tool: Tool, server: ConnectedServer): Tool {
  const asks = needsApproval(tool, server);
  const deferred = server.asked?.defer_loading ?? tool.deferred;
  return {
    ...tool,
    ...omitUndefined({ deferred }),
    approval: asks ? () => true : call => (server.hidden ? false : tool.approval(call)),
  };
}

/** `always` in configuration or request wins; without a policy it is needed; hidden servers never ask. */
export function needsApproval(tool: Tool, { config, asked, hidden }: ConnectedServer): boolean {
  if (hidden) return false;
  const name = ownName(tool);
  const configured = config?.tools?.[name]?.approval ?? readPolicy(tool, config?.approval);
  const requested = readPolicy(tool, asked?.require_approval);
  if (configured === true || requested === true) return true;
  return configured === undefined && requested === undefined;
}

function readPolicy(tool: Tool, policy: ApprovalPolicy | McpTool['require_approval']): boolean | undefined {
  if (policy == null) return undefined;
  if (typeof policy === 'string') return policy === 'always';
  const { always, never } = policy;
  if (always !== undefined && matches(tool, always)) return true;
  return never !== undefined && matches(tool, never) ? false : undefined;
}

function listTools(server: ConnectedServer) {
  const tools = offeredTools(server).map(({ name, description, inputSchema, origin }) => {
    const original = origin?.tool;
    return {
      name: original?.name ?? name,
      description: original?.description ?? description,
      input_schema: original?.inputSchema ?? inputSchema,
      ...omitUndefined({ annotations: original?.annotations }),
    };
  });
  const error = server.error === undefined ? undefined : 'The MCP server could not be reached.';
  return { label: server.label, tools, ...omitUndefined({ error }) };
}

/** A server is listed once in a conversation, and again after an error. */
export function newLists(runId: string, { lists }: Toolset, transcript: readonly Item[]) {
  const listed = new Set(
    transcript.flatMap(item => (item.type === 'tool_list' && item.error === undefined ? [item.label] : [])),
  );
  return lists
    .filter(({ label }) => !listed.has(label))
    .map((list, place) => {
      const id = itemIdOf({ kind: 'mcpl', runId, turn: 0, place });
      return { ...list, type: 'tool_list' as const, id };
    });
}
