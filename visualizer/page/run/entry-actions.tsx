import { useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { useShortcuts } from '../app/keyboard.ts';
import { later } from '../app/later.tsx';
import { mayOperate } from '../data/caller.ts';
import type { StreamedEvent } from '../data/request.ts';
import { ActionButton } from '../ui/action-button.tsx';
import { useDesk } from './desk.ts';
import { breakpointBeforeNext } from './steering/breakpoints.ts';

const ForkPanel = later(async () => (await import('./forking/fork-panel.tsx')).ForkPanel);

/** The actions for an entry. */
export function EntryActions({ event }: { event: StreamedEvent }) {
  const desk = useDesk();
  const copied = useSignal(false);
  const mayFork = desk.source.live && mayOperate();
  const isForking = useSignal(false);
  const buttons = useRef<HTMLDivElement>(null);
  const fork = async (): Promise<void> => {
    isForking.value = !isForking.peek();
  };
  const leave = (): void => {
    isForking.value = false;
    buttons.current?.querySelector('button')?.focus();
  };
  const next = desk.isSteered ? breakpointBeforeNext(desk) : undefined;
  const breakHere = async (): Promise<void> => {
    if (next !== undefined) desk.breaking.value = next;
  };
  const copy = async (): Promise<void> => {
    const url = new URL(location.href);
    url.searchParams.set('at', String(event.seq));
    await navigator.clipboard?.writeText(url.href).catch(() => {});
    copied.value = true;
    setTimeout(() => {
      copied.value = false;
    }, 1_500);
  };
  useShortcuts('Entry', [
    ...(mayFork ? [{ keys: ['f'], does: 'fork here', run: () => void fork() }] : []),
    ...(next === undefined ? [] : [{ keys: ['b'], does: 'break before the next action', run: breakHere }]),
    { keys: ['y'], does: 'copy a link to this entry', run: () => void copy() },
  ]);
  return (
    <>
      {mayFork && isForking.value ? <ForkPanel at={event.seq} onLeave={leave} /> : null}
      <div class="buttons entry-actions" ref={buttons}>
        {mayFork ? (
          <ActionButton act={fork} keys="f">
            Fork here…
          </ActionButton>
        ) : null}
        {next === undefined ? null : (
          <ActionButton act={breakHere} keys="b">
            Break before this
          </ActionButton>
        )}
        <ActionButton act={copy} keys="y">
          {copied.value ? 'Copied' : 'Copy link'}
        </ActionButton>
      </div>
    </>
  );
}
