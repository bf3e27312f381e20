import type { Settled } from '../../engine/run/settled.ts';
import { textOf } from '../../protocol/message.ts';
import type { RunStatus } from '../../protocol/store.ts';
import type { CommandLines } from './command-lines.ts';
import { describeUsage } from './describe-event.ts';
import type { Output, Style } from './output.ts';
import { shorten } from './show-safely.ts';

/** The color of each run status, in lists and in the last line about a run. */
export const STATUS_STYLES: Readonly<Record<RunStatus, Style>> = {
  running: 'cyan',
  waiting: 'yellow',
  finished: 'green',
  failed: 'red',
  cancelled: 'dim',
};

/** Prints how a run ended: the answer (unless `isTextShown`), what is left over, the status and the usage. */
export function showEnd(
  output: Output,
  settled: Exclude<Settled, { status: 'waiting' }>,
  { runId, commands, isTextShown }: { runId: string; commands: CommandLines; isTextShown: boolean },
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
        output.line({ style: 'yellow', text: 'unread, received too late: ' }, shorten(texts, 200));
      }
      break;
    case 'failed':
      output.line({ style: 'red', text: settled.error.code }, `: ${settled.error.message}`);
      output.line(
        `A failed run cannot be resumed. To start a new run from its transcript: ${commands.of('run', '--continues', runId)} TEXT`,
      );
      break;
    case 'cancelled':
      for (const { callId, name, status } of settled.unsettled) {
        output.line({ style: 'yellow', text: 'without a result: ' }, `${name} (${callId}), ${status}`);
      }
      break;
  }
  showStatus(output, settled.status, settled, { runId, incomplete: reasonOf(settled) });
}

function reasonOf(settled: Settled): string | undefined {
  return settled.status === 'finished' ? settled.incomplete?.reason : undefined;
}

/** Prints the last line about a run: its status, turns, tokens and, if given, its id. */
export function showStatus(
  output: Output,
  status: RunStatus,
  { turns, usage }: Pick<Settled, 'turns' | 'usage'>,
  { runId, incomplete }: { runId?: string; incomplete?: string | undefined } = {},
): void {
  const facts = [`${turns} ${turns === 1 ? 'turn' : 'turns'}`];
  if (usage !== null) facts.push(describeUsage(usage));
  const id = runId === undefined ? '' : ` · ${runId}`;
  output.line(
    { style: STATUS_STYLES[status], text: status },
    incomplete === undefined ? '' : `, incomplete: ${incomplete}`,
    { style: 'dim', text: ` · ${facts.join(', ')}${id}` },
  );
}
