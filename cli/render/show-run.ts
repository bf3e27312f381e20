import { systemHost } from '../../engine/driver/host.ts';
import { isOwnerDead } from '../../engine/driver/owner.ts';
import { describeSize } from '../../engine/run/read-result.ts';
import { listOpenCalls, type Settled } from '../../engine/run/settled.ts';
import { type ChartState, statePath } from '../../machines/step.ts';
import type { RunEvent } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import { textOf } from '../../protocol/message.ts';
import { isDriven, type RunRecord } from '../../protocol/store.ts';
import type { Launch } from '../launch.ts';
import type { CommandLines } from './command-lines.ts';
import { nameModels, showValue } from './describe-event.ts';
import { formatDistance } from './format-time.ts';
import type { Output } from './output.ts';
import { showWaiting } from './show-call.ts';
import { describeSpent, showEnd } from './show-end.ts';
import { shorten } from './show-safely.ts';

export type ShownRun = {
  record: RunRecord;
  state: ChartState;
  /** With what its sub-agents wait for; `null` while it has something to do. */
  settled: Settled | null;
  launch: Launch;
  commands: CommandLines;
  /** What calls gave after their run had stopped to wait for them. */
  late: readonly LateResult[];
};

export type LateResult = Extract<RunEvent, { type: 'tool.late' }>;

/** Items of the conversation that are shown, from its end. */
const SHOWN_ITEMS = 30;
const LINE = 160;

export function showRun(output: Output, shown: ShownRun): void {
  showFacts(output, shown);
  showConversation(output, shown);
  showStanding(output, shown);
}

function showFacts(output: Output, { record, state, launch }: ShownRun): void {
  const { agent, config } = state.context;
  const now = systemHost.now();
  const fact = (label: string, text: string) => output.line({ style: 'dim', text: label.padEnd(10) }, text);
  output.line({ style: 'bold', text: record.runId });
  fact(
    'agent',
    [agent.name, agent.version ?? '', launch.module === undefined ? '' : `(${launch.module})`]
      .filter(Boolean)
      .join(' '),
  );
  fact('model', launch.model ?? nameModels(config.models));
  if (record.continues !== undefined) fact('continues', record.continues);
  const { parent } = state.context;
  if (parent !== null) fact('works for', `${parent.runId} (call ${parent.callId})`);
  fact('began', `${formatDistance(record.createdAt, now)}, ${record.seq} events`);
  fact('state', [statePath(state), explainState(state)].filter(Boolean).join(' — '));
  if (record.status === 'running') fact('driven by', describeDriver(record, now));
}

/** A cancellation is no decision of the chart's: what it had decided last is not the reason. */
function explainState({ status, value, context }: ChartState): string {
  return status === 'done' && value === 'cancelled' ? 'on request' : (context.next?.why ?? '');
}

function describeDriver(record: RunRecord, now: number): string {
  const { owner } = record;
  if (owner === undefined) return 'nobody: resume it';
  const name = `process ${owner.pid} on ${owner.host}`;
  return isDriven(record, now, isOwnerDead) ? name : `nobody (${name} is gone): resume it`;
}

function showConversation(output: Output, { record, state, commands }: ShownRun): void {
  const { transcript } = state.context;
  output.line({ style: 'dim', text: 'conversation' });
  const left = transcript.length - SHOWN_ITEMS;
  if (left > 0) output.line(`  (${left} earlier items)`);
  for (const item of transcript.slice(-SHOWN_ITEMS)) {
    output.line('  ', describeItem(item));
    if (item.type !== 'tool_result' || item.blob === undefined) continue;
    const whole = commands.result(record.runId, item.callId);
    output.line({ style: 'dim', text: `    ${describeSize(item.blob)}; in full: ${whole}` });
  }
}

function describeItem(item: Item): string {
  switch (item.type) {
    case 'message': {
      const others = item.content.filter(part => part.type !== 'text').map(part => `[${part.type}]`);
      return `${item.role}: ${[shorten(textOf(item), LINE), ...others].join(' ')}`;
    }
    case 'reasoning':
      return `reasoning: ${shorten(item.text, LINE)}`;
    case 'tool_call':
      return `→ ${item.name} ${showValue(item.arguments, LINE)}`;
    case 'tool_result':
      return `← ${item.isError ? 'error ' : ''}${showValue(item.output, LINE)}`;
    case 'provider_item':
      return `[${item.kind}]`;
    case 'approval_request':
    case 'approval_response':
    case 'tool_list':
      return `[${item.type}]`;
  }
}

function showStanding(output: Output, { record, state, settled, commands, late }: ShownRun): void {
  const { runId } = record;
  if (settled === null) {
    const { usage, turns } = state.context;
    for (const { callId, name, status } of listOpenCalls(state.context))
      output.line(`  ${name} (${callId}), ${status}`);
    const spent = describeSpent({ usage, turns });
    return output.line({ style: 'cyan', text: 'running' }, { style: 'dim', text: ` · ${spent}` });
  }
  if (settled.status !== 'waiting') {
    showEnd(output, settled, { runId, isTextShown: false });
    return showLate(
      state,
      output,
      late.filter(({ contradicts }) => contradicts !== undefined),
    );
  }
  showWaiting(output, settled, commands, runId, systemHost.now());
  const doubted = new Set(settled.doubts.map(({ callId }) => callId));
  showLate(
    state,
    output,
    late.filter(({ callId, contradicts }) => doubted.has(callId) || contradicts !== undefined),
  );
  output.line({ style: 'yellow', text: 'waiting' }, { style: 'dim', text: ` · ${describeSpent(settled)}` });
}

function showLate({ context }: ChartState, output: Output, late: readonly LateResult[]): void {
  for (const { callId, isError, output: given, contradicts } of late) {
    const made = context.transcript.find(item => item.type === 'tool_call' && item.callId === callId);
    const name = made?.type === 'tool_call' ? made.name : 'a call';
    const gave = `${name} (${callId}) gave ${isError ? 'the error ' : ''}${showValue(given, LINE)}`;
    output.line({ style: 'yellow', text: 'reported late: ' }, gave);
    if (contradicts === undefined) continue;
    output.line(
      { style: 'red', text: 'CONTRADICTION: ' },
      `the result of ${name} (${callId}) came late, and ${contradicts}`,
    );
  }
}
