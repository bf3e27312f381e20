import { systemHost } from '../../engine/host/host.ts';
import { isOwnerDead } from '../../engine/host/owner.ts';
import { findContradiction } from '../../engine/journal/evidence.ts';
import { loadRun, loadRunAt } from '../../engine/journal/load-run.ts';
import { damagedJournal, readPage, readPages } from '../../engine/journal/read-journal.ts';
import { describeUnsettled, listUnsettled, type Settled } from '../../engine/log/settled.ts';
import { openResult } from '../../engine/run/read-result.ts';
import { describeWithChildren } from '../../engine/sub-agents/children.ts';
import type { VersionReport } from '../../engine/versions/compare-versions.ts';
import { findCall } from '../../machines/calls.ts';
import { statusOf } from '../../machines/status.ts';
import { type ChartState, statePath } from '../../machines/step.ts';
import type { Prices } from '../../protocol/config.ts';
import { describeBytes } from '../../protocol/content/read-content.ts';
import { invalidInput } from '../../protocol/error.ts';
import { callsOf, type JournalEntry, type RunEvent } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { type BreakCost, BreakCosts } from '../../protocol/listing/cost.ts';
import { formatNumber } from '../../protocol/listing/format-number.ts';
import { isOutcome, textOf } from '../../protocol/message.ts';
import { NOTES_ID } from '../../protocol/notes.ts';
import type { Broken } from '../../protocol/sent.ts';
import { isDriven, type RunRecord, type Store } from '../../protocol/store.ts';
import type { Usage } from '../../protocol/turn.ts';
import type { Action } from '../command-table.ts';
import { EXIT } from '../exit-codes.ts';
import { type CommandLaunch, checkVersions, recallLaunch } from '../launch.ts';
import type { CommandLines } from '../render/command-lines.ts';
import {
  describeBreak,
  eventLine,
  formatClock,
  formatDistance,
  formatPath,
  nameModels,
  shortenCell,
  showValue,
} from '../render/format.ts';
import { bold, dim, type Output, red, yellow } from '../render/output.ts';
import { showEnd, showStatus, showWaiting } from '../render/show-open.ts';
import { orderEvent } from '../render/terminal-view.ts';
import { withRun } from '../store.ts';

/** Needs no agent; with `agent`, also compares versions. */
export const show: Action<'show'> = ({ events, result, at, agent, ...options }) =>
  withRun(options, async ({ store, record, output, commands }) => {
    if (at !== undefined) return await showEntry(store, record, at, output, commands);
    if (result !== undefined) return await showResult(store, record, result, output);
    if (events === true) return await showEvents(store, record, output);
    const versions = await checkVersions(store, record, agent, output);
    if (!versions.opens) return showUnread(output, record, versions);
    const { state } = await loadRun(store, record.runId);
    const launch = await recallLaunch(store, record.runId);
    const settled = await describeWithChildren(store, state, text => text);
    const { late, breaks, compactions } = await readTold(store, record);
    if (output.json) {
      const { usage, turns, next, parent } = state.context;
      const facts = { ...omitUndefined({ parent: parent ?? undefined }), ...(settled ?? { usage, turns }) };
      const shown = { ...record, state: statePath(state), next, launch, ...facts, status: statusOf(state) };
      output.data({
        ...shown,
        calls: listUnsettled(state.context),
        breaks,
        compactions: compactions.map(describeCompacted),
        versions,
      });
      return EXIT.done;
    }
    const shown = { record, state, settled, launch, commands, late, breaks, compactions };
    showFacts(output, shown);
    showConversation(output, shown);
    showCompactions(output, shown);
    showBreaks(output, shown);
    showSituation(output, shown);
    showVersions(output, versions);
    const [label] = Object.entries(record.labels);
    if (record.runId.startsWith(NOTES_ID) && label !== undefined)
      output.line(dim(`It keeps notes. To read them: ${commands.of('notes', '--label', label.join('='))}`));
    return EXIT.done;
  });

/** The attempt of late results that do not name one. */
const LAST_ATTEMPT = Number.POSITIVE_INFINITY;

/**
 * Reads the late results, each with the outcome that it contradicts, even one recorded later; and the breaks of the
 * prefix, one for each turn; and the compactions.
 */
