import type {
  CallToolResult,
  Client,
  InputRequiredResult,
  Tool as McpTool,
  Progress,
  RequestOptions,
} from '@modelcontextprotocol/client';
import { InDoubt } from '../../protocol/error.ts';
import {
  isJsonObject,
  type JsonObject,
  type JsonValue,
  omitUndefined,
  toBoundedText,
} from '../../protocol/json.ts';
import { createArgumentsCheck } from '../../protocol/schemas/check-json.ts';
import type {
  CallView,
  Reconciliation,
  SideEffect,
  Tool,
  ToolCallContext,
  ToolOrigin,
} from '../../protocol/tool.ts';
import {
  type ApprovalRule,
  applyApprovalRule,
  fixedApproval,
  pureApproval,
  readsHistory,
} from '../approval-rule.ts';
import { checkReconciliation } from '../check-reconciliation.ts';
import { checkToolSettings } from '../check-tool-settings.ts';
import { shortenToolName } from '../unique-tool-names.ts';
import { readResult } from './read-result.ts';
import type { McpSession, ServerConnection } from './session.ts';

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
  /** See `tool()`: the same input may come again. */
  repeatable?: boolean;
  /** What the tool does, in words for the agent's `rules`; besides those of the server. */
  tags?: readonly string[];
  /** The largest result that the journal stores in full, in bytes of its JSON; replaces the agent's limit. */
  maxResultBytes?: number;
  /** Whether the model has to find the tool; replaces the server's `deferred`. */
  deferred?: boolean;
  description?: string;
};

/** What a call of a tool asks of the server. */
type Asked = { input: JsonObject; meta: { _meta?: Record<string, string> } };

/** A tool that a server has, or that reads what a server has, and how it is run. @internal */
export type ServerOffer = {
  described: McpTool;
  /** Of a tool that is ours. The server's hints say it of its own. */
  sideEffect?: SideEffect;
  tags?: readonly string[];
  /** What else a list says of it: if that changes, the tool is made anew. */
  version?: unknown;
  ask(client: Client, asked: Asked, options: RequestOptions): Promise<CallToolResult | InputRequiredResult>;
};

/** The tool as the server runs it. @internal */
export function offerTool(described: McpTool): ServerOffer {
  const { name, inputSchema } = described;
  return {
    described,
    ask: (client, { input, meta }, options) =>
      client.callTool(
        { name, arguments: input, ...meta },
        { ...options, toolDefinition: { name, inputSchema } },
      ),
  };
}

type ServerToolOptions = {
  connection: ServerConnection;
  server: string;
  prefix: string;
  trustHints: boolean;
  deferred: boolean;
  tags: readonly string[];
  /** How long the server may be silent during a call, in ms; each progress notification restarts the timer. */
  silenceMs: number;
  /** Time limit of a call in ms, regardless of progress, unless the tool has its own `timeoutMs`. */
  totalMs: number;
  override: McpToolOverride;
};

function nameFor(prefix: string, serverName: string): string {
  return shortenToolName(prefix + serverName.replaceAll(/[^a-zA-Z0-9_-]/g, '_'), serverName);
}

/**
 * Returns the `Tool` for what an MCP server offers. Characters that providers do not accept in names become
 * `_`; a name that is too long is cut and ends in a digest of the server's name for it. Throws an `EngineError`
 * `agent-invalid` for an invalid override.
 *
 * `run` rejects with:
 * - an `Error` when the server reports a failure: an `isError` result or a JSON-RPC error, or asks for input;
 * - `InDoubt` (for a tool that is not `once`: an `Error`) when the server may have acted: the connection ended,
 *   the time limit was reached, or the response is not a result;
 * - an `EngineError` `tool-source-failed` when the server was not reached or refused the request.
 * If the server has lost the session, the call is repeated once in a new session.
 * @internal
 */
