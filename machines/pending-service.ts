import type { AnyActorRef, Snapshot } from 'xstate';
import { type Effect, SERVICE_NAMES, type ServiceName } from '../protocol/effect.ts';

/** Stands in a state's `children` for a service until the chart stops it, or an actor is made of the state. */
export function pendingService({ id, service, input }: Extract<Effect, { type: 'start' }>): AnyActorRef {
  const stub: Partial<AnyActorRef> & { _syncSnapshot: boolean } = {
    id,
    src: service,
    sessionId: id,
    _syncSnapshot: false,
    send: () => {},
    getSnapshot: () => ({ status: 'active' }),
    getPersistedSnapshot: () =>
      ({ status: 'active', output: undefined, error: undefined, input }) as Snapshot<unknown>,
  };
  return stub as AnyActorRef;
}

export function serviceNamed(name: unknown): ServiceName {
  const known = SERVICE_NAMES.find(service => service === name);
  if (known === undefined) throw new Error(`The chart has no service "${String(name)}"`);
  return known;
}
