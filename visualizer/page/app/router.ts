import { computed, signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { openItems } from '../data/open-items.ts';

export type PageRoute =
  | { view: 'overview'; query: URLSearchParams }
  | { view: 'runs'; query: URLSearchParams }
  /** `shown`: the decision that the address names. */
  | { view: 'inbox'; shown: { runId: string; callId: string } | null; query: URLSearchParams }
  | { view: 'run'; runId: string }
  | { view: 'session'; id: string }
  | { view: 'thread'; id: string; query: URLSearchParams }
  | { view: 'compare'; left: string; right: string }
  | { view: 'regressions'; query: URLSearchParams }
  | { view: 'agents'; name: string | null }
  | { view: 'unknown' };

const place = signal(new URL(location.href));

export const address = computed(() => place.value);
export const route = computed(() => readRoute(place.value));

function readRoute({ pathname, searchParams }: URL): PageRoute {
  const [folder = '', name = '', ...rest] = pathname.split('/').slice(1).map(decode);
  if (folder === 'inbox' && rest.length < 2) {
    const [callId = ''] = rest;
    if ((name === '') !== (callId === '')) return { view: 'unknown' };
    return { view: 'inbox', shown: name === '' ? null : { runId: name, callId }, query: searchParams };
  }
  if (rest.length > 0 && rest.some(part => part !== '')) return { view: 'unknown' };
  if (folder === '') return { view: 'overview', query: searchParams };
  if (folder === 'runs' && name === '') return { view: 'runs', query: searchParams };
  if (folder === 'runs') return { view: 'run', runId: name };
  if (folder === 'sessions' && name !== '') return { view: 'session', id: name };
  if (folder === 'threads' && name !== '') return { view: 'thread', id: name, query: searchParams };
  if (folder === 'regressions' && name === '') return { view: 'regressions', query: searchParams };
  if (folder === 'agents') return { view: 'agents', name: name === '' ? null : name };
  if (folder === 'compare') {
    const [left, right] = name.split('..');
    if (left && right) return { view: 'compare', left, right };
  }
  return { view: 'unknown' };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function navigate(href: string): void {
  history.pushState(null, '', href);
  place.value = new URL(location.href);
  scrollTo(0, 0);
}

/** Changes the address without a new entry in the browser's history, and without scrolling. */
export function renameAddress(href: string): void {
  const url = new URL(href, location.href);
  if (url.href === location.href) return;
  history.replaceState(null, '', url);
  place.value = url;
}

/** Names the view in the browser's tab, which also counts what waits for people. */
export function showTitle(name: string): void {
  const count = openItems.value;
  document.title = `${count === '' ? '' : `(${count}) `}${name} · Agentchart`;
}

export function useTitle(name: string): void {
  const count = openItems.value;
  useEffect(() => showTitle(name), [name, count]);
}

/** Sets or removes parameters of the address without a new entry in the browser's history. */
export function setQuery(changes: Readonly<Record<string, string | null>>): void {
  const url = new URL(location.href);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  renameAddress(url.href);
}

/** Lets plain clicks on links of the page change the view without a reload. */
export function watchLinks(): void {
  addEventListener('popstate', () => {
    place.value = new URL(location.href);
  });
  document.addEventListener('click', event => {
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    if (link === null || event.defaultPrevented || event.button !== 0) return;
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const url = new URL(link.href);
    const isOurs = url.origin === location.origin && link.target === '' && !link.hasAttribute('download');
    if (!isOurs || (url.hash !== '' && url.pathname === location.pathname)) return;
    if (/^\/runs\/[^/]+\/./.test(url.pathname)) return;
    event.preventDefault();
    navigate(url.href);
  });
}
