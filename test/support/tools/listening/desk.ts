import { scripted } from '../../../../adapters/scripted.ts';
import { createAgent } from '../../../../agent/agent.ts';
import { type Host, systemHost } from '../../../../engine/host/host.ts';
import type { Store } from '../../../../protocol/store.ts';
import { calls, makeTool } from '../../engine/agents.ts';

/** A host whose timers take a hundredth of their time. */
export const FAST: Host = {
  ...systemHost,
  setTimer: (ms, fire, options) => systemHost.setTimer(ms / 100, fire, options),
};

/** An agent with one call that needs approval. */
export function makeDesk(store: Store) {
  return createAgent({
    name: 'desk',
    store,
    host: FAST,
    model: scripted({ turns: [calls(['pay', { cents: 7 }]), { text: 'done' }] }),
    tools: [makeTool('pay', { approval: true })],
  });
}
