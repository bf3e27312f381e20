import * as z from 'zod/mini';
import type { Settled } from '../../engine/run/settled.ts';
import { answerOfChild } from '../../engine/sub-agents/child-runs.ts';
import type { Tool } from '../../protocol/tool.ts';
import type { ApprovalRule } from '../approval-rule.ts';
import { tool } from '../tool.ts';

export type AsToolOptions = {
  /** The tool's name: 1 to 64 letters, digits, `_` or `-`. */
  name: string;
  /** What the agent does and when to ask it, for the model. */
  description: string;
  approval?: ApprovalRule<{ input: string }>;
};

/** The agent, for who runs the tool without an engine. */
type Asked = { name: string; run(input: string, options: { signal: AbortSignal }): Promise<Settled> };

const task = z.object({ input: z.string() });

const TASK = 'What is to be done, with everything needed to do it: nothing else is seen.';

const taskSchema = {
  type: 'object',
  properties: { input: { type: 'string', description: TASK } },
  required: ['input'],
};

/**
 * An agent as a tool: a call of it is a run of that agent, on the store of the run that calls it, with a
 * share of what that run may still spend. Repeating the call after a crash finds the same run again.
 */
export function asTool(agent: Asked, options: AsToolOptions): Tool {
  const made = tool({
    ...options,
    input: task,
    inputSchema: taskSchema,
    sideEffect: 'idempotent',
    /** Where no engine runs the call. */
    run: async ({ input }, { signal }) => {
      const settled = await agent.run(input, { signal });
      if (settled.status === 'waiting') throw new Error(`${agent.name} waits for somebody.`);
      const { output, isError } = answerOfChild(agent.name, settled);
      if (isError) throw new Error(String(output));
      return output;
    },
  });
  return { ...made, subAgent: agent };
}
