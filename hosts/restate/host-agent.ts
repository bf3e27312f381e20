import { type Agent, createAgent } from '../../agent/agent.ts';
import type { RunHost } from '../../engine/driver/run-host.ts';
import type { RunParts } from '../../engine/run/run-options.ts';
import { FollowedRun } from './followed-run.ts';
import type { RestateCalls } from './ingress.ts';
import type { RestateStore } from './restate-store.ts';

type Hosting = {
  store: RestateStore;
  calls: RestateCalls;
  /** Returns the host of a run that this process drives; `undefined` for a run that it only follows. */
  own?(parts: RunParts): RunHost | undefined;
};

/** Returns a copy of an agent whose runs have their journals in Restate. */
export function hostAgent(agent: Agent, { store, calls, own }: Hosting): Agent {
  const makeRunHost = (parts: RunParts) => own?.(parts) ?? new FollowedRun(parts, calls);
  return createAgent({ ...agent.options, store, makeRunHost });
}
