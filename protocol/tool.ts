import type { JsonObject, JsonValue } from './json.ts';
import type { ToolDefinition } from './turn.ts';

/**
 * What a second execution would do: `none` has no effect outside, `idempotent` is safe with the same
 * key, `once` must not happen twice. Only `once` calls can come to be in doubt. A `none` call that needs no approval
 * starts before the disk has anything of it, so that nobody may ever learn that it ran: declare a read that is paid
 * for or metered as `idempotent`.
 */
export type SideEffect = 'none' | 'idempotent' | 'once';

export type ToolCallContext = {
  /** Aborted on timeout, on cancel, and when the process gives the run up. */
  signal: AbortSignal;
  /** The idempotency key: the same for every attempt of this call, in every process. */
  key: string;
  callId: string;
  runId: string;
  /** Shows `data` to whoever watches the run; never journaled. */
  progress(data: JsonValue): void;
};

/** A call as approval predicates and `reconcile` see it. */
export type CallView<Input = JsonValue> = { callId: string; runId: string; name: string; input: Input };

export type Approval = boolean | { required: boolean; reason?: string; expiresInMs?: number };

/**
 * An approval as its members, each read once; `undefined` for what is neither a boolean nor
 * `{ required: boolean, reason?: string, expiresInMs?: number above 0 }`. Throws what reading throws.
 */
export function readApproval(value: unknown): Exclude<Approval, boolean> | undefined {
  if (typeof value === 'boolean') return { required: value };
  if (typeof value !== 'object' || value === null) return undefined;
  const { required, reason, expiresInMs } = value as Record<string, unknown>;
  if (typeof required !== 'boolean') return undefined;
  if (reason !== undefined && typeof reason !== 'string') return undefined;
  if (expiresInMs !== undefined && !(typeof expiresInMs === 'number' && isTime(expiresInMs)))
    return undefined;
  return {
    required,
    ...(reason === undefined ? {} : { reason }),
    ...(expiresInMs === undefined ? {} : { expiresInMs }),
  };
}

function isTime(ms: number): boolean {
  return ms > 0 && Number.isFinite(ms);
}

/**
 * What became of a call. `happened: false` counts only once no attempt of the call can act any more, unless it
 * is `final`: the tool has made sure outside, by the call's key, that it cannot happen later either.
 */
export type Reconciliation =
  | { happened: true; output: JsonValue }
  | { happened: false; final?: boolean }
  | { unknown: true };

export type Validation =
  | {
      valid: true;
      value: unknown;
      /** What of the schema could not be held against the value, as the model is told with the result. */
      unchecked?: string;
    }
  | { valid: false; message: string };

/** Where a tool comes from, for who names or shows it: its server, and what that says of it, unchanged. */
export type ToolOrigin = {
  label: string;
  tool: { name: string; description?: string; inputSchema: JsonObject; annotations?: JsonObject };
};

/**
 * A tool as the engine runs it, made by `tool()` or a tool source. `validate` never throws.
 * A tool without `run` is executed by the client: its calls wait for a result from outside.
 */
export interface Tool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonObject;
  readonly strict?: boolean;
  readonly sideEffect: SideEffect;
  readonly timeoutMs?: number;
  /** Attempts after the first, for `none` and `idempotent` only. */
  readonly retries: number;
  /** How long a result may be in the journal, in bytes of its JSON; instead of the agent's `maxResultBytes`. */
  readonly maxResultBytes?: number;
  /** What `approval` says of every call; absent where it is a function of the call. */
  readonly fixedApproval?: Approval;
  /** The agent whose runs its calls are. */
  readonly subAgent?: { readonly name: string };
  /** Only for the tools of a server. */
  readonly origin?: ToolOrigin;
  validate(input: JsonValue): Validation | Promise<Validation>;
  approval(call: CallView): Approval | Promise<Approval>;
  run?(input: unknown, context: ToolCallContext): unknown;
  reconcile?(call: CallView<unknown>, context: ToolCallContext): Reconciliation | Promise<Reconciliation>;
}

/** Tools that have to be fetched first, such as an MCP server's. Connected once, when an agent first needs them. */
export interface ToolSource {
  connect(): Promise<readonly Tool[]>;
  close(): Promise<void>;
}

export function toolDefinition(tool: Tool): ToolDefinition {
  return {
    name: tool.name,
    description: tool.description,
    inputSchema: tool.inputSchema,
    ...(tool.strict === undefined ? {} : { strict: tool.strict }),
  };
}
