import type { StandardSchemaV1 } from '@standard-schema/spec';
import { createAgent, isAgent } from '../../agent/agent.ts';
import type { RecordedEvent } from '../../engine/replay/record-run.ts';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import { ProviderError } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Tool } from '../../protocol/tool.ts';
import type { ModelRequest, ModelTurn } from '../../protocol/turn.ts';

type Settled = Extract<RecordedEvent, { type: 'tool.settled' }>;

/** The source of such answers. Calls that hand the conversation over are alone in their turn. */
export const HAND_OFF = 'answer of a sub-agent';

/** The answer of a sub-agent that had waited is its outcome too. */
export function asOutcome(event: RecordedEvent): RecordedEvent {
  if (event.type !== 'result.received' || event.answered === undefined) return event;
  const { at, callId, output, isError, answered } = event;
  return { type: 'tool.settled', at, callId, output, isError, answered };
}

/** What the sub-agent answered, or `undefined` if it did not. Rejects if `signal` aborts. */
type GiveAnswer = (signal: AbortSignal) => Promise<Settled | undefined>;

/**
 * A tool that hands the conversation over, to an agent that stands in for the sub-agent: it gives the recorded answers, and
 * hands the conversation back where that is recorded. `model`: that of the agent above, for a sub-agent without one.
 */
export function handOffTool(tool: Tool, model: ModelAdapter | undefined, give: GiveAnswer): Tool {
  const { subAgent, answers } = tool;
  if (!isAgent(subAgent) || answers !== 'directly') return tool;
  const { options } = subAgent;
  const { provider = 'recording', model: name = 'recording' } =
    [options.model ?? model ?? []].flat()[0] ?? {};
  const answer = async (request: ModelRequest, signal: AbortSignal): Promise<ModelTurn> => {
    const event = await give(signal);
    if (event !== undefined && !event.isError) return turnOf(event, request, name);
    const message = event === undefined ? 'The recording has no answer.' : String(event.output);
    throw new ProviderError(message, { code: 'invalid-request', provider, model: name });
  };
  const standIn = createAgent({
    name: subAgent.name,
    model: standInModel({ provider, model: name }, answer),
    ...omitUndefined({ prices: options.prices, output: options.output && ANY_OUTPUT }),
  });
  const made = standIn.asTool({ name: tool.name, description: tool.description, answers });
  return { ...tool, ...omitUndefined({ subAgent: made.subAgent, run: made.run }) };
}

type GiveTurn = (request: ModelRequest, signal: AbortSignal) => Promise<ModelTurn>;

/** The model of an agent that stands in for another one. */
export function standInModel(
  { provider, model }: Pick<ModelAdapter, 'provider' | 'model'>,
  give: GiveTurn,
): ModelAdapter {
  return {
    provider,
    model,
    capabilities: {
      streaming: true,
      parallelToolCalls: true,
      reasoningReplay: true,
      serverTools: true,
      structuredOutput: 'instructions',
      continuation: false,
      usage: true,
    },
    generate: (request, { signal }) => give(request, signal),
    async *stream(request, { signal }) {
      yield { type: 'turn', turn: await give(request, signal) };
    },
  };
}

const ANY_SCHEMA: StandardSchemaV1 = {
  '~standard': { version: 1, vendor: 'agentchart', validate: value => ({ value }) },
};
const ANY_OUTPUT = { schema: ANY_SCHEMA, jsonSchema: { type: 'object' } };

const NOTHING = {
  inputTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
};

/** The only tool of the stand-in hands the conversation back. */
function turnOf({ output, answered }: Settled, { tools }: ModelRequest, model: string): ModelTurn {
  const text = String(output);
  const shared = { reasoning: '', usage: NOTHING, model };
  const [back] = tools;
  if (answered?.handedBack !== true || back === undefined)
    return {
      ...shared,
      text,
      finishReason: 'stop',
      toolCalls: [],
      items: [{ type: 'message', role: 'assistant', content: [{ type: 'text', text }] }],
    };
  const [, note] = /handed the conversation back: ([\s\S]*)$/.exec(text) ?? [];
  const input = omitUndefined({ note });
  const call = { callId: 'back', name: back.name, arguments: JSON.stringify(input) };
  return {
    ...shared,
    text: '',
    finishReason: 'tool_calls',
    toolCalls: [{ ...call, input, executedBy: 'engine' }],
    items: [{ type: 'tool_call', ...call }],
  };
}
