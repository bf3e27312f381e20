import type { Host } from '../../engine/host/host.ts';
import type { RunEvent } from '../../protocol/event.ts';
import type { RunRecord, Store } from '../../protocol/store.ts';

/** A journal entry for listeners. */
export type JournaledEvent = RunEvent & { runId: string; seq: number };

/** The callback of `agent.on`. `run` is the run's record, which may already include later events. */
export type AgentListener = (event: JournaledEvent, run: RunRecord) => unknown;

/** The context of a delivery. `signal` is aborted when it must stop. */
export type DeliveryContext = { store: Store; host: Host; signal: AbortSignal };

/**
 * A listener whose cursor is stored under `name`: it continues at the cursor after a restart, and only one process at a
 * time delivers. `deliver` is called with the next event after its promise has resolved. `webhook` creates one.
 */
export type LastingListener = {
  readonly name: string;
  deliver(event: JournaledEvent, run: RunRecord, context: DeliveryContext): Promise<void>;
};