export function createServerTool(
  { described, ask, sideEffect: known, tags: own = [] }: ServerOffer,
  options: ServerToolOptions,
): Tool {
  const { override, connection, server } = options;
  const name = nameFor(options.prefix, described.name);
  const sideEffect = override.sideEffect ?? known ?? readHints(described, options.trustHints);
  const { retries = 0, repeatable, timeoutMs, maxResultBytes, approval = false, reconcile } = override;
  const tags = [...new Set([...options.tags, ...own, ...(override.tags ?? [])])];
  checkToolSettings({ name, sideEffect, retries, repeatable, tags, timeoutMs, maxResultBytes, approval });

  async function run(input: unknown, context: ToolCallContext): Promise<JsonValue> {
    let session = await connection.session();
    for (let isFirst = true; ; isFirst = false) {
      context.signal.throwIfAborted();
      const [outcome] = await Promise.allSettled([callWithin(session, input, context)]);
      if (outcome.status === 'fulfilled') return readResult(name, outcome.value, session.redact);
      const { reason: error } = outcome;
      if (!isFirst || session.outcomeOf(error) !== 'session-lost') throw describe(error, session);
      session = await connection.renew(session);
    }
  }

  /** Applies the total time limit. The client uses the reason of the signal as its error message. */
  async function callWithin(session: McpSession, input: unknown, context: ToolCallContext) {
    if (timeoutMs !== undefined) return callServer(session, input, context);
    const expired = new AbortController();
    const { totalMs } = options;
    const timer = setTimeout(
      () => expired.abort(`no response within ${totalMs} ms (totalTimeoutMs)`),
      totalMs,
    );
    try {
      const signal = AbortSignal.any([context.signal, expired.signal]);
      return await callServer(session, input, { ...context, signal });
    } finally {
      clearTimeout(timer);
    }
  }

  function callServer(session: McpSession, input: unknown, context: ToolCallContext) {
    const asked = {
      input: isJsonObject(input) ? input : {},
      meta: context.trace === undefined ? {} : { _meta: { ...context.trace } },
    };
    const requestOptions = {
      signal: context.signal,
      timeout: timeoutMs ?? options.silenceMs,
      resetTimeoutOnProgress: true,
      onprogress: (progress: Progress) => context.progress(JSON.parse(textOrNull(progress))),
      allowInputRequired: true,
    };
    return session.ask(client => ask(client, asked, requestOptions));
  }

  function describe(error: unknown, { outcomeOf, reasonOf, explain }: McpSession): Error {
    switch (outcomeOf(error)) {
      case 'answered':
        return new Error(`"${name}": ${reasonOf(error)}`);
      case 'not-done':
      case 'session-lost':
        return explain(error);
      case 'unknown': {
        const message =
          `"${name}": the MCP server "${server}" was called and returned no result (${reasonOf(error)}): ` +
          'it is unknown whether it acted.';
        const cause = explain(error);
        return sideEffect === 'once' ? new InDoubt(message, { cause }) : new Error(message, { cause });
      }
    }
  }

  const copied = copySchema(described.inputSchema);
  const schema = copied ?? { type: 'object' };
  const { $schema: _dialect, ...inputSchema } = schema;
  return {
    name,
    description: override.description ?? cut(described.description ?? described.title ?? described.name),
    inputSchema,
    sideEffect,
    retries,
    origin: { label: server, tool: copyTool(described, schema) },
    ...omitUndefined({
      timeoutMs,
      maxResultBytes,
      repeatable,
      tags: tags.length === 0 ? undefined : tags,
      deferred: (override.deferred ?? options.deferred) || undefined,
      fixedApproval: fixedApproval(approval),
      pureApproval: pureApproval(approval),
      readsHistory: readsHistory(approval),
    }),
    validate: createArgumentsCheck(copied),
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

/** In characters. A longer description is cut; a longer schema is replaced by `{ type: 'object' }`. */
const MAX_DESCRIPTION = 50_000;
const MAX_SCHEMA = 500_000;

function copyTool({ name, description, annotations }: McpTool, inputSchema: JsonObject): ToolOrigin['tool'] {
  return {
    name,
    ...omitUndefined({ description: description === undefined ? undefined : cut(description) }),
    inputSchema,
    ...omitUndefined({ annotations: annotations && (copySchema(annotations) ?? {}) }),
  };
}

function cut(description: string): string {
  return description.length > MAX_DESCRIPTION ? `${description.slice(0, MAX_DESCRIPTION)}…` : description;
}

/** Copies a schema as JSON; `undefined` if it is nested too deep or longer than `MAX_SCHEMA`. */
function copySchema(value: unknown): JsonObject | undefined {
  const text = textOrNull(value);
  const copy: JsonValue = text.length > MAX_SCHEMA ? null : JSON.parse(text);
  return isJsonObject(copy) ? copy : undefined;
}

/** The value as JSON text; `null` if it is not JSON or nested too deep. That must not fail a call or a listing. */
function textOrNull(value: unknown): string {
  try {
    return toBoundedText(value);
  } catch {
    return 'null';
  }
}
