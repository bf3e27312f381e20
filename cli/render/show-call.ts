import { listUnsettled, type OpenCall, type Settled } from '../../engine/run/settled.ts';
import type { Context } from '../../machines/context.ts';
import type { JsonValue } from '../../protocol/json.ts';
import type { CommandLines } from './command-lines.ts';
import { formatDistance } from './format-time.ts';
import { formatValue } from './format-value.ts';
import type { Output } from './output.ts';

type Waiting = Extract<Settled, { status: 'waiting' }>;

/** Prints a call with all facts that a decision needs. Its input is printed in full. */
export function showCall(output: Output, call: OpenCall, heading: string, now: number): void {
  const fact = (label: string, text: string) =>
    output.line({ style: 'dim', text: `  ${label.padEnd(12)}` }, text);
  output.line({ style: 'yellow', text: call.name }, ` ${heading}`);
  fact('call', call.callId);
  fact('side effect', call.sideEffect);
  if (call.reason !== undefined) fact('reason', call.reason);
  if (call.expiresAt !== undefined) {
    fact('expires', `${new Date(call.expiresAt).toISOString()} (${formatDistance(call.expiresAt, now)})`);
  }
  fact('digest', call.digest);
  output.line({ style: 'dim', text: '  input' });
  for (const line of formatValue(call.input as JsonValue, '    ')) output.line(line);
}

/** The headings of open calls, by what they wait for. */
export const HEADINGS = {
  approval: 'waits for approval',
  result: 'waits for its result',
  doubt: 'is in doubt: it may or may not have happened',
} as const;

/** Prints what a run waits for, with the commands that resolve it. */
export function showWaiting(
  output: Output,
  settled: Waiting,
  commands: CommandLines,
  context: Context,
  now: number,
): void {
  const { runId, next } = context;
  const command = (text: string) => output.line('  ', { style: 'cyan', text });
  for (const open of settled.open) {
    if (open.kind === 'pause') continue;
    showCall(output, open, HEADINGS[open.kind], now);
    for (const line of commands.decide(open)) command(line);
  }
  for (const { name, waitsFor } of listUnsettled(context)) {
    if (waitsFor === undefined) continue;
    output.line({ style: 'yellow', text: name }, ` is a sub-agent and waits in run ${waitsFor}`);
    command(commands.of('show', waitsFor));
  }
  for (const pause of settled.open) {
    if (pause.kind !== 'pause') continue;
    const isOwn = pause.runId === runId;
    const held = isOwn && next?.type === 'pause' && next.breakpoint !== undefined ? next.why : undefined;
    const reason = pause.reason ?? held;
    const who = isOwn ? 'The run' : `Run ${pause.runId}`;
    output.line({ style: 'yellow', text: `${who} is paused${reason === undefined ? '.' : `: ${reason}`}` });
    command(commands.of('step', pause.runId));
    command(commands.of('unpause', pause.runId));
  }
}
