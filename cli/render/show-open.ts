import { describeUnsettled, listUnsettled, type Settled } from '../../engine/log/settled.ts';
import type { Context } from '../../machines/context.ts';
import { describeApprovals, describeDeadlock, describeDuties, hasDuties } from '../../machines/duties.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { textOf } from '../../protocol/message.ts';
import { isOpenItem, type OpenItem, type OpenQuestion } from '../../protocol/run-view.ts';
import type { RunStatus } from '../../protocol/store.ts';
import { pointTo } from '../exit-codes.ts';
import type { CommandLines } from './command-lines.ts';
import { describeUsage, formatDistance, formatValue, shortenCell } from './format.ts';
import { cyan, dim, type Output, red, type Style, yellow } from './output.ts';

type Waiting = Extract<Settled, { status: 'waiting' }>;

/** Prints a call or a review with all facts that a decision needs. The input or the answer is printed in full. */
export function showOpen(output: Pick<Output, 'line'>, open: OpenItem, heading: string, now: number): void {
  const fact = (label: string, text: string) => output.line(dim(`  ${label.padEnd(12)}`), text);
  const isReview = open.kind === 'review';
  output.line(yellow(isReview ? 'the answer' : open.name), ` ${heading}`);
  fact(isReview ? 'review' : 'call', open.callId);
  if (!isReview) fact('side effect', open.sideEffect);
  if (open.kind === 'question') showQuestions(open, fact);
  else if (open.reason !== undefined) fact('reason', open.reason);
  if (open.kind !== 'result' && hasDuties(open)) fact('needs', describeDuties(open));
  const deadlock = open.kind === 'result' ? '' : describeDeadlock(open);
  if (deadlock !== '') fact('', deadlock);
  if (open.approvedBy !== undefined) fact('so far', describeApprovals(open));
  if (open.expiresAt !== undefined) {
    fact('expires', `${new Date(open.expiresAt).toISOString()} (${formatDistance(open.expiresAt, now)})`);
  }
  fact('digest', open.digest);
  output.line(dim(isReview ? '  answer' : '  input'));
  const value = isReview ? (open.output ?? open.answer) : (open.input as JsonValue);
  for (const line of formatValue(value, '    ')) output.line(line);
}

function showQuestions({ questions }: OpenQuestion, fact: (label: string, text: string) => void): void {
  for (const { key, message, schema, url, fault } of questions) {
    fact('question', `${key}: ${message}`);
    if (fault !== undefined) fact('', fault);
    fact('', url ?? JSON.stringify(schema));
  }
}

export const HEADINGS = {
  approval: 'waits for approval',
  result: 'waits for its result',
  doubt: 'is in doubt: it may or may not have happened',
  question: 'asks',
  review: 'waits for a review',
} as const;

/** Prints what a run waits for, with the commands that resolve it. `now` is in ms since the epoch. */
export function showWaiting(
  output: Output,
  settled: Waiting,
  commands: CommandLines,
  context: Context,
  now: number,
): void {
  const { runId, next } = context;
  const command = (text: string) => output.line('  ', cyan(text));
  for (const open of settled.open) {
    if (open.kind === 'sign-in') {
      output.line(yellow(open.reason));
      command(`${commands.of('mcp', 'login', open.server)} --agent MODULE`);
    }
    if (!isOpenItem(open)) continue;
    showOpen(output, open, HEADINGS[open.kind], now);
    for (const line of commands.decide(open)) command(line);
  }
  for (const { name, waitsFor } of listUnsettled(context)) {
    if (waitsFor === undefined) continue;
    output.line(yellow(name), ` is a sub-agent and waits in run ${waitsFor}`);
    command(commands.of('show', waitsFor));
  }
  for (const pause of settled.open) {
    if (pause.kind !== 'pause') continue;
    const isOwn = pause.runId === runId;
    const held = isOwn && next?.type === 'pause' && next.breakpoint !== undefined ? next.why : undefined;
    const reason = pause.reason ?? held;
    const who = isOwn ? 'The run' : `Run ${pause.runId}`;
    output.line(yellow(`${who} is paused${reason === undefined ? '.' : `: ${reason}`}`));
    command(commands.of('step', pause.runId));
    command(commands.of('unpause', pause.runId));
  }
}

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
      if (settled.incomplete?.refusal !== undefined)
        output.line({ style: 'yellow', text: 'refused: ' }, settled.incomplete.refusal);
      if (settled.unread.length > 0) {
        const texts = settled.unread.map(textOf).join(' ');
        output.line(yellow('unread, received too late: '), shortenCell(texts, 200));
      }
      break;
    case 'failed':
      output.line(red(settled.error.code), `: ${settled.error.message}`);
      if (pointTo(settled.error.code) !== '') output.line(pointTo(settled.error.code));
      output.line(
        `A failed run cannot be resumed. To start a new run from its transcript: ${commands.of('run', '--continues', runId)} TEXT`,
      );
      break;
    case 'cancelled':
      for (const call of settled.unsettled)
        output.line(yellow('without a result: '), describeUnsettled(call));
      break;
  }
  showStatus(output, settled.status, settled, { runId, incomplete: reasonOf(settled) });
}

function reasonOf(settled: Settled): string | undefined {
  return settled.status === 'finished' ? settled.incomplete?.reason : undefined;
}

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
    dim(` · ${facts.join(', ')}${id}`),
  );
}
