import type { Store } from '../../protocol/store.ts';
import type { StoreUnderTest } from './check.ts';

/** The same stores, whose own clock shows the time that each call names. */
export function withClock(tested: StoreUnderTest): StoreUnderTest {
  const { open, reopen, openAgain, disconnect, advance } = tested;
  if (advance === undefined) return tested;
  const inner = new WeakMap<Store, Store>();
  const wrap = (store: Store) => {
    const timed = inTime(store, now => advance(store, now));
    inner.set(timed, store);
    return timed;
  };
  const unwrap = (timed: Store) => inner.get(timed) ?? timed;
  return {
    open: async () => wrap(await open()),
    ...(reopen && { reopen: async timed => wrap(await reopen(unwrap(timed))) }),
    ...(openAgain && { openAgain: async timed => wrap(await openAgain(unwrap(timed))) }),
    ...(disconnect && { disconnect: timed => disconnect(unwrap(timed)) }),
  };
}

/** Calls `setClock` before each call of the store, its deltas and its feed that names a time. */
function inTime<Target extends object>(target: Target, setClock: (now: number) => Promise<void>): Target {
  return new Proxy(target, {
    get(_, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member === 'object' && member !== null) return inTime(member, setClock);
      if (typeof member !== 'function') return member;
      if (name === 'watch' || name === 'watchWork') return member.bind(target);
      return async (...args: unknown[]) => {
        const [time] = args.flatMap(timeOf);
        if (time !== undefined) await setClock(time);
        return await Reflect.apply(member, target, args);
      };
    },
  });
}

/** The time that an argument of a call names: of a claim, a lease, a request for work, a deletion. */
function timeOf(argument: unknown): number[] {
  if (typeof argument === 'number' && argument >= 1_000) return [argument];
  const isTimed = typeof argument === 'object' && argument !== null && 'now' in argument;
  return isTimed && typeof argument.now === 'number' ? [argument.now] : [];
}