async function readTold(
  store: Store,
  { runId }: RunRecord,
): Promise<Pick<ShownRun, 'late' | 'breaks' | 'compactions'>> {
  const entries: JournalEntry[] = [];
  const breaks = new Map<number, TurnBreak>();
  const costs = new BreakCosts();
  const compactions: Compaction[] = [];
  let before: Usage | null = null;
  let [turn, prices]: [number, Prices | undefined] = [1, undefined];
  for await (const page of readPages(store, runId)) {
    entries.push(...page.filter(({ event }) => 'callId' in event));
    for (const { event, seq } of page) {
      costs.follow(event);
      if (event.type === 'run.started') prices = event.config.prices;
      if (event.type === 'transcript.compacted') compactions.push({ seq, event, before });
      if (event.type !== 'turn.completed' && event.type !== 'turn.failed') continue;
      const unknown = { readAgain: null, cost: null };
      const cost = event.type === 'turn.completed' ? costs.take(event, prices) : unknown;
      if (event.broken === undefined) breaks.delete(turn);
      else breaks.set(turn, { turn, seq, ...event.broken, ...(cost ?? unknown) });
      if (event.type === 'turn.failed') continue;
      const last = compactions.at(-1);
      if (last !== undefined && !('after' in last)) last.after = event.usage;
      before = event.usage;
      turn += 1;
    }
  }
  const late = entries.flatMap(({ event }) => (event.type === 'tool.late' ? [event] : []));
  const contradicting = late.map(event => {
    const contradicts = findContradiction(entries, { attempt: LAST_ATTEMPT, ...event });
    return contradicts === null ? event : { ...event, contradicts };
  });
  return { late: contradicting, breaks: [...breaks.values()], compactions };
}

async function showResult(
  store: Store,
  { runId }: RunRecord,
  callId: string,
  output: Output,
): Promise<number> {
  const { pages } = await openResult(store, runId, callId);
  for await (const part of pages()) await output.raw(part);
  await output.raw('\n');
  return EXIT.done;
}

async function showEvents(store: Store, { runId }: RunRecord, output: Output): Promise<number> {
  for await (const page of readPages(store, runId))
    for (const { seq, event } of page) {
      const place = `${String(seq).padStart(5)}  ${formatClock(event.at)}  `;
      const ordered = orderEvent({ ...event, runId, seq });
      output.tell(ordered, dim(place), event.type.padEnd(20), eventLine(event));
    }
  return EXIT.done;
}

/** The entry, the calls that it makes or is about, and the run after it. */
async function showEntry(
  store: Store,
  { runId, seq: last }: RunRecord,
  at: number,
  output: Output,
  commands: CommandLines,
): Promise<number> {
  if (at < 1 || at > last)
    throw invalidInput(`--at must be an entry of the run, from 1 to ${last}, got ${at}.`);
  const { state } = await loadRunAt(store, runId, at);
  const [entry] = await readPage(store, runId, at - 1, { entries: 1 });
  if (entry === undefined) throw damagedJournal(runId, at, 'is missing');
  const { event } = entry;
  const about = 'callId' in event ? findCall(state.context, event.callId) : undefined;
  const calls = about === undefined ? callsOf(event) : [about];
  const path = statePath(state);
  if (output.json) {
    output.data({ runId, seq: at, state: path, next: state.context.next, event, calls });
    return EXIT.done;
  }
  output.line(bold(runId), ` at entry ${at} of ${last}`);
  const fact = output.facts(10);
  fact('time', formatClock(event.at));
  fact('entry', `${event.type} ${eventLine(event)}`);
  for (const call of calls) {
    output.line(dim('call      '), `${call.name} (${call.callId}) ${showValue(call.input, MAX_LINE)}`);
    for (const { rule, verdict, shadow } of call.verdicts ?? [])
      output.line(
        ' '.repeat(10),
        yellow(verdict),
        `${shadow === true ? ' (shadow)' : ''} by the rule "${rule}"`,
      );
    if (call.gate)
      output.line(' '.repeat(10), 'needs an approval', call.reason === undefined ? '' : `: ${call.reason}`);
    if (call.error !== undefined) output.line(' '.repeat(10), shortenCell(call.error, MAX_LINE));
  }
  fact('state', [path, state.context.next?.why].filter(Boolean).join(' — '));
  showTranscript(output, state.context.transcript, callId => commands.result(runId, callId));
  return EXIT.done;
}

