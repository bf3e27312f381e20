import { signal } from '@preact/signals';
import type { ShownPathEntry } from '../ahead/explorer.tsx';
import type { StreamedEvent } from '../data/request.ts';
import { address, navigate } from './router.ts';

/** A path to play: events that did not happen, after the entries of a run, or from a start. */
export type Example = {
  title: string;
  of: string;
  message: string;
  invariant?: string;
  past: readonly StreamedEvent[];
  path: readonly ShownPathEntry[];
};

const HASH = '#example';
const chosen = signal<Example | null>(null);

export function playedExample(): Example | null {
  return address.value.hash === HASH ? chosen.value : null;
}

/** Plays a path in place of the view, from its first event on. The browser goes back to the view. */
export function playExample(example: Example): void {
  chosen.value = example;
  const url = new URL(location.href);
  const at = Math.max(1, example.past.length + Math.min(1, example.path.length));
  url.search = `?at=${at}&tab=journal`;
  url.hash = HASH;
  navigate(url.href);
}
