import { systemHost } from '../../engine/driver/host.ts';
import { isOwnerDead } from '../../engine/driver/owner.ts';
import { listUnsettled, type Settled } from '../../engine/run/settled.ts';
import { type ChartState, statePath } from '../../machines/step.ts';
import { describeBytes } from '../../protocol/content/read-content.ts';
import type { RunEvent } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import { textOf } from '../../protocol/message.ts';
import { isDriven, type RunRecord } from '../../protocol/store.ts';
import type { Launch } from '../launch.ts';
import type { CommandLines } from './command-lines.ts';
import { nameModels, showValue } from './describe-event.ts';
import { formatPath } from './format-path.ts';
import { formatDistance } from './format-time.ts';
import type { Output } from './output.ts';
import { showWaiting } from './show-call.ts';
import { showEnd, showStatus } from './show-end.ts';
import { shorten } from './show-safely.ts';

type ShownRun = {
  record: RunRecord;
  state: ChartState;
  /** Includes what its sub-agents wait for; `null` while the run is running. */
  settled: Settled | null;
  launch: Launch;
  commands: CommandLines;
  /** Results that arrived after the run had stopped waiting for them. */
  late: readonly LateResult[];
};

/** A result that arrived after the run had stopped waiting for it. */
export type LateResult = Extract<RunEvent, { type: 'tool.late' }>;

/** How many of the last items of the conversation are shown. */
const SHOWN_ITEMS = 30;
const MAX_LINE = 160;

/** Prints the facts of a run, its conversation, and what it waits for or how it ended. */
export function showRun(output: Output, shown: ShownRun): void {
  showFacts(output, shown);
  showConversation(output, shown);
  showSituation(output, shown);
}

function showFacts(output: Output, { record, state, launch }: ShownRun): void {
  const { agent, config } = state.context;
  const now = systemHost.now();
  const fact = (label: string, text: string) => output.line({ style: 'dim', text: label.padEnd(10) }, text);
  output.line({ style: 'bold', text: record.runId });
  fact(
    'agent',
    [agent.name, agent.version ?? '', launch.module === undefined ? '' : `(${formatPath(launch.module)})`]
      .filter(Boolean)
      .join(' '),
  );
  fact('model', formatModel(launch.model) ?? nameModels(config.models));
  if (record.continues !== undefined) fact('continues', record.continues);
  const { parent } = state.context;
  if (parent !== null) fact('parent', `${parent.runId} (call ${parent.callId})`);
  fact('started', `${formatDistance(record.createdAt, now)}, ${record.seq} events`);
  fact('state', [statePath(state), explainState(state)].filter(Boolean).join(' — '));
  if (record.status === 'running') fact('driven by', describeDriver(record, now));
}

/** The reason of the last decision; a cancellation is not a decision of the chart. */
function explainState({ status, value, context }: ChartState): string {
  return status === 'done' && value === 'cancelled' ? 'on request' : (context.next?.why ?? '');
}

/** A script's path is absolute in the launch. */
function formatModel(model: string | undefined): string | undefined {
  return model?.replace(/^scripted:(.+)$/s, (_, file: string) => `scripted:${formatPath(file)}`);
}

function describeDriver(record: RunRecord, now: number): string {
  const { owner } = record;
  if (owner === undefined) return 'no process; resume the run';
  const name = `process ${owner.pid} on ${owner.host}`;
  return isDriven(record, now, isOwnerDead) ? name : `no process (${name} is gone); resume the run`;
}

function showConversation(output: Output, { record, state, commands }: ShownRun): void {
  const { transcript } = state.context;
  output.line({ style: 'dim', text: 'conversation' });
  const hidden = transcript.length - SHOWN_ITEMS;
  if (hidden > 0) output.line(`  (${hidden} earlier items)`);
  for (const item of transcript.slice(-SHOWN_ITEMS)) {
    output.line('  ', describeItem(item));
    if (item.type !== 'tool_result' || item.blob === undefined) continue;
    const full = commands.result(record.runId, item.callId);
    output.line({ style: 'dim', text: `    ${describeBytes(item.blob.bytes)}; full result: ${full}` });
  }
}

function describeItem(item: Item): string {
  switch (item.type) {
    case 'message': {
      const others = item.content.filter(part => part.type !== 'text').map(part => `[${part.type}]`);
      return `${item.role}: ${[shorten(textOf(item), MAX_LINE), ...others].join(' ')}`;
    }
    case 'reasoning':
      return `reasoning: ${shorten(item.text, MAX_LINE)}`;
    case 'tool_call':
      return `→ ${item.name} ${showValue(item.arguments, MAX_LINE)}`;
    case 'tool_result':
      return `← ${item.isError ? 'error ' : ''}${showValue(item.output, MAX_LINE)}`;
    case 'provider_item':
      return `[${item.kind}]`;
    case 'approval_request':
    case 'approval_response':
    case 'tool_list':
      return `[${item.type}]`;
  }
}

function showSituation(output: Output, { record, state, settled, commands, late }: ShownRun): void {
  const { runId } = record;
  if (settled === null) {
    const { usage, turns } = state.context;
    for (const { callId, name, status } of listUnsettled(state.context))
      output.line(`  ${name} (${callId}), ${status}`);
    return showStatus(output, 'running', { usage, turns });
  }
  if (settled.status !== 'waiting') {
    showEnd(output, settled, { runId, commands, isTextShown: false });
    return showLate(
      state,
      output,
      late.filter(({ contradicts }) => contradicts !== undefined),
    );
  }
  showWaiting(output, settled, commands, state.context, systemHost.now());
  const doubted = new Set(settled.doubts.map(({ callId }) => callId));
  showLate(
    state,
    output,
    late.filter(({ callId, contradicts }) => doubted.has(callId) || contradicts !== undefined),
  );
  showStatus(output, 'waiting', settled);
}

function showLate({ context }: ChartState, output: Output, late: readonly LateResult[]): void {
  for (const { callId, isError, output: result, contradicts } of late) {
    const made = context.transcript.find(item => item.type === 'tool_call' && item.callId === callId);
    const name = made?.type === 'tool_call' ? made.name : 'call';
    const outcome = `${name} (${callId}) ${isError ? 'failed with' : 'returned'} ${showValue(result, MAX_LINE)}`;
    output.line({ style: 'yellow', text: 'late result: ' }, outcome);
    if (contradicts === undefined) continue;
    output.line(
      { style: 'red', text: 'CONTRADICTION: ' },
      `the result of ${name} (${callId}) arrived late, but ${contradicts}`,
    );
  }
}
