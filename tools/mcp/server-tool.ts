import { createHash } from 'node:crypto';
import type { Tool as McpTool, Progress } from '@modelcontextprotocol/client';
import { InDoubt } from '../../protocol/error.ts';
import { isJsonObject, type JsonObject, type JsonValue, toBoundedText } from '../../protocol/json.ts';
import type {
  CallView,
  Reconciliation,
  SideEffect,
  Tool,
  ToolCallContext,
  ToolOrigin,
} from '../../protocol/tool.ts';
import { type ApprovalRule, applyApprovalRule } from '../approval-rule.ts';
import { checkReconciliation } from '../check-reconciliation.ts';
import { checkToolSettings } from '../check-tool-settings.ts';
import { createArgumentsCheck } from './check-arguments.ts';
import { readResult } from './read-result.ts';
import type { ServerConnection } from './server-connection.ts';
import type { Session } from './session.ts';

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
  /** How long a result may be in the journal, in bytes of its JSON; instead of the agent's limit. */
  maxResultBytes?: number;
  description?: string;
};

export type ServerToolOptions = {
  connection: ServerConnection;
  server: string;
  prefix: string;
  trustHints: boolean;
  /** How long the server may be silent during a call; progress starts it anew. */
  silenceMs: number;
  /** How long a call may take in all, progress or not, where the tool has no time of its own. */
  totalMs: number;
  override: McpToolOverride;
};

/** In characters: what every provider takes. */
const LONGEST_NAME = 64;
const DIGEST = 8;

function nameFor(prefix: string, own: string): string {
  const name = prefix + own.replaceAll(/[^a-zA-Z0-9_-]/g, '_');
  if (name.length <= LONGEST_NAME) return name;
  const digest = createHash('sha256').update(own).digest('hex').slice(0, DIGEST);
  return `${name.slice(0, LONGEST_NAME - DIGEST - 1)}_${digest}`;
}

/**
 * One of an MCP server's tools as the engine runs it. Characters a provider would not take in its name
 * become `_`, and a name that is too long ends in a digest of the whole one instead. Throws an `EngineError`
 * `agent-invalid` when the override cannot work.
 *
 * `run` rejects with an `Error` when the server says so: an `isError` result, a JSON-RPC error. When it
 * cannot know whether the server acted (the connection ended, the time was over, the answer is not a
 * result), it rejects with `InDoubt` if the tool is `once`, else with an `Error`: nothing is lost by
 * doing it again. An `EngineError` `tool-source-failed` says that the server was not reached or refused the
 * request, and did nothing. A call whose session the server has lost is made once more in a new one.
 */
export function createServerTool(described: McpTool, options: ServerToolOptions): Tool {
  const { override, connection, server } = options;
  const name = nameFor(options.prefix, described.name);
  const sideEffect = override.sideEffect ?? readHints(described, options.trustHints);
  const { retries = 0, timeoutMs, maxResultBytes, approval = false, reconcile } = override;
  checkToolSettings({ name, sideEffect, retries, timeoutMs, maxResultBytes, approval });

  async function run(input: unknown, context: ToolCallContext): Promise<JsonValue> {
    let session = await connection.session();
    for (let isFirst = true; ; isFirst = false) {
      context.signal.throwIfAborted();
      const [answer] = await Promise.allSettled([callWithin(session, input, context)]);
      if (answer.status === 'fulfilled') return readResult(name, answer.value, session.redact);
      const { reason: error } = answer;
      if (!isFirst || session.fateOf(error) !== 'session-lost') throw describe(error, session);
      session = await connection.renew(session);
    }
  }

  /** The signal's reason is what the client then says went wrong. */
  async function callWithin(session: Session, input: unknown, context: ToolCallContext) {
    if (timeoutMs !== undefined) return callServer(session, input, context);
    const late = new AbortController();
    const { totalMs } = options;
    const timer = setTimeout(
      () => late.abort(`it had not answered after ${totalMs} ms in all; totalTimeoutMs is the limit`),
      totalMs,
    );
    try {
      const signal = AbortSignal.any([context.signal, late.signal]);
      return await callServer(session, input, { ...context, signal });
    } finally {
      clearTimeout(timer);
    }
  }

  function callServer(session: Session, input: unknown, context: ToolCallContext) {
    const params = { name: described.name, arguments: isJsonObject(input) ? input : {} };
    const asking = {
      signal: context.signal,
      timeout: timeoutMs ?? options.silenceMs,
      resetTimeoutOnProgress: true,
      onprogress: (progress: Progress) => context.progress(JSON.parse(textOrNull(progress))),
      toolDefinition: { name: described.name, inputSchema: described.inputSchema },
    };
    return session.ask(client => client.callTool(params, asking));
  }

  function describe(error: unknown, { fateOf, reasonOf, explain }: Session): Error {
    switch (fateOf(error)) {
      case 'answered':
        return new Error(`"${name}": ${reasonOf(error)}`);
      case 'not-done':
      case 'session-lost':
        return explain(error);
      case 'unknown': {
        const message =
          `"${name}": the MCP server "${server}" was called and gave no result (${reasonOf(error)}): ` +
          'whether it acted is not known.';
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
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(maxResultBytes === undefined ? {} : { maxResultBytes }),
    validate: createArgumentsCheck(copied),
    ...(typeof approval === 'function' ? {} : { fixedApproval: approval }),
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

/** Of a description and of a schema no more is passed on, in characters. */
const LONGEST_DESCRIPTION = 50_000;
const LONGEST_SCHEMA = 500_000;

function copyTool({ name, description, annotations }: McpTool, inputSchema: JsonObject): ToolOrigin['tool'] {
  return {
    name,
    ...(description === undefined ? {} : { description: cut(description) }),
    inputSchema,
    ...(annotations === undefined ? {} : { annotations: copySchema(annotations) ?? {} }),
  };
}

function cut(description: string): string {
  return description.length > LONGEST_DESCRIPTION
    ? `${description.slice(0, LONGEST_DESCRIPTION)}…`
    : description;
}

/** `undefined` for a schema that is nested too deep or very long: no provider, digest or page could take it. */
function copySchema(value: unknown): JsonObject | undefined {
  const text = textOrNull(value);
  const copy: JsonValue = text.length > LONGEST_SCHEMA ? null : JSON.parse(text);
  return isJsonObject(copy) ? copy : undefined;
}

/** Progress and schemas that cannot be carried are left out: they must not end the call or the listing. */
function textOrNull(value: unknown): string {
  try {
    return toBoundedText(value);
  } catch {
    return 'null';
  }
}
