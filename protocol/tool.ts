import type { Duties, GivenAnswer } from './event.ts';
import type { Item } from './item.ts';
import { type JsonObject, type JsonValue, omitUndefined } from './json.ts';
import type { HistoryCall } from './rule.ts';
import type { Store } from './store.ts';
import type { ToolDefinition } from './turn.ts';

/**
 * The effect of repeating a call: `none` has no external effect, `idempotent` can be repeated with the same key, `once`
 * must not happen twice. Only `once` calls can become in doubt. A `none` call without approval starts before anything
 * about it is durable, so a crash may leave no record of it: declare paid or metered reads as `idempotent`.
 */
export type SideEffect = 'none' | 'idempotent' | 'once';

/**
 * A question to people about a call. `schema`: the JSON Schema of the answer. `url`: of a page where the answer is given
 * instead. `fallback`: the answer if there is none in time. `fault`: asks again, and says why the answer before does not fit.
 */
export type AskedQuestion = {
  key: string;
  message: string;
  schema: JsonObject;
  url?: string;
  by?: string | readonly string[];
  not?: 'starter' | 'sender';
  expiresInMs?: number;
  fallback?: JsonValue;
  fault?: string;
};

/** What became of a question. */
export type QuestionAnswer = GivenAnswer | { type: 'expired' };

/** What a tool's functions get besides the input. `RunContext` is the type of the run's context. */
export type ToolCallContext<RunContext = unknown> = {
  /** Aborted on timeout, on cancel, and when this process stops driving the run. */
  signal: AbortSignal;
  /** The idempotency key: the same for every attempt of this call, in every process. */
  key: string;
  callId: string;
  runId: string;
  /** Counts the attempts of this call from 1; the engine always sets it. */
  attempt?: number;
  /** The W3C trace context of this attempt, from `agentchart/otel`; `mcp()` passes it on to its server. */
  trace?: { traceparent: string; tracestate?: string; baggage?: string };
  /** What `agent.start` was given for this run; `undefined` for an agent without a `runContext`. */
  runContext: RunContext;
  /** What the tool's `prepare` returned. */
  prepared?: unknown;
  /**
   * Returns what became of a question, if it is known. Else people are asked: the function ends, and runs again from its
   * start once they have answered.
   * @internal
   */
  askPeople?(question: AskedQuestion): Promise<QuestionAnswer>;
  /** @internal What an earlier attempt passed to `keep`. */
  kept?: JsonValue;
  /** @internal Makes durable how far the call has come. Later attempts continue from there, and do nothing twice. */
  keep?(state: JsonValue): Promise<void>;
  /** @internal Resolves after `ms` on the engine's clock, or as soon as `signal` is aborted. */
  wait?(ms: number): Promise<void>;
  /** @internal The store of the run; absent in an actor of `agent.services()`. */
  store?: Store;
  /** Sends `data` to the run's observers; never journaled. */
  progress(data: JsonValue): void;
};

/** A call as passed to approval predicates and `reconcile`. */
export type CallView<Input = JsonValue, RunContext = unknown> = {
  callId: string;
  runId: string;
  name: string;
  input: Input;
  runContext: RunContext;
};

/**
 * Whether a call needs an approval. `by`: the groups that may decide it. `not`: who may not, although in one of
 * these groups: who started the run, or anyone who wrote in it. `quorum`: how many people must approve it; one rejection
 * ends it. Who is not known may not decide a call with one of the three, and no decision about it is sticky.
 */
export type Approval =
  | boolean
  | {
      required: boolean;
      reason?: string;
      by?: string | readonly string[];
      not?: 'starter' | 'sender';
      quorum?: number;
      expiresInMs?: number;
    };

/** The answer of an approval rule in one form. */
export type ReadApproval = { required: boolean; reason?: string; expiresInMs?: number } & Duties;

const MOST_GROUPS = 100;
const LONGEST_GROUP = 256;

function isGroup(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= LONGEST_GROUP;
}

/** Groups as a list; `undefined` for anything else than one or some names of groups. */
export function readGroups(value: unknown): string[] | undefined {
  const groups: unknown[] = Array.isArray(value) ? value : [value];
  if (groups.length === 0 || groups.length > MOST_GROUPS) return undefined;
  return groups.every(isGroup) ? [...new Set(groups)] : undefined;
}

