import type { Store, StoreFeed } from '../protocol/store.ts';

const HELD = {
  type: 'held',
  owner: { id: 'non-driving store', host: '', pid: 0, startedAt: '' },
  until: Number.MAX_SAFE_INTEGER,
} as const;

/** Returns a view of the store that grants no leases: its runs accept reads and commands but cannot be driven. */
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
  return viewOf(store, { ...changes, ...withheld, ...(store.feed && { feed: viewOf(store.feed, feed) }) });
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
