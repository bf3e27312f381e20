import type { Store, StoreFeed } from '../protocol/store.ts';

const HELD = {
  type: 'held',
  owner: { id: 'non-driving store', host: '', pid: 0, startedAt: '' },
  until: Number.MAX_SAFE_INTEGER,
} as const;

const views = new WeakSet<Store>();

/** Whether runs can be driven on the store. @internal */
export const drivesRuns = (store: Store): boolean => !views.has(store);

/**
 * Returns a view of the store that grants no leases. An agent on it starts, reads, follows and decides runs, and never drives
 * one: workers on the store itself do. For a server beside workers, as `agentchart serve --no-drive` is one.
 *
 * @example
 * const desk = createAgent({ ...options, store: nonDrivingStore(store) });
 */
export function nonDrivingStore(store: Store): Store {
  const changes: Partial<Store> = {
    create: (event, _, rest) => store.create(event, undefined, rest),
    claim: async () => structuredClone(HELD),
    renew: async leases => [...leases],
    release: async () => {},
  };
  // Nothing is delivered from here: the cursors of the feed are always held by others.
  const feed: Partial<StoreFeed> = { take: async () => structuredClone(HELD), save: async () => false };
  const withheld = { takeWork: undefined, watchWork: undefined };
  const view = viewOf(store, {
    ...changes,
    ...withheld,
    ...(store.feed && { feed: viewOf(store.feed, feed) }),
  });
  views.add(view);
  return view;
}

/** The target with these members in place of its own. The other methods are called on the target itself. */
function viewOf<Target extends object>(target: Target, changes: object): Target {
  return new Proxy(target, {
    get(_, name) {
      const member: unknown = Reflect.get(Object.hasOwn(changes, name) ? changes : target, name);
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
}