/**
 * Returns the approval as an object; each member is read once. Returns `undefined` for a value that is neither a
 * boolean nor such an object. Rethrows errors of getters.
 */
export function readApproval(value: unknown): ReadApproval | undefined {
  if (typeof value === 'boolean') return { required: value };
  if (typeof value !== 'object' || value === null) return undefined;
  const { required, reason, expiresInMs, by: given, not, quorum } = value as Record<string, unknown>;
  if (typeof required !== 'boolean') return undefined;
  if (reason !== undefined && typeof reason !== 'string') return undefined;
  if (expiresInMs !== undefined && !(typeof expiresInMs === 'number' && isTime(expiresInMs)))
    return undefined;
  const by = given === undefined ? undefined : readGroups(given);
  if (given !== undefined && by === undefined) return undefined;
  if (not !== undefined && not !== 'starter' && not !== 'sender') return undefined;
  if (quorum !== undefined && !(typeof quorum === 'number' && Number.isInteger(quorum) && quorum > 0))
    return undefined;
  return { required, ...omitUndefined({ reason, expiresInMs, by, not, quorum }) };
}

function isTime(ms: number): boolean {
  return ms > 0 && Number.isFinite(ms);
}

/**
 * The outcome of a call, as `reconcile` found it. `happened: false` counts only when no attempt of the call can still
 * be running, unless it is `final`: the external system has blocked the call's key, so it cannot happen later either.
 */
export type Reconciliation<Output = JsonValue> =
  | { happened: true; output: Output }
  | { happened: false; final?: boolean }
  | { unknown: true };

export type Validation =
  | {
      valid: true;
      value: unknown;
      /** The parts of the schema that could not be checked; reported to the model with the result. */
      unchecked?: string;
    }
  | { valid: false; message: string };

/** A call as approval functions get it. `history`: what counts as having happened before it in the thread. */
export type ApprovalCall<Input = JsonValue, RunContext = unknown> = CallView<Input, RunContext> & {
  readonly history: readonly HistoryCall[];
};

/** The origin of a tool, for display: the label of its server, and the server's description of the tool, unchanged. */
export type ToolOrigin = {
  label: string;
  tool: { name: string; description?: string; inputSchema: JsonObject; annotations?: JsonObject };
};

/**
 * A tool as the engine runs it, created by `tool()` or a tool source. `validate` never throws. A tool without `run` is
 * a client tool: its calls wait for a result from the caller.
 *
 * `Input` and `Output` are the types of a call's input and result as JSON, and `RunContext` is what the tool needs of
 * the run's context (`unknown` for nothing). `Tool` alone is any tool.
 */
export interface Tool<Name extends string = string, Input = unknown, Output = unknown, RunContext = unknown> {
  readonly name: Name;
  /** For the compiler only: no tool has this member. */
  readonly '~types'?: { input: Input; output: Output; runContext: RunContext };
  readonly description: string;
  readonly inputSchema: JsonObject;
  readonly strict?: boolean;
  /** See `ToolDefinition.custom`. */
  readonly custom?: { readonly format?: JsonObject };
  /** See `ToolDefinition.member`. */
  readonly member?: { readonly namespace: string; readonly name: string };
  readonly sideEffect: SideEffect;
  readonly timeoutMs?: number;
  /** Attempts after the first, for `none` and `idempotent` only. */
  readonly retries: number;
  /** For `once` only: a call that equals one that was done before a compaction needs no approval for that. */
  readonly repeatable?: boolean;
  /** What the tool does, in words for rules, such as `untrusted` or `leaves`. */
  readonly tags?: readonly string[];
  /** The maximum size of a result in the journal, in bytes of its JSON; overrides the agent's `maxResultBytes`. */
  readonly maxResultBytes?: number;
  /** The approval of every call; absent if `approval` depends on the call. */
  readonly fixedApproval?: Approval;
  /** Whether the approval depends on the history of the call. */
  readonly readsHistory?: boolean;
  /** For a sub-agent: the agent that each call runs. */
  readonly subAgent?: { readonly name: string };
  /** See `QualifiedCall`. */
  readonly answers?: 'directly' | 'back';
  /** See `QualifiedCall`. */
  readonly background?: boolean;
  /** For a sub-agent: its runs see the conversation, or what the function leaves of it. */
  readonly sees?: { filter?(items: readonly Item[]): readonly Item[] };
  /** Only for tools of a tool server. */
  readonly origin?: ToolOrigin;
  /** The model finds the tool by a search before it sees it; `client`: a search that the caller has as one of the tools. */
  readonly deferred?: boolean | 'client';
  /** Only for the search for deferred tools: the names of those that a result has found. */
  finds?(output: JsonValue): string[];
  validate(input: JsonValue): Validation | Promise<Validation>;
  /** Only for a tool with an output schema: checks a result that a person or a client gives. */
  validateOutput?(output: unknown): Validation | Promise<Validation>;
  /** Only for a tool that needs a run context: whether the tool accepts this one. */
  validateRunContext?(runContext: unknown): Validation | Promise<Validation>;
  approval(call: CallView & Partial<Pick<ApprovalCall, 'history'>>): Approval | Promise<Approval>;
  /**
   * Only for an approval rule with `pure: true`: its function, for the value that `validate` returned, and
   * without a check of its answer.
   */
  pureApproval?(call: CallView<unknown>): unknown;
  /** Runs before the call begins, and again whenever it has to. Has no side effects. What it returns is `prepared` in `run`. */
  prepare?(input: unknown, context: ToolCallContext): unknown;
  run?(input: unknown, context: ToolCallContext): unknown;
  reconcile?(
    call: CallView<unknown>,
    context: ToolCallContext,
  ): Reconciliation<unknown> | Promise<Reconciliation<unknown>>;
}

