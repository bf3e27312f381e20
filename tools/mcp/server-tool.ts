import type { Tool as McpTool } from '@modelcontextprotocol/client';
import { InDoubt, messageOf } from '../../protocol/error.ts';
import { isJsonObject, type JsonValue, toJson } from '../../protocol/json.ts';
import type { CallView, Reconciliation, SideEffect, Tool, ToolCallContext } from '../../protocol/tool.ts';
import { type ApprovalRule, applyApprovalRule } from '../approval-rule.ts';
import { checkReconciliation } from '../check-reconciliation.ts';
import { checkToolSettings } from '../check-tool-settings.ts';
import { createArgumentsCheck } from './check-arguments.ts';
import { readResult } from './read-result.ts';
import type { ServerConnection } from './server-connection.ts';

/** What the application knows of a server's tool, and the server's own words do not bind. */
export type McpToolOverride = {
  sideEffect?: SideEffect;
  approval?: ApprovalRule<JsonValue>;
  reconcile?: (call: CallView<unknown>, context: ToolCallContext) => Reconciliation | Promise<Reconciliation>;
  /** The model is not told of the tool, and it cannot be called. */
  hidden?: boolean;
  /** How long one attempt may take, progress or not; instead of the server's `timeoutMs`. */
  timeoutMs?: number;
  retries?: number;
  description?: string;
};

export type ServerToolOptions = {
  connection: ServerConnection;
  server: string;
  prefix: string;
  trustHints: boolean;
  /** How long the server may be silent during a call; progress starts it anew. */
  silenceMs: number;
  override: McpToolOverride;
};

/**
 * One of an MCP server's tools as the engine runs it. Characters a provider would not take in its name
 * become `_`. Throws an `EngineError` `agent-invalid` when the name is too long or the override cannot work.
 *
 * `run` rejects with an `Error` when the server says so: an `isError` result, a JSON-RPC error. When it
 * cannot know whether the server acted (the connection ended, the time was over, the answer is not a
 * result), it rejects with `InDoubt` if the tool is `once`, else with an `Error`: nothing is lost by
 * doing it again. An `EngineError` `tool-source-failed` says that nothing was sent.
 */
export function createServerTool(described: McpTool, options: ServerToolOptions): Tool {
  const { override, connection, server } = options;
  const name = options.prefix + described.name.replaceAll(/[^a-zA-Z0-9_-]/g, '_');
  const sideEffect = override.sideEffect ?? readHints(described, options.trustHints);
  const { retries = 0, timeoutMs, approval = false, reconcile } = override;
  checkToolSettings({ name, sideEffect, retries, timeoutMs, approval });

  async function run(input: unknown, context: ToolCallContext): Promise<JsonValue> {
    const { ProtocolError } = await import('@modelcontextprotocol/client');
    const { client, explain } = await connection.session();
    context.signal.throwIfAborted();
    const calling = client.callTool(
      { name: described.name, arguments: isJsonObject(input) ? input : {} },
      {
        signal: context.signal,
        timeout: timeoutMs ?? options.silenceMs,
        resetTimeoutOnProgress: true,
        onprogress: progress => context.progress(toJson(progress)),
        toolDefinition: { name: described.name, inputSchema: described.inputSchema },
      },
    );
    const result = await calling.catch(error => {
      if (ProtocolError.isInstance(error)) throw new Error(`"${name}": ${error.message}`, { cause: error });
      throw doubt(error, explain(error));
    });
    return readResult(name, result);
  }

  function doubt(error: unknown, cause: Error): Error {
    const message =
      `"${name}": the MCP server "${server}" was called and gave no result (${messageOf(error)}): ` +
      'whether it acted is not known.';
    return sideEffect === 'once' ? new InDoubt(message, { cause }) : new Error(message, { cause });
  }

  const schema = copySchema(described);
  const { $schema: _dialect, ...inputSchema } = schema;
  return {
    name,
    description: override.description ?? described.description ?? described.title ?? described.name,
    inputSchema,
    sideEffect,
    retries,
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    validate: createArgumentsCheck(schema),
    approval: call => applyApprovalRule(approval, call),
    run,
    ...(reconcile && {
      reconcile: async (call: CallView<unknown>, context: ToolCallContext) =>
        checkReconciliation(name, await reconcile(call, context)),
    }),
  };
}

function readHints({ annotations }: McpTool, trusted: boolean): SideEffect {
  if (!trusted) return 'once';
  if (annotations?.readOnlyHint) return 'none';
  return annotations?.idempotentHint ? 'idempotent' : 'once';
}

function copySchema({ inputSchema }: McpTool) {
  const copy = toJson(inputSchema);
  return isJsonObject(copy) ? copy : {};
}
