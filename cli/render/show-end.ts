import type { Settled } from '../../engine/run/settled.ts';
import { textOf } from '../../protocol/message.ts';
import { describeUsage } from './describe-event.ts';
import type { Output, Style } from './output.ts';
import { shorten } from './show-safely.ts';

type Ended = Exclude<Settled, { status: 'waiting' }>;

const STYLES: Readonly<Record<Ended['status'], Style>> = {
  finished: 'green',
  failed: 'red',
  cancelled: 'yellow',
};

/** How a run ended: its answer, unless the reader has it, what was left, and what it took. */
export function showEnd(
  output: Output,
  settled: Ended,
  { runId, isTextShown }: { runId: string; isTextShown: boolean },
): void {
  output.endLine();
  switch (settled.status) {
    case 'finished':
      if (!isTextShown && settled.text !== '') {
        output.stream(settled.text);
        output.endLine();
      }
      if (settled.unread.length > 0) {
        const texts = settled.unread.map(textOf).join(' ');
        output.line({ style: 'yellow', text: 'came too late to be read: ' }, shorten(texts, 200));
      }
      break;
    case 'failed':
      output.line({ style: 'red', text: settled.error.code }, `: ${settled.error.message}`);
      output.line(
        `A failed run stays as it is. Begin another, or one that goes on from it: run --continues ${runId} TEXT`,
      );
      break;
    case 'cancelled':
      for (const { callId, name, status } of settled.unsettled) {
        output.line({ style: 'yellow', text: 'without a result: ' }, `${name} (${callId}), ${status}`);
      }
      break;
  }
  output.line(
    { style: STYLES[settled.status], text: settled.status },
    settled.status === 'finished' && settled.incomplete !== undefined
      ? `, incomplete: ${settled.incomplete.reason}`
      : '',
    { style: 'dim', text: ` · ${describeSpent(settled)} · ${runId}` },
  );
}

export function describeSpent({ turns, usage }: Pick<Settled, 'turns' | 'usage'>): string {
  const counted = `${turns} ${turns === 1 ? 'turn' : 'turns'}`;
  return usage === null ? counted : `${counted}, ${describeUsage(usage)}`;
}
