import { growRequest } from '../engine/services/grow-request.ts';
import type { Context } from '../machines/context.ts';
import type { Capabilities } from '../protocol/adapter.ts';
import { oncePer } from '../protocol/once-per.ts';

/** The provider of explored turns. It binds reasoning to all that was sent before it, and appends no changes. */
export const EXPLORED = 'test';

const CAPABILITIES: Capabilities = {
  streaming: true,
  parallelToolCalls: true,
  reasoningReplay: true,
  serverTools: false,
  structuredOutput: 'native',
  continuation: false,
  usage: 'unknown',
  bindsReasoning: true,
};

const NO_TOOLS = new Map<string, never>();

/** The request that the engine makes for the turn that begins in this state, of the transcript as it is. */
export const exploredRequest = oncePer((context: Context) => {
  const { transcript, params, config, turn } = context;
  return growRequest({
    adapter: {
      provider: EXPLORED,
      model: config.models[turn.model]?.model ?? '',
      capabilities: CAPABILITIES,
    },
    context,
    history: transcript,
    transcript,
    instructions: params.instructions,
    ownInstructions: undefined,
    tools: NO_TOOLS,
    allTools: NO_TOOLS,
    schema: undefined,
    newId: kind => kind,
  });
});
