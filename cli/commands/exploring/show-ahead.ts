import type { ForwardReport } from '../../../explore/forward/explore-from.ts';
import { describeStart } from '../../../visualizer/describe-exploration.ts';
import type { Output } from '../../render/output.ts';

/** Prints what may still happen to a run: states, approvals, and what it may still spend. */
export function showAhead(output: Output, report: ForwardReport): void {
  const { runId, at, state, ahead, starts, approvals, left, complete } = report;
  const row = (label: string, text: string) => output.line({ style: 'dim', text: label.padEnd(14) }, text);
  output.line({ style: 'bold', text: runId }, ` at entry ${at}: ${state}`);
  output.line('');
  row('can come', ahead.map(one => `${one.state} (${one.path.length})`).join(', ') || 'nothing');
  for (const { callId, name } of approvals) row('asks now', `${name} (${callId})`);
  for (const start of starts) row(start.tool, describeStart(start, complete));
  const { turns, toolCalls, tokens, cost } = left;
  row('turns left', `${turns.most}, after ${turns.spent}`);
  row('calls left', `${toolCalls.most}, after ${toolCalls.spent}`);
  row('tokens left', `${tokens.most ?? 'no limit'}, after ${tokens.spent}`);
  row('cost left', `${cost.most ?? 'no limit'}, after ${cost.spent}`);
  output.line('');
}
