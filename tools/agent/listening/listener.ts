import type { Host } from '../../../engine/driver/host.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import type { RunRecord, Store } from '../../../protocol/store.ts';

/** An entry of a run's journal, as listeners get it. */
export type JournaledEvent = RunEvent & { runId: string; seq: number };

/** What `agent.on` calls with each event, and with the run's record, which may be of a later state. */
export type AgentListener = (event: JournaledEvent, run: RunRecord) => unknown;

/** What a lasting listener gets besides the event. `signal` is aborted when it must stop. */
export type DeliveryContext = { store: Store; host: Host; signal: AbortSignal };

/**
 * A listener whose place the store keeps under `name`: after a restart it goes on where it was, and of several processes
 * one delivers. The next event is given once the promise of `deliver` has resolved. `webhook` makes one.
 */
export type LastingListener = {
  readonly name: string;
  deliver(event: JournaledEvent, run: RunRecord, context: DeliveryContext): Promise<void>;
};