type ShownRun = {
  record: RunRecord;
  state: ChartState;
  /** Includes what its sub-agents wait for; `null` while the run is running. */
  settled: Settled | null;
  launch: CommandLaunch;
  commands: CommandLines;
  late: readonly LateResult[];
  breaks: readonly TurnBreak[];
  compactions: readonly Compaction[];
};

/** A break of the prefix: `seq` is the last entry of its turn. */
type TurnBreak = Broken & BreakCost & { turn: number; seq: number };

/** A result that arrived after the run had stopped waiting for it. */
type LateResult = Extract<RunEvent, { type: 'tool.late' }>;

/** `before` and `after`: the usage of the turns around it. */
type Compaction = {
  seq: number;
  event: Extract<RunEvent, { type: 'transcript.compacted' }>;
  before: Usage | null;
  after?: Usage | null;
};

const SHOWN_ITEMS = 30;
const SHOWN_BREAKS = 10;
const MAX_LINE = 160;

function showFacts(output: Output, { record, state, launch }: ShownRun): void {
  const { agent, config } = state.context;
  const now = systemHost.now();
  const fact = output.facts(10);
  output.line(bold(record.runId));
  const module = launch.module === undefined ? '' : `(${formatPath(launch.module)})`;
  fact('agent', [agent.name, agent.version, module].filter(Boolean).join(' '));
  const model = launch.model?.replace(
    /^scripted:(.+)$/s,
    (_, file: string) => `scripted:${formatPath(file)}`,
  );
  fact('model', model ?? nameModels(config.models));
  if (record.continues !== undefined) fact('continues', record.continues);
  const { parent } = state.context;
  if (parent !== null) fact('parent', `${parent.runId} (call ${parent.callId})`);
  fact('started', `${formatDistance(record.createdAt, now)}, ${record.seq} events`);
  // A cancellation is not a decision of the chart.
  const why = statusOf(state) === 'cancelled' ? 'on request' : state.context.next?.why;
  fact('state', [statePath(state), why].filter(Boolean).join(' — '));
  if (record.status === 'running') fact('driven by', describeDriver(record, now));
}

function describeDriver(record: RunRecord, now: number): string {
  const { owner } = record;
  if (owner === undefined) return 'no process; resume the run';
  const name = `process ${owner.pid} on ${owner.host}`;
  return isDriven(record, now, isOwnerDead) ? name : `no process (${name} is gone); resume the run`;
}

function showConversation(output: Output, { record, state, commands }: ShownRun): void {
  showTranscript(output, state.context.transcript, callId => commands.result(record.runId, callId));
}

/** `openResult`: the command that prints a full result. */
function showTranscript(
  output: Output,
  transcript: readonly Item[],
  openResult: (callId: string) => string,
): void {
  output.line(dim('conversation'));
  const hidden = transcript.length - SHOWN_ITEMS;
  if (hidden > 0) output.line(`  (${hidden} earlier items)`);
  for (const item of transcript.slice(-SHOWN_ITEMS)) {
    output.line('  ', describeItem(item));
    if (item.type !== 'tool_result' || item.blob === undefined) continue;
    output.line(dim(`    ${describeBytes(item.blob.bytes)}; full result: ${openResult(item.callId)}`));
  }
}

function showCompactions(output: Output, { compactions }: ShownRun): void {
  if (compactions.length === 0) return;
  output.line(dim('compactions'));
  for (const { seq, event, before, after } of compactions.slice(-SHOWN_BREAKS)) {
    const sizes = [before?.inputTokens, after?.inputTokens].map(count =>
      count === undefined ? 'unknown' : formatNumber(count),
    );
    output.line(
      yellow(`  entry ${seq}: `),
      eventLine(event),
      dim(` (requests: ${sizes.join(' → ')} tokens)`),
    );
  }
}

