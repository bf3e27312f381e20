/**
 * `tool()`: a tool from a schema and a function. Tools of MCP servers come from `mcp()` in mcp.ts; both
 * return the `Tool` of protocol/tool.ts. The other files of this folder check and name tools.
 */
import type { StandardSchemaV1 } from '@standard-schema/spec';
import { EngineError } from '../protocol/error.ts';
import { type JsonObject, type JsonValue, omitUndefined } from '../protocol/json.ts';
import { optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type {
  CallView,
  Reconciliation,
  SideEffect,
  Tool,
  ToolCallContext,
  Validation,
} from '../protocol/tool.ts';
import {
  type ApprovalRule,
  applyApprovalRule,
  fixedApproval,
  pureApproval,
  readsHistory,
} from './approval-rule.ts';
import { type Ask, makeAsk } from './ask.ts';
import { buildObjectSchema } from './build-object-schema.ts';
import { checkReconciliation } from './check-reconciliation.ts';
import { checkToolSettings } from './check-tool-settings.ts';
import { validateWith } from './validate-with.ts';

type Out<Schema extends StandardSchemaV1> = StandardSchemaV1.InferOutput<Schema>;
type In<Schema extends StandardSchemaV1> = StandardSchemaV1.InferInput<Schema>;

/** The options of `tool`. `Returned` is the type of what `run` returns. */
export type ToolOptions<
  Input extends StandardSchemaV1,
  Output extends StandardSchemaV1,
  Context extends StandardSchemaV1 = StandardSchemaV1<unknown>,
  Returned = In<Output> | Promise<In<Output>>,
  Name extends string = string,
  Prepared = unknown,
> = Repetition & {
  /** 1 to 64 letters, digits, `_` or `-`. */
  name: Name;
  /** What the tool does and when to use it, for the model. */
  description: string;
  /** Any Standard Schema of an object. Its output type is the input of `run`, `approval` and `reconcile`. */
  input: Input;
  /** The JSON Schema that the model receives, instead of the one that `input` generates. */
  inputSchema?: JsonObject;
  /** Passed to providers that can enforce the schema on the model's arguments. */
  strict?: boolean;
  /**
   * Validates the result: what `run` returns, what `reconcile` finds, and what a person gives instead. The schema's output
   * becomes the result.
   */
  output?: Output;
  /**
   * The part of the run's context that the tool needs: any Standard Schema, which validates it. Its output is the
   * `runContext` of `run`, `approval` and `reconcile`. The agent must have a `runContext` that this schema accepts.
   */
  runContext?: Context;
  /** Whether calls need a person's approval. Default `false`. */
  approval?: ApprovalRule<Out<Input>, Out<Context>>;
  /** Whether the model sees the tool only after a search has found it. Default `false`. */
  deferred?: boolean;
  /**
   * The call's result says at once that the work has started; the model continues. The work is a run of its own, and its
   * outcome arrives as a message, which the model reads next. Approvals and rules decide before it starts. Default `false`.
   */
  background?: boolean;
  /** The time limit of one attempt in ms. Default: none. */
  timeoutMs?: number;
  /**
   * Whether the same input may come again, such as a message that may be sent twice. For `once` only; default `false`:
   * after a compaction, a call that equals one that was done before it needs an approval.
   */
  repeatable?: boolean;
  /** What the tool does, in words for the agent's `rules`, such as `untrusted` (it reads text from outside) or `leaves`. */
  tags?: readonly string[];
  /**
   * The largest result that the journal stores in full, in bytes of its JSON. For a larger one the journal and
   * the model get the head and the tail, and the store keeps the full result as a blob. Default: the
   * agent's limit, which is 1 MiB by default.
   */
  maxResultBytes?: number;
  /** Finds out whether an interrupted `once` call took effect. `output` validates the output that it found. */
  reconcile?: (
    call: CallView<Out<Input>, Out<Context>>,
    context: ToolCallContext<Out<Context>>,
  ) => Reconciliation<In<Output>> | Promise<Reconciliation<In<Output>>>;
  /**
   * Runs before the call begins, without side effects, and again whenever it has to: after each answer, and after a crash.
   * It may ask people; what it returns is `prepared` in `run`.
   */
  prepare?: (call: ToolPreparation<Out<Input>, Out<Context>>) => Prepared | Promise<Prepared>;
  /** Runs the tool. Without it this is a client tool: each call waits for its result from the caller. */
  run?: (input: Out<Input>, context: ToolRunContext<Out<Context>, Prepared>) => Returned;
};

/** What `prepare` of a tool gets. */
export type ToolPreparation<Input, RunContext> = { input: Input; ask: Ask } & Pick<
  ToolCallContext<RunContext>,
  'runContext' | 'signal' | 'callId' | 'runId'
>;

/** What `run` of a tool gets besides the input. `ask`: not for a `once` tool, which asks in `prepare`. */
export type ToolRunContext<RunContext, Prepared> = Omit<ToolCallContext<RunContext>, 'prepared'> & {
  ask: Ask;
  prepared: Prepared;
};

/**
 * `sideEffect`: whether a second execution is safe. Default `once`: the call must not run twice. Declare a read that
 * costs money as `idempotent`: a `none` call may run without a trace in the journal.
 * `retries`: the number of attempts after the first, for `none` and `idempotent` only. Default 0.
 */
export type Repetition =
  | { sideEffect?: 'once'; retries?: 0 }
  | { sideEffect: Exclude<SideEffect, 'once'>; retries?: number };

const NAMES = optionNames<ToolOptions<StandardSchemaV1, StandardSchemaV1>>()(
  'name description input inputSchema strict output runContext approval sideEffect retries repeatable tags timeoutMs maxResultBytes deferred background reconcile prepare run',
);

/** A tool without a schema of its output, whose call waits for it. */
interface PlainTool {
  output?: undefined;
  background?: false;
}

/** The result of a call whose work continues in the background. `runId`: of the run that does it. */
export type BackgroundReceipt = { runId: string; status: 'started' };

/** The type of the result of a call: what its tool returned, unless that comes later. */
export type ResultOf<Background extends boolean, Value> = Background extends true ? BackgroundReceipt : Value;

/** The type of the result of a tool that returned `Value`: as JSON, and `null` for nothing. */
export type AsResult<Value> = unknown extends Value ? Value : Value extends void ? null : AsJson<Value>;

type AsJson<Value> = unknown extends Value
  ? Value
  : Value extends JsonValue | undefined
    ? Value
    : Value extends { toJSON(): infer Json }
      ? Json
      : { [Name in keyof Value]: AsJson<Value[Name]> };

/** The type of an answer in place of a result, where the output schema turns it into another type. */
type TakesAnswer<Schema extends StandardSchemaV1> =
  Out<Schema> extends In<Schema> ? unknown : { readonly '~answer'?: In<Schema> };

/** The type with all of it readonly: what a `const` type parameter infers from a literal is assignable to it. */
type AsReadonly<Value> = unknown extends Value
  ? Value
  : { readonly [Name in keyof Value]: AsReadonly<Value[Name]> };

/**
 * Creates a tool from a schema and a function. On the returned `Tool`, `approval` takes the call's raw JSON and
 * validates it; `run` and `reconcile` take the value that `validate` returned.
 * Throws an `EngineError` `agent-invalid` for an invalid name, schema, timeout, or retries on a `once` tool.
 *
 * @example
 * tool({
 *   name: 'refund',
 *   description: 'Refunds an order.',
 *   input: z.object({ orderId: z.string(), cents: z.int().positive() }),
 *   approval: call => call.input.cents > 5000,
 *   run: ({ orderId, cents }, { key }) => payments.refund(orderId, cents, { idempotencyKey: key }),
 * })
 */
export function tool<
  Input extends StandardSchemaV1,
  Output extends StandardSchemaV1,
  const Returned extends AsReadonly<In<Output>>,
  Context extends StandardSchemaV1 = StandardSchemaV1<unknown>,
  const Name extends string = string,
  Prepared = undefined,
>(
  options: ToolOptions<Input, Output, Context, Returned | Promise<Returned>, Name, Prepared> & {
    output: Output;
    background?: false;
  },
): Tool<Name, In<Input>, AsResult<Out<Output>>, In<Context>> & TakesAnswer<Output>;
export function tool<
  Input extends StandardSchemaV1,
  Returned = unknown,
  Context extends StandardSchemaV1 = StandardSchemaV1<unknown>,
  const Name extends string = string,
  Prepared = undefined,
>(
  options: ToolOptions<Input, StandardSchemaV1, Context, Returned, Name, Prepared> & PlainTool,
): Tool<Name, In<Input>, AsResult<Awaited<Returned>>, In<Context>>;
export function tool<
  Input extends StandardSchemaV1,
  Context extends StandardSchemaV1 = StandardSchemaV1<unknown>,
  const Name extends string = string,
  Prepared = undefined,
>(
  options: ToolOptions<Input, StandardSchemaV1, Context, unknown, Name, Prepared> & { background: true },
): Tool<Name, In<Input>, BackgroundReceipt, In<Context>>;
export function tool<
  Input extends StandardSchemaV1,
  Output extends StandardSchemaV1,
  Context extends StandardSchemaV1 = StandardSchemaV1<unknown>,
  const Name extends string = string,
  Prepared = undefined,
>(
  options: ToolOptions<Input, Output, Context, In<Output> | Promise<In<Output>>, Name, Prepared>,
): Tool<Name, In<Input>, AsResult<Out<Output>>, In<Context>> & TakesAnswer<Output>;
export function tool<
  Input extends StandardSchemaV1,
  Output extends StandardSchemaV1,
  Context extends StandardSchemaV1,
>(options: ToolOptions<Input, Output, Context>): Tool {
  refuseUnknownOptions(typeof options?.name === 'string' ? `tool "${options.name}"` : 'tool', options, NAMES);
  const { name, input, output, runContext, prepare, run, reconcile, approval = false } = options;
  type Read<Given> = Omit<Given, 'runContext'> & { runContext: Out<Context> };
  const withContext = <Given extends { runContext: unknown }>(given: Given) => {
    if (runContext === undefined) return given as Read<Given>;
    return readRunContext(name, runContext, given.runContext).then(
      read => ({ ...given, runContext: read }) as Read<Given>,
    );
  };
  const {
    sideEffect = 'once',
    retries = 0,
    repeatable,
    tags,
    timeoutMs,
    maxResultBytes,
    background,
  } = options;
  const fixed = fixedApproval(approval);
  checkToolSettings({ ...options, sideEffect, retries, approval });
  if (typeof input?.['~standard']?.validate !== 'function') {
    throw new EngineError(
      'agent-invalid',
      `tool "${name}": expected \`input\` to be a Standard Schema (zod, valibot, arktype, …). ` +
        'If it is given as `inputSchema`, as in the AI SDK, call it `input`. For a plain JSON Schema, pass a permissive schema as `input` and the JSON Schema as `inputSchema`.',
    );
  }
  return {
    name,
    description: options.description,
    inputSchema: buildObjectSchema({
      of: `tool "${name}"`,
      option: 'inputSchema',
      schema: input,
      given: options.inputSchema,
    }),
    sideEffect,
    retries,
    ...omitUndefined({
      strict: options.strict,
      timeoutMs,
      maxResultBytes,
      repeatable,
      tags: tags && [...tags],
      deferred: options.deferred || undefined,
      background: background || undefined,
      fixedApproval: fixed,
      pureApproval: pureApproval(approval),
      readsHistory: readsHistory(approval),
    }),
    validate: value => validateWith(input, value),
    ...(output && { validateOutput: (value: unknown) => validateWith(output, value) }),
    ...(runContext && { validateRunContext: (value: unknown) => validateWith(runContext, value) }),
    approval: call => {
      if (fixed !== undefined) return fixed;
      return Promise.all([readInput(input, call), withContext(call)]).then(([value, read]) =>
        applyApprovalRule(approval, { ...read, input: value as Out<Input> }, call),
      );
    },
    ...(prepare && {
      prepare: async (value: unknown, context: ToolCallContext) => {
        const { runContext, signal, callId, runId } = await withContext(context);
        const ask = makeAsk(name, context);
        return await prepare({ input: value as Out<Input>, ask, runContext, signal, callId, runId });
      },
    }),
    ...(run && {
      run: (value: unknown, context: ToolCallContext) => {
        const runWith = (its: Read<ToolCallContext>) =>
          run(value as Out<Input>, { ...its, prepared: its.prepared, ask: makeAsk(name, context) });
        const reading = withContext(context);
        const returned = 'then' in reading ? reading.then(runWith) : runWith(reading);
        return output ? Promise.resolve(returned).then(is => checkOutput(name, output, is)) : returned;
      },
    }),
    ...(reconcile && {
      reconcile: async (call: CallView<unknown>, context: ToolCallContext) =>
        checkReconciliation(
          name,
          await reconcile(
            await withContext({ ...call, input: call.input as Out<Input> }),
            await withContext(context),
          ),
          output,
        ),
    }),
  };
}

async function readInput(schema: StandardSchemaV1, { name, input }: CallView): Promise<unknown> {
  const validation = await validateWith(schema, input);
  if (validation.valid) return validation.value;
  throw new EngineError('input-invalid', `the input of "${name}" is invalid: ${validation.message}`);
}

async function readRunContext(name: string, schema: StandardSchemaV1, runContext: unknown): Promise<unknown> {
  const validation = await validateWith(schema, runContext);
  if (validation.valid) return validation.value;
  throw new EngineError('input-invalid', `"${name}" does not accept the run context: ${validation.message}`);
}

async function checkOutput(name: string, schema: StandardSchemaV1, returned: unknown): Promise<unknown> {
  const validation: Validation = await validateWith(schema, returned);
  if (validation.valid) return validation.value;
  throw new Error(
    `"${name}" ran, but its return value does not match its output schema: ${validation.message}`,
  );
}
