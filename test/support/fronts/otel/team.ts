import { scripted } from '../../../../adapters/scripted.ts';
import { createAgent } from '../../../../agent/agent.ts';
import type { Store } from '../../../../protocol/store.ts';
import { calls, makeTool } from '../../engine/agents.ts';

export const RUN = 'run_team';

/** An agent that asks a sub-agent, whose run calls an idempotent tool and then one that needs approval. */
export function makeTeam(store: Store, act: () => unknown) {
  const clerk = createAgent({
    name: 'clerk',
    model: scripted({ turns: [calls('act'), calls('pay'), { text: 'paid' }] }),
    tools: [
      makeTool('act', { sideEffect: 'idempotent', run: async () => String(await act()) }),
      makeTool('pay', { approval: true }),
    ],
  });
  return createAgent({
    name: 'team',
    store,
    model: scripted({ turns: [calls(['ask', { input: 'pay' }]), { text: 'done' }] }),
    tools: [clerk.asTool({ name: 'ask', description: 'Asks the clerk.' })],
  });
}
