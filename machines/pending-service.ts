import type { AnyActorRef, Snapshot } from 'xstate';
import { type Effect, SERVICE_NAMES, type ServiceName } from '../protocol/effect.ts';

const ignore = () => {};
const describeActive = () => ({ status: 'active' });

/** Returns a placeholder actor that represents a started service in a state's `children`. */
export function pendingService({ id, service, input }: Extract<Effect, { type: 'start' }>): AnyActorRef {
  const stub: Partial<AnyActorRef> & { _syncSnapshot: boolean } = {
    id,
    src: service,
    sessionId: id,
    _syncSnapshot: false,
    send: ignore,
    getSnapshot: describeActive,
    getPersistedSnapshot: () =>
      ({ status: 'active', output: undefined, error: undefined, input }) as Snapshot<unknown>,
  };
  return stub as AnyActorRef;
}

/** Returns the name as a `ServiceName`; throws for any other value. */
export function serviceNamed(name: unknown): ServiceName {
  const known = SERVICE_NAMES.find(service => service === name);
  if (known === undefined) throw new Error(`The chart has no service "${String(name)}".`);
  return known;
}
