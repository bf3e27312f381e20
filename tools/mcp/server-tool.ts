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
import { type Again, completeCall, isKeeping } from './call-rounds.ts';
import { type McpSession, type ServerConnection, TASKS_EXTENSION } from './session.ts';
import type { Sent, ServerRequest } from './tasks.ts';

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

/** What a call of a tool asks of the server. `params`: what the request has besides the input. */
type Asked = { input: JsonObject; params: Again & { _meta?: JsonObject } };

/** What the client has for calls, in each request of revision 2026-07-28: other requests are not to ask people. */
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';
const OF_CALLS = { elicitation: { form: {}, url: {} }, extensions: { [TASKS_EXTENSION]: {} } };

/** A tool that a server has, or that reads what a server has, and how it is run. @internal */
export type ServerOffer = {
  described: McpTool;
  /** Of a tool that is ours. For the server's tools, its hints say it. */
  sideEffect?: SideEffect;
  tags?: readonly string[];
  /** What else a list says of it: if that changes, the tool is made again. */
  version?: unknown;
  ask(client: Client, asked: Asked, options: RequestOptions): Promise<CallToolResult | InputRequiredResult>;
};

/** The tool as the server runs it. @internal */
export function offerTool(described: McpTool): ServerOffer {
  const { name, inputSchema } = described;
  return {
    described,
    ask: (client, { input, params }, options) =>
      client.callTool(
        { name, arguments: input, ...params },
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
 * - an `Error` when the server reports a failure: an `isError` result or a JSON-RPC error, or asks for what people cannot
 *   give;
 * - `InDoubt` (for a tool that is not `once`: an `Error`) when the server may have acted: the connection ended,
 *   the time limit was reached, or the response is not a result;
 * - an `EngineError` `tool-source-failed` when the server was not reached or refused the request.
 * If the server has lost the session, the call is repeated once in a new session. `call-rounds.ts` has what follows if it
 * asks people or begins a task.
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
    const capabilities = isKeeping(context) ? { [CAPABILITIES]: OF_CALLS } : {};
    const metaFor = (client: Client) => ({
      ...context.trace,
      ...(client.getProtocolEra() === 'modern' && capabilities),
    });
    const onprogress = (progress: Progress) => context.progress(JSON.parse(textOrNull(progress)));

    async function send<Answer>(
      request: ServerRequest<Answer>,
      signal: AbortSignal,
      more: RequestOptions = {},
    ): Promise<Sent<Answer>> {
      let session = await connection.session();
      for (let isFirst = true; ; isFirst = false) {
        signal.throwIfAborted();
        const asking = session.ask(client => {
          const _meta = metaFor(client);
          const about = Object.keys(_meta).length === 0 ? {} : { _meta };
          return withinLimit(signal, limited =>
            request(client, { signal: limited, timeout: timeoutMs ?? options.silenceMs, ...more }, about),
          );
        });
        const [outcome] = await Promise.allSettled([asking]);
        if (outcome.status === 'fulfilled') return { session, answer: outcome.value };
        const { reason: error } = outcome;
        if (!isFirst || session.outcomeOf(error) !== 'session-lost') return { session, error };
        session = await connection.renew(session);
      }
    }

    async function call(again: Again) {
      const asked = { input: isJsonObject(input) ? input : {} };
      const sent = await send(
        (client, how, about) => ask(client, { ...asked, params: { ...again, ...about } }, how),
        context.signal,
        { resetTimeoutOnProgress: true, onprogress, allowInputRequired: true },
      );
      if ('error' in sent) throw describe(sent.error, sent.session);
      return { result: sent.answer, session: sent.session };
    }

    return await completeCall({ name, server, isOnce: sideEffect === 'once', send, call, doubt }, context);
  }

  /** Applies the total time limit. The client uses the reason of the signal as its error message. */
  async function withinLimit<Answer>(
    signal: AbortSignal,
    request: (signal: AbortSignal) => Promise<Answer>,
  ): Promise<Answer> {
    if (timeoutMs !== undefined) return await request(signal);
    const expired = new AbortController();
    const { totalMs } = options;
    const timer = setTimeout(
      () => expired.abort(`no response within ${totalMs} ms (totalTimeoutMs)`),
      totalMs,
    );
    try {
      return await request(AbortSignal.any([signal, expired.signal]));
    } finally {
      clearTimeout(timer);
    }
  }

  function doubt(why: string, cause?: unknown): Error {
    const message = `"${name}": the MCP server "${server}" ${why}: it is unknown whether it acted.`;
    return sideEffect === 'once' ? new InDoubt(message, { cause }) : new Error(message, { cause });
  }

  function describe(error: unknown, { outcomeOf, reasonOf, explain }: McpSession): Error {
    switch (outcomeOf(error)) {
      case 'answered':
        return new Error(`"${name}": ${reasonOf(error)}`);
      case 'not-done':
      case 'session-lost':
        return explain(error);
      case 'unknown':
        return doubt(`was called and returned no result (${reasonOf(error)})`, explain(error));
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
