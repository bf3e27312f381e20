import type { ReplayReport } from '../../engine/replay/replay-journal.ts';
import { describeSettled, listUnsettled, type Settled } from '../../engine/run/settled.ts';
import { hasEnded } from '../../machines/standing.ts';
import type { ChartState } from '../../machines/step.ts';
import type { CommandLines } from './command-lines.ts';
import type { Output } from './output.ts';
import { HEADINGS, showCall } from './show-call.ts';

/** Prints the state of a run after the last replayed entry, which may be long past. */
export function showPlace(
  output: Output,
  { runId, entries, of, end }: ReplayReport,
  commands: CommandLines | null,
): void {
  if (end === null) return;
  const fact = (label: string, text: string) => output.line({ style: 'dim', text: label.padEnd(9) }, text);
  const { context } = end.state;
  fact('why', context.next?.why ?? 'no decision yet');
  const settled = describeSettled(end.state, text => text);
  if (settled === null) showRunning(output, end.state);
  else if (settled.status === 'waiting') showOpenCalls(output, settled, context.now);
  else fact('status', settled.status);
  if (entries === of) return;
  output.line({ style: 'yellow', text: `The journal continues to entry ${of}.` });
  if (commands === null || hasEnded(end.state)) return;
  output.line('To start a new run from here: ', {
    style: 'cyan',
    text: commands.of('fork', runId, '--at', String(entries)),
  });
}

function showRunning(output: Output, { context }: ChartState): void {
  const { turn } = context;
  const calls = listUnsettled(context);
  for (const { callId, name, status } of calls) output.line(`  ${name} (${callId}), ${status}`);
  if (calls.length === 0) output.line(`  attempt ${turn.attempt} of turn ${turn.number}`);
}

function showOpenCalls(output: Output, settled: Extract<Settled, { status: 'waiting' }>, now: number): void {
  for (const open of settled.open)
    if (open.kind !== 'pause') showCall(output, open, HEADINGS[open.kind], now);
  if (settled.paused) output.line({ style: 'yellow', text: 'The run is paused.' });
}
