import type { StandardSchemaV1 } from '@standard-schema/spec';
import { EngineError } from '../protocol/error.ts';
import type { JsonObject } from '../protocol/json.ts';
import type {
  CallView,
  Reconciliation,
  SideEffect,
  Tool,
  ToolCallContext,
  Validation,
} from '../protocol/tool.ts';
import { type ApprovalRule, applyApprovalRule } from './approval-rule.ts';
import { buildObjectSchema } from './build-object-schema.ts';
import { checkReconciliation } from './check-reconciliation.ts';
import { checkToolSettings } from './check-tool-settings.ts';
import { validateWith } from './validate-with.ts';

type Out<Schema extends StandardSchemaV1> = StandardSchemaV1.InferOutput<Schema>;
type In<Schema extends StandardSchemaV1> = StandardSchemaV1.InferInput<Schema>;

export type ToolOptions<Input extends StandardSchemaV1, Output extends StandardSchemaV1> = {
  /** 1 to 64 letters, digits, `_` or `-`. */
  name: string;
  /** What the tool does and when to use it, for the model. */
  description: string;
  /** Any Standard Schema of an object. Its output types `run`, `approval` and `reconcile`. */
  input: Input;
  /** The JSON Schema the model sees, when `input` cannot give it or should not. */
  inputSchema?: JsonObject;
  /** Passed to providers that can hold the model to the schema. */
  strict?: boolean;
  /** Checks what `run` returns; its output becomes the result. */
  output?: Output;
  /**
   * What a second execution would do. Default `once`: it must not happen twice. A read that costs money is
   * `idempotent`: a `none` call may run without leaving a trace.
   */
  sideEffect?: SideEffect;
  /** Default `false`: no call needs a person. */
  approval?: ApprovalRule<Out<Input>>;
  /** How long one attempt may take. */
  timeoutMs?: number;
  /**
   * The longest result that is kept in the journal, in bytes of its JSON. Of a longer one the model reads the
   * head and the tail, and the whole is kept beside the journal. Default: the agent's, which is 1 MiB.
   */
  maxResultBytes?: number;
  /** Attempts after the first; refused for `once`. Default 0. */
  retries?: number;
  /** Finds out whether an interrupted `once` call happened. */
  reconcile?: (
    call: CallView<Out<Input>>,
    context: ToolCallContext,
  ) => Reconciliation | Promise<Reconciliation>;
  /** Without it the client executes the tool: its calls wait for a result from outside. */
  run?: (input: Out<Input>, context: ToolCallContext) => In<Output> | Promise<In<Output>>;
};

/**
 * A tool from a schema and a function. The JSON Schema is built here, once. Of the tool made, `approval`
 * takes the call's JSON and validates it itself; `run` and `reconcile` take the value `validate` gave.
 * Throws an `EngineError` `agent-invalid` for whatever cannot work: name, schema, retries on `once`, timeout.
 *
 * @example
 * tool({
 *   name: 'refund',
 *   description: 'Pays an order back.',
 *   input: z.object({ orderId: z.string(), cents: z.int().positive() }),
 *   approval: call => call.input.cents > 5000,
 *   run: ({ orderId, cents }, { key }) => payments.refund(orderId, cents, { idempotencyKey: key }),
 * })
 */
export function tool<
  Input extends StandardSchemaV1,
  Output extends StandardSchemaV1 = StandardSchemaV1<unknown>,
>(options: ToolOptions<Input, Output>): Tool {
  const { name, input, output, run, reconcile, approval = false } = options;
  const { sideEffect = 'once', retries = 0, timeoutMs, maxResultBytes } = options;
  checkToolSettings({ name, sideEffect, retries, timeoutMs, maxResultBytes, approval });
  if (typeof input?.['~standard']?.validate !== 'function') {
    throw new EngineError(
      'agent-invalid',
      `tool "${name}": expected \`input\` to be a Standard Schema (zod, valibot, arktype, …). ` +
        'For a bare JSON Schema, give a schema that accepts it as `input` and the JSON Schema as `inputSchema`.',
    );
  }
  return {
    name,
    description: options.description,
    inputSchema: buildObjectSchema({
      of: `tool "${name}"`,
      option: 'inputSchema',
      schema: input,
      ...(options.inputSchema && { given: options.inputSchema }),
    }),
    sideEffect,
    retries,
    ...(options.strict === undefined ? {} : { strict: options.strict }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(maxResultBytes === undefined ? {} : { maxResultBytes }),
    ...(typeof approval === 'function' ? {} : { fixedApproval: approval }),
    validate: value => validateWith(input, value),
    approval: call => {
      if (typeof approval !== 'function') return approval;
      return approveTyped(input, approval, call);
    },
    ...(run && {
      run: async (value: unknown, context: ToolCallContext) => {
        const returned = await run(value as Out<Input>, context);
        return output ? checkOutput(name, output, returned) : returned;
      },
    }),
    ...(reconcile && {
      reconcile: async (call: CallView<unknown>, context: ToolCallContext) =>
        checkReconciliation(name, await reconcile({ ...call, input: call.input as Out<Input> }, context)),
    }),
  };
}

async function approveTyped<Input extends StandardSchemaV1>(
  schema: Input,
  rule: ApprovalRule<Out<Input>>,
  call: CallView,
) {
  const validation = await validateWith(schema, call.input);
  if (!validation.valid) {
    throw new EngineError('input-invalid', `the input of "${call.name}" is not valid: ${validation.message}`);
  }
  return applyApprovalRule(rule, { ...call, input: validation.value as Out<Input> });
}

async function checkOutput(name: string, schema: StandardSchemaV1, returned: unknown): Promise<unknown> {
  const validation: Validation = await validateWith(schema, returned);
  if (validation.valid) return validation.value;
  throw new Error(
    `"${name}" has run, but what it returned is not what its output schema says: ${validation.message}`,
  );
}
