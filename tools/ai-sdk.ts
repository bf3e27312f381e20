/**
 * `aiSdkTools()`: tools of the AI SDK. The schemas are read in `ai-sdk/read-schema.ts`, and what `toModelOutput` returns
 * in `ai-sdk/read-model-output.ts`. Nothing of the AI SDK is imported: its tools are plain objects.
 */

import { EngineError } from '../protocol/error.ts';
import { type JsonValue, omitUndefined, toBoundedJson } from '../protocol/json.ts';
import { optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { CallView, Reconciliation, Tool, ToolCallContext } from '../protocol/tool.ts';
import { type ModelOutput, readModelOutput } from './ai-sdk/read-model-output.ts';
import type { ConvertedTool } from './ai-sdk/tool-types.ts';
import { readSchema } from './ai-sdk/tool-types.ts';
import type { ApprovalRule } from './approval-rule.ts';
import { type Repetition, tool } from './tool.ts';

/** A tool of the AI SDK, as `tool()` and `dynamicTool()` of the package `ai` make it. */
export type AiSdkTool = {
  /** `function` and `dynamic` tools are accepted, tools of providers are not. */
  type?: string | undefined;
  id?: string | undefined;
  description?: string | ((options: never) => string) | undefined;
  /** A Standard Schema, a schema of the AI SDK (`jsonSchema()`, `zodSchema()`), or a function that returns one. */
  inputSchema: unknown;
  outputSchema?: unknown;
  contextSchema?: unknown;
  strict?: boolean | undefined;
  deferLoading?: boolean | undefined;
  needsApproval?: boolean | ((input: never, options: never) => boolean | PromiseLike<boolean>) | undefined;
  execute?: ((input: never, options: never) => unknown) | undefined;
  toModelOutput?: ((options: never) => unknown) | undefined;
};

/** What the AI SDK's tools do not say about themselves; see `ToolOptions`. */
export type AiSdkToolSettings = Repetition & {
  /** Replaces the tool's `needsApproval`. */
  approval?: ApprovalRule<unknown>;
  repeatable?: boolean;
  /** What the tool does, in words for the agent's `rules`. */
  tags?: readonly string[];
  /** Replaces the tool's `deferLoading`. */
  deferred?: boolean;
  timeoutMs?: number;
  maxResultBytes?: number;
  reconcile?: (call: CallView<unknown>, context: ToolCallContext) => Reconciliation | Promise<Reconciliation>;
};

type Functions = {
  describe?: (options: { context: unknown }) => string;
  needsApproval?: (input: unknown, options: ExecutionOptions) => boolean | Promise<boolean>;
  execute?: (input: unknown, options: ExecutionOptions) => unknown;
  toModelOutput?: (options: { toolCallId: string; input: unknown; output: unknown }) => Promise<ModelOutput>;
};

/** The second argument of `execute` and `needsApproval`; `key` is an addition to the AI SDK's. */
type ExecutionOptions = {
  toolCallId: string;
  messages: [];
  context: unknown;
  abortSignal?: AbortSignal;
  key?: string;
};

/**
 * Converts tools of the AI SDK, named by their keys. A tool without `execute` is a client tool. The values that an
 * `execute` yields are sent as progress, and the last one is the result. `settings` adds by name what the AI SDK's tools
 * do not say; without it a tool is `once`, so it never runs twice unless a person says so. The types of names, inputs
 * and results reach the agent's settled runs; the result of a tool with `toModelOutput` may be content.
 * Throws an `EngineError` `agent-invalid` for a tool of a provider, an invalid schema, or settings of an unknown tool.
 *
 * @example
 * const agent = createAgent({
 *   name: 'desk',
 *   model,
 *   tools: aiSdkTools({ weather, refund }, { weather: { sideEffect: 'none' } }),
 * });
 */
export function aiSdkTools<const Tools extends Readonly<Record<string, AiSdkTool>>>(
  tools: Tools,
  settings?: { readonly [Name in keyof Tools]?: AiSdkToolSettings },
): { [Name in keyof Tools & string]: ConvertedTool<Name, Tools[Name]> }[keyof Tools & string][];
export function aiSdkTools(
  tools: Readonly<Record<string, AiSdkTool>>,
  settings: Readonly<Record<string, AiSdkToolSettings | undefined>> = {},
): unknown[] {
  const unknown = Object.keys(settings).filter(name => !Object.hasOwn(tools, name));
  if (unknown.length > 0) {
    throw new EngineError(
      'agent-invalid',
      `aiSdkTools: there are settings of ${unknown.join(', ')}, but the tools are ${Object.keys(tools).join(', ')}.`,
    );
  }
  return Object.entries(tools).map(([name, given]) => convert(name, given, settings[name]));
}

const SETTING_NAMES = optionNames<AiSdkToolSettings>()(
  'sideEffect retries repeatable tags approval deferred timeoutMs maxResultBytes reconcile',
);

function convert(name: string, given: AiSdkTool, settings: AiSdkToolSettings = {}): Tool {
  assertRunsHere(name, given);
  refuseUnknownOptions(`the settings of tool "${name}"`, settings, SETTING_NAMES);
  const { strict, outputSchema, contextSchema, needsApproval, deferLoading: deferred } = given;
  const { describe, needsApproval: ask, execute, toModelOutput } = functionsOf(given);
  const readOptional = (schema: unknown) => (schema == null ? undefined : readSchema(name, schema));
  const made = tool({
    name,
    description: describe ? describeIn(name, describe) : String(given.description ?? name),
    input: readSchema(name, given.inputSchema),
    ...omitUndefined({
      strict,
      deferred,
      output: readOptional(outputSchema),
      runContext: readOptional(contextSchema),
      approval: ask
        ? ({ input, callId, runContext }: CallView<unknown>) =>
            ask(input, { toolCallId: callId, messages: [], context: runContext })
        : (needsApproval as boolean | undefined),
      run:
        execute &&
        ((input: unknown, context: ToolCallContext) => {
          const { callId, signal, key, runContext } = context;
          const options = { toolCallId: callId, abortSignal: signal, key, context: runContext };
          return lastOf(execute(input, { ...options, messages: [] }), context);
        }),
    }),
    ...(omitUndefined(settings) as AiSdkToolSettings),
  });
  if (made.run === undefined || toModelOutput === undefined) return made;
  return {
    ...made,
    async run(input, context) {
      const output = await made.run?.(input, context);
      const modelOutput = await toModelOutput({ toolCallId: context.callId, input, output });
      return readModelOutput(name, modelOutput, output);
    },
  };
}

function functionsOf(given: AiSdkTool): Functions {
  const bind = <Bound>(member: unknown) =>
    typeof member === 'function' ? (member.bind(given) as Bound) : undefined;
  return omitUndefined({
    describe: bind<NonNullable<Functions['describe']>>(given.description),
    needsApproval: bind<NonNullable<Functions['needsApproval']>>(given.needsApproval),
    execute: bind<NonNullable<Functions['execute']>>(given.execute),
    toModelOutput: bind<NonNullable<Functions['toModelOutput']>>(given.toModelOutput),
  });
}

function assertRunsHere(name: string, { type = 'function', id }: AiSdkTool): void {
  if (type === 'function' || type === 'dynamic') return;
  throw new EngineError(
    'agent-invalid',
    `tool "${name}": ${id ?? name} is a tool of a provider, which only that provider's model can declare. ` +
      'Pass it to the adapter: aiSdk(model, { providerTools: { … } }).',
  );
}

function describeIn(name: string, describe: NonNullable<Functions['describe']>): string {
  try {
    return describe({ context: undefined });
  } catch (error) {
    throw new EngineError(
      'agent-invalid',
      `tool "${name}": its description needs a context, which it has only in a call. Pass a text as description.`,
      null,
      { cause: error },
    );
  }
}

/** The result, or the last of several; sends those of a generator as progress. */
async function lastOf(returned: unknown, { progress }: ToolCallContext): Promise<unknown> {
  if (!isAsyncIterable(returned)) return await returned;
  let last: unknown;
  for await (const value of returned) {
    last = value;
    const data = jsonOf(value);
    if (data !== undefined) progress(data);
  }
  return last;
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}

/** The value as JSON; `undefined` if it is not JSON. Progress that cannot be sent must not fail the call. */
function jsonOf(value: unknown): JsonValue | undefined {
  try {
    return toBoundedJson(value);
  } catch {
    return undefined;
  }
}