/**
 * A source of tools that are fetched first, such as an MCP server. Connected once, when an agent first needs it, and again
 * while it is stale.
 */
export interface ToolSource {
  /** All tags that its tools have. */
  readonly tags?: readonly string[];
  /** How a person signs in, if the source may need it: `connect` then rejects with `sign-in-needed`. */
  readonly signIn?: ToolSignIn;
  /** Whether its tools may have changed. `connect` then gives the present ones, for the next turn of each run. */
  readonly isStale?: boolean;
  connect(): Promise<readonly Tool[]>;
  close(): Promise<void>;
}

/**
 * Signs a person in at the authorization server of a tool source. The process that begins and the one that completes may
 * differ, if both have the same credentials. Rejects with `sign-in-failed`, and says why; with `input-invalid` for a
 * `redirectUrl` that is neither https nor on this machine.
 */
export interface ToolSignIn {
  /** The name of the source. */
  readonly server: string;
  /** Where the browser returns to, if the source has one place for all sign-ins. */
  readonly redirectUrl?: string;
  /**
   * Asks the authorization server. Send the person's browser to `url`; it returns to `redirectUrl` with the answer.
   * `expiresAt`: when the `state` ends, in ms since the epoch.
   */
  begin(request: SignInRequest): Promise<{ url: string; state: string; expiresAt: number }>;
  /** Whether a sign-in with this `state` has begun and not ended. */
  isPending(state: string): Promise<boolean>;
  /** Takes the parameters of the answer, and keeps the tokens. A `state` can be used once. */
  complete(answer: SignInAnswer): Promise<SignedIn>;
  /** Forgets the tokens here; the authorization server is not told. Returns whether there were any. */
  signOut(): Promise<boolean>;
}

/** `redirectUrl` is https, or http on this machine; it may be left out if the source has its own. */
export type SignInRequest = { redirectUrl?: string };
/** The parameters with which the browser returned. */
export type SignInAnswer = {
  state: string;
  code?: string | undefined;
  iss?: string | undefined;
  error?: string | undefined;
};
/** `url` is that of the server, `issuer` the authorization server. */
export type SignedIn = { server: string; url: string; issuer: string; scopes: readonly string[] };

/** An agent as a tool. `Below` are the agent's own tools, whose open calls the calling run also has. */
export interface SubAgentTool<Name extends string, Output, RunContext, Below>
  extends Tool<Name, { input: string }, Output, RunContext> {
  /** For the compiler only: no tool has this member. */
  readonly '~below'?: Below;
}

export type AgentTool = Tool | ToolSource;

export function toolDefinition(tool: Tool): ToolDefinition {
  const { name, description, inputSchema, strict, custom, member, deferred, origin } = tool;
  const found = deferred ? omitUndefined({ deferred, server: origin?.label }) : {};
  return { name, description, inputSchema, ...omitUndefined({ strict, custom, member }), ...found };
}
