import { signal, useSignal } from '@preact/signals';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { describeThrown, requestServer } from './request.ts';
import type { ListNews, PageSource } from './source.ts';

const EVERY_MS = 5_000;
const AGAIN_MS = 1_000;
const LONGEST_MS = 5_000;

/** Since when the server has not answered, in ms since the epoch; `null` while it answers. */
export const lostSince = signal<number | null>(null);

let timer: ReturnType<typeof setTimeout> | undefined;
let isLooking = false;

export function watchServer(): void {
  for (const type of ['online', 'offline']) addEventListener(type, () => void lookForServer());
  document.addEventListener('visibilitychange', () => void lookForServer());
  timer = setTimeout(() => void lookForServer(), EVERY_MS);
}

export async function lookForServer(): Promise<void> {
  if (isLooking) return;
  isLooking = true;
  clearTimeout(timer);
  if (!document.hidden) lostSince.value = (await answers()) ? null : (lostSince.peek() ?? Date.now());
  timer = setTimeout(() => void lookForServer(), lostSince.peek() === null ? EVERY_MS : AGAIN_MS);
  isLooking = false;
}

/** Whether something answers, and it is not a proxy that has no server. */
async function answers(): Promise<boolean> {
  try {
    const { status } = await fetch('/healthz', {
      signal: AbortSignal.timeout(LONGEST_MS),
      cache: 'no-store',
    });
    return status < 502 || status > 504;
  } catch {
    return false;
  }
}

const GATHER_MS = 250;

/** Calls `hear` some time after the list of runs or the inbox has changed, at most every `everyMs`. */
export function useNews(
  source: PageSource,
  types: readonly ListNews['type'][],
  hear: () => Promise<void>,
  everyMs = GATHER_MS,
): void {
  const heard = useRef(hear);
  heard.current = hear;
  useLayoutEffect(() => {
    let soon: ReturnType<typeof setTimeout> | undefined;
    const end = source.followList(({ type }) => {
      if (!types.includes(type)) return;
      soon ??= setTimeout(() => {
        soon = undefined;
        void heard.current();
      }, everyMs);
    });
    return () => {
      clearTimeout(soon);
      end();
    };
  }, [source]);
}

/** Reads at most `most` pages of a list. `next` is the cursor of what is left. */
export async function readListPages<Name extends string, Item>(
  path: string,
  most: number,
  name: Name,
): Promise<{ found: Item[]; next: string | undefined }> {
  const found: Item[] = [];
  let next: string | undefined;
  for (let page = 0; page < most; page += 1) {
    const cursor = next === undefined ? '' : `&cursor=${encodeURIComponent(next)}`;
    const answer = await requestServer<{ next?: string } & Record<Name, Item[]>>(`${path}${cursor}`);
    found.push(...answer[name]);
    next = answer.next;
    if (next === undefined) break;
  }
  return { found, next };
}

type Reading<Answer> = { answer: Answer | null; problem: string; again(): Promise<void> };

/** Reads, and again when `keys` change or a lost server is back, unless `once` has its answer; `again` reads once more. */
export function useRead<Answer>(
  read: () => Promise<Answer>,
  keys: readonly unknown[],
  { once = false } = {},
): Reading<Answer> {
  const answer = useSignal<Answer | null>(null);
  const problem = useSignal('');
  const asked = useRef({});
  const isLost = lostSince.value !== null;
  const again = async (): Promise<void> => {
    const before = asked.current;
    const take = (found: Answer | null, what: string): void => {
      if (asked.current !== before) return;
      answer.value = found ?? answer.peek();
      problem.value = what;
    };
    await read().then(
      found => take(found, ''),
      error => take(null, describeThrown(error)),
    );
  };
  useEffect(() => {
    if (isLost || (once && answer.peek() !== null)) return;
    asked.current = {};
    void again();
    return () => {
      asked.current = {};
    };
  }, [...keys, isLost]);
  return { answer: answer.value, problem: problem.value, again };
}