function describeCompacted({ seq, event, before, after }: Compaction) {
  const { upTo, kept, summary, ledger, usage } = event;
  const [tokensBefore, tokensAfter] = [before?.inputTokens ?? null, after?.inputTokens ?? null];
  return { seq, upTo, kept, summary, ledger, usage, tokensBefore, tokensAfter };
}

function showBreaks(output: Output, { breaks }: ShownRun): void {
  if (breaks.length === 0) return;
  output.line(dim('breaks of the prefix'));
  const hidden = breaks.length - SHOWN_BREAKS;
  if (hidden > 0) output.line(`  (${hidden} earlier breaks)`);
  for (const { turn, ...cost } of breaks.slice(-SHOWN_BREAKS))
    output.line(yellow(`  turn ${turn}: `), describeBreak(cost, cost));
}

function describeItem(item: Item): string {
  switch (item.type) {
    case 'message': {
      const others = item.content.filter(part => part.type !== 'text').map(part => `[${part.type}]`);
      return `${isOutcome(item) ? 'outcome' : item.role}: ${[shortenCell(textOf(item), MAX_LINE), ...others].join(' ')}`;
    }
    case 'reasoning':
      return `reasoning: ${shortenCell(item.text, MAX_LINE)}`;
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

function showSituation(output: Output, shown: ShownRun): void {
  const { record, state, settled, launch, commands, late } = shown;
  const { runId } = record;
  if (settled === null) {
    const { usage, turns } = state.context;
    for (const call of listUnsettled(state.context)) output.line('  ', describeUnsettled(call));
    return showStatus(output, 'running', { usage, turns });
  }
  if (settled.status !== 'waiting') {
    showEnd(output, settled, { runId, commands, isTextShown: false });
    return showLate(
      late.filter(({ contradicts }) => contradicts !== undefined),
      state,
      output,
    );
  }
  showWaiting(output, settled, commands, state.context, systemHost.now());
  const isOfProgram = launch.module === undefined && launch.request === undefined;
  if (isOfProgram && record.agent !== 'assistant')
    output.line(dim('A program started this run: add --agent MODULE, with its agent, to the command.'));
  const doubted = new Set(settled.doubts.map(({ callId }) => callId));
  const telling = late.filter(({ callId, contradicts }) => doubted.has(callId) || contradicts !== undefined);
  showLate(telling, state, output);
  showStatus(output, 'waiting', settled);
}

function showLate(late: readonly LateResult[], { context }: ChartState, output: Output): void {
  for (const { callId, isError, output: result, contradicts } of late) {
    const made = context.transcript.find(item => item.type === 'tool_call' && item.callId === callId);
    const name = made?.type === 'tool_call' ? made.name : 'call';
    const outcome = `${name} (${callId}) ${isError ? 'failed with' : 'returned'} ${showValue(result, MAX_LINE)}`;
    output.line(yellow('late result: '), outcome);
    if (contradicts === undefined) continue;
    output.line(red('CONTRADICTION: '), `the result of ${name} (${callId}) arrived late, but ${contradicts}`);
  }
}

function showVersions(output: Output, report: VersionReport): void {
  const { verdict, differences, reason, advice, migratedTo } = report;
  if (verdict === 'same' && migratedTo === undefined) return;
  const style = verdict === 'same' || verdict === 'compatible' ? 'cyan' : 'yellow';
  const why = reason === undefined ? '' : `: ${reason}`;
  output.line(dim('versions  '), { style, text: verdict }, why);
  for (const { what, name, was, is, effect } of differences) {
    const change = is === null ? 'removed' : `${was} → ${is}`;
    const named = [what, name].filter(Boolean).join(' ');
    output.line(`  ${named} ${was === null ? 'new' : change}: ${effect}`);
  }
  if (advice !== undefined) output.line('  ', advice);
}

function showUnread(output: Output, record: RunRecord, report: VersionReport): number {
  if (output.json) {
    output.data({ ...record, versions: report });
    return EXIT.failed;
  }
  const fact = output.facts(10);
  output.line(bold(record.runId));
  fact('agent', record.agent);
  fact('started', `${formatDistance(record.createdAt, systemHost.now())}, ${record.seq} events`);
  fact('status', `${record.status} (according to the release that wrote it)`);
  showVersions(output, report);
  return EXIT.failed;
}
