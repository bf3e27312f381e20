import type { StandardSchemaV1 } from '@standard-schema/spec';
import * as z from 'zod/mini';
import type { Settled } from '../engine/log/settled.ts';
import { answerOfChild } from '../engine/sub-agents/sub-agent-runs.ts';
import { omitUndefined } from '../protocol/json.ts';
import { optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import { lazySchema } from '../protocol/schemas/lazy-schema.ts';
import type { SubAgentTool, Tool } from '../protocol/tool.ts';
import type { ApprovalRule } from '../tools/approval-rule.ts';
import { tool } from '../tools/tool.ts';

/** The options of `agent.asTool`. */
export type AsToolOptions<Name extends string = string> = {
  /** The tool's name: 1 to 64 letters, digits, `_` or `-`. */
  name: Name;
  /** What the agent does and when to call it, for the model. */
  description: string;
  /** Which calls need a person's approval. Default `false`. */
  approval?: ApprovalRule<{ input: string }>;
  /** Whether the model sees the tool only after a search has found it. Default `false`. */
  deferred?: boolean;
};

const NAMES = optionNames<AsToolOptions>()('name description approval deferred');

/** The type of a sub-agent's result: the value of its `output` schema, or else its text. */
export type SubAgentAnswer<Output> = unknown extends Output
  ? unknown
  : Output extends undefined
    ? string
    : Output;

type RunAgent = (input: string, options: { signal: AbortSignal; runContext: unknown }) => Promise<Settled>;

const task = lazySchema(() => z.object({ input: z.string() }));

const TASK = 'A self-contained task. The agent sees only this text.';

const taskSchema = {
  type: 'object',
  properties: {
    input: { type: 'string', description: TASK },
  },
  required: ['input'],
};

/**
 * Returns an agent as a tool. Each call is a run of that agent, in the store of the calling run and with a share of its
 * remaining limits. An agent with a `runContext` gets that of the calling run. Repeating a call after a crash attaches to
 * the same run.
 */
export function asTool<Name extends string, Output, RunContext, Below>(
  agent: { name: string; options: { runContext?: StandardSchemaV1 } },
  runAgent: RunAgent,
  options: AsToolOptions<Name>,
): SubAgentTool<Name, Output, RunContext, Below> {
  refuseUnknownOptions('agent.asTool', options, NAMES);
  const made: Omit<Tool<Name>, '~types'> = tool({
    ...options,
    input: task,
    inputSchema: taskSchema,
    sideEffect: 'idempotent',
    ...omitUndefined({ runContext: agent.options.runContext }),
    // Only used when the tool is called directly: the engine starts a child run instead.
    run: async ({ input }, { signal, runContext }) => {
      const settled = await runAgent(input, { signal, runContext });
      if (settled.status === 'waiting')
        throw new Error(`Agent "${agent.name}" waits for a decision, a result or an unpause.`);
      const { output, isError } = answerOfChild(agent.name, settled);
      if (isError) throw new Error(String(output));
      return output;
    },
  });
  return { ...made, subAgent: agent };
}
