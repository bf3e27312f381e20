import type { ObjectContext, ObjectSharedContext } from '@restatedev/restate-sdk';
import type { DeltaStore, StoredText } from '../../protocol/store.ts';
import type { RestateCalls } from './ingress.ts';
import { json, TEXT_OBJECT, type TextRequests } from './requests.ts';

type TextContext = Pick<ObjectContext, 'key' | 'get' | 'set' | 'clear' | 'genericSend'>;

/** How long a run's text is stored after the last request of a reader, in ms. */
const KEPT_MS = 60_000;

/** A separate object, so that writes of text and of entries do not wait for each other. */
export const textHandlers = {
  async follow(ctx: TextContext, { until }: TextRequests['follow']['input']): Promise<undefined> {
    ctx.set('until', until);
    const later = { service: TEXT_OBJECT, key: ctx.key, method: 'forget', parameter: { until } };
    ctx.genericSend({ ...later, delay: KEPT_MS, inputSerde: json() });
    return undefined;
  },

  async save(ctx: TextContext, { text, redactions, now }: TextRequests['save']['input']): Promise<boolean> {
    if (((await ctx.get<number>('until')) ?? 0) <= now) return false;
    if (((await ctx.get<number>('redactions')) ?? 0) > redactions) return false;
    ctx.set('text', text);
    return true;
  },

  async clear(ctx: TextContext, { redactions }: TextRequests['clear']['input']): Promise<undefined> {
    ctx.clear('text');
    if (redactions === 0) ctx.clear('redactions');
    else if (redactions !== undefined) ctx.set('redactions', redactions);
    return undefined;
  },

  /** Deletes the text, unless a reader has asked for a longer time. How often the run was redacted stays. */
  async forget(ctx: TextContext, { until }: TextRequests['forget']['input']): Promise<undefined> {
    if ((await ctx.get<number>('until')) !== until) return undefined;
    for (const key of ['until', 'text']) ctx.clear(key);
    return undefined;
  },
};

export const sharedTextHandlers = {
  async peek(ctx: Pick<ObjectSharedContext, 'get'>): Promise<StoredText | null> {
    return await ctx.get<StoredText>('text');
  },
};

/** Readers poll often, and renew their request after half of its time. */
export function restateDeltas(calls: RestateCalls): DeltaStore {
  const asked = new Map<string, number>();
  return {
    async follow(runId, { now, until }) {
      if ((asked.get(runId) ?? 0) < (now + until) / 2) {
        for (const [other, end] of asked) if (end < now) asked.delete(other);
        asked.set(runId, until);
        await calls.text(runId, 'follow', { until });
      }
      return (await calls.text(runId, 'peek', undefined)) ?? undefined;
    },
    save: async (runId, { redactions = 0, ...text }, now) =>
      await calls.text(runId, 'save', { text, redactions, now }),
    clear: async runId => void (await calls.text(runId, 'clear', {})),
  };
}
