import type { JsonValue } from '../../protocol/json.ts';
import type { CallView, Reconciliation, SideEffect, ToolCallContext } from '../../protocol/tool.ts';
import type { ApprovalRule } from '../approval-rule.ts';

/** An MCP server that is started as a process and reached over its stdin and stdout. */
export type StdioServer = {
  command: string;
  args?: readonly string[];
  /** Added to the few variables that the MCP client passes on (PATH, HOME, …); no others are inherited. */
  env?: Readonly<Record<string, string>>;
  cwd?: string;
};

/** An MCP server that is reached over Streamable HTTP. */
export type HttpServer = {
  /** http or https, without credentials; use `headers` for those. */
  url: string;
  /** Sent with every request, but never to another origin. */
  headers?: Readonly<Record<string, string>>;
  /** Used instead of the global `fetch`. */
  fetch?: (input: string | URL, init?: RequestInit) => Promise<Response>;
};

/** The application's settings for a server's tool. They take precedence over what the server declares. */
export type McpToolOverride = {
  sideEffect?: SideEffect;
  approval?: ApprovalRule<JsonValue>;
  reconcile?: (call: CallView<unknown>, context: ToolCallContext) => Reconciliation | Promise<Reconciliation>;
  /** Hides the tool from the model; it cannot be called. */
  hidden?: boolean;
  /** Time limit of one attempt in ms, regardless of progress; replaces the server's `timeoutMs`. */
  timeoutMs?: number;
  retries?: number;
  /** The largest result that the journal stores in full, in bytes of its JSON; replaces the agent's limit. */
  maxResultBytes?: number;
  description?: string;
};
