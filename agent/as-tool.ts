import type { StandardSchemaV1 } from '@standard-schema/spec';
import * as z from 'zod/mini';
import type { Settled } from '../engine/log/settled.ts';
import { answerOfChild } from '../engine/sub-agents/sub-agent-runs.ts';
import { EngineError } from '../protocol/error.ts';
import type { Item } from '../protocol/item.ts';
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
  /**
   * The call's result says at once that the agent has started; the caller continues. Its answer arrives as a message, which
   * the model reads next. Not with `answers`. Default `false`.
   */
  background?: boolean;
  /** What the agent does, in words for the caller's `rules`: its own calls are not in the caller's history. */
  tags?: readonly string[];
  /**
   * Who answers. By default the agent's answer is the result of the call, and the caller continues. With `directly` it is
   * the caller's answer: the caller hands the conversation over. Further messages go to the agent, until it hands back.
   */
  answers?: 'directly';
  /**
   * What the agent sees. By default the text that the caller writes. With `transcript` it sees the conversation of the
   * caller, and the call has no input.
   */
  sees?: 'transcript';
  /**
   * With `sees`: what the agent sees of the conversation, whose latest item is the result of this call. What the function
   * returns is copied into the journal of the agent's run; without a function, it refers to the caller's.
   */
  filter?: (items: readonly Item[]) => readonly Item[];
};

const NAMES = optionNames<AsToolOptions>()(
  'name description approval deferred background tags answers sees filter',
);

/** The type of a sub-agent's result: the value of its `output` schema, or else its text. */
export type SubAgentAnswer<Output> = unknown extends Output
  ? unknown
  : Output extends undefined
    ? string
    : Output;

type RunAgent = (input: string, options: { signal: AbortSignal; runContext: unknown }) => Promise<Settled>;

const task = lazySchema(() => z.object({ input: z.string() }));

const nothing = lazySchema(() => z.object({ input: z._default(z.string(), '') }));

const seenSchema = { type: 'object', properties: {} };

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
  const { answers, sees, filter, ...given } = options;
  check(answers === undefined || answers === 'directly', `answers: expected 'directly', got ${answers}.`);
  check(sees === undefined || sees === 'transcript', `sees: expected 'transcript', got ${sees}.`);
  check(answers === undefined || given.background !== true, 'background: not with answers.');
  check(filter === undefined || typeof filter === 'function', 'filter: expected a function of items.');
  check(filter === undefined || sees !== undefined, "filter: expected it with sees: 'transcript'.");
  const made: Omit<Tool<Name>, '~types'> = tool({
    ...given,
    input: sees === undefined ? task : nothing,
    inputSchema: sees === undefined ? taskSchema : seenSchema,
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
  return {
    ...made,
    subAgent: agent,
    ...omitUndefined({ answers, sees: sees && omitUndefined({ filter }) }),
  };
}

function check(holds: boolean, message: string): void {
  if (!holds) throw new EngineError('agent-invalid', `agent.asTool: ${message}`);
}
