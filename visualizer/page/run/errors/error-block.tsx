import type { ComponentChildren } from 'preact';
import { mayOperate } from '../../data/caller.ts';
import { formatTimeOfDay } from '../../render/format.ts';
import { Button } from '../../ui/button.tsx';
import { Safe } from '../../ui/text.tsx';
import { useDesk } from '../desk.ts';

type ErrorBlockProps = {
  /** What happened, in a line. */
  title: string;
  /** When, in ms since the epoch, if nothing around it says so. */
  at?: number;
  /** What to do. */
  advice?: string;
  /** The entry before which a fork can try it another way. */
  seq: number;
  children?: ComponentChildren;
};

/** An error of a run, a turn or a call: what happened, and what a person can do now. */
export function ErrorBlock({ title, at, advice = '', seq, children }: ErrorBlockProps) {
  const desk = useDesk();
  const fork = (): void => {
    desk.goTo(seq - 1);
    desk.forking.value = true;
  };
  return (
    <section class="error-block">
      <p class="error-title">
        <Safe in="strong" text={title} />
        {at !== undefined && <time>{formatTimeOfDay(at)}</time>}
      </p>
      {children}
      {advice !== '' && <Safe in="p" text={advice} />}
      {desk.source.live && mayOperate() && seq > 1 && <Button label="Fork before this" onClick={fork} />}
    </section>
  );
}
