import type { StreamedEvent } from '../../data/request.ts';

/** In characters of one entry; what is beyond them is not searched. */
const MOST = 2_000_000;

/** What no person reads: the agent's configuration, keys, and what only providers understand. */
const UNREAD = new Set(
  'config tools format chart requestId digest toolDigest continuation providerData launch sent'.split(' '),
);

/** Whether an entry has a text: in its type, the name of its call, or any text or number in it. `text` in small letters. */
export function searchEntry(event: StreamedEvent, text: string, nameOf: (callId: string) => string): boolean {
  let left = MOST;
  const has = (value: unknown): boolean => {
    if (typeof value === 'string') {
      left -= value.length;
      return left >= 0 && value.toLowerCase().includes(text);
    }
    if (typeof value === 'number') return String(value).includes(text);
    if (typeof value !== 'object' || value === null) return false;
    return Object.entries(value).some(([name, member]) => !UNREAD.has(name) && has(member));
  };
  const { seq: _, at: __, ...told } = event;
  return has(told) || ('callId' in event && has(nameOf(event.callId)));
}
