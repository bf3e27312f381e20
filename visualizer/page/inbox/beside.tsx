import { canonicalJson } from '../../../protocol/json.ts';
import { formatCost } from '../../../protocol/listing/cost.ts';
import { textOf } from '../../../protocol/message.ts';
import {
  type JsonOpenItem,
  type RunView,
  requestServer,
  runPath,
  type StreamedEvent,
} from '../data/request.ts';
import { useRead } from '../data/server-watch.ts';
import type { EntriesPage } from '../data/source.ts';
import { describeShownCall } from '../render/describe-call.ts';
import {
  formatCount,
  formatDuration,
  formatLine,
  formatMoment,
  formatNumber,
  formatOutput,
  joinFacts,
} from '../render/format.ts';
import { Safe } from '../ui/text.tsx';

/** How many of the run's last entries are read, how many messages are shown, and the longest of one in characters. */
const MOST_READ = 500;
const MOST_SHOWN = 4;
const LONGEST = 300;

/** What a run did before a call waited: who asked, what it has spent, its last messages, equal calls and decisions. */
export function Beside({ call }: { call: JsonOpenItem }) {
  const { runId } = call;
  const { answer } = useRead(() => readRun(runId), [runId, call.digest]);
  if (answer === null) return null;
  const { view, events } = answer;
  const { messages, equal, decisions } = lookBefore(events, call);
  const first = events[0];
  const facts = joinFacts(
    first?.type === 'run.started' && first.by !== undefined && `asked by ${first.by}`,
    formatCount(view.turns, 'turn'),
    `${formatNumber(view.tokens)} tokens`,
    view.cost > 0 && formatCost(view.cost),
    `${formatDuration(view.activeMs)} at work`,
  );
  return (
    <section class="beside" aria-label="What came before">
      <h3>Before it</h3>
      <Safe in="p" class="muted" text={facts} />
      <Told told={messages.slice(-MOST_SHOWN)} runId={runId} />
      {equal.length > 0 && <h3>Equal calls done before</h3>}
      <Told told={equal} runId={runId} />
      {decisions.length > 0 && <h3>Earlier decisions on this tool</h3>}
      <Told told={decisions} runId={runId} />
    </section>
  );
}

async function readRun(runId: string): Promise<{ view: RunView; events: StreamedEvent[] }> {
  const path = runPath(runId);
  const [view, start, tail] = await Promise.all([
    requestServer<RunView>(path),
    requestServer<EntriesPage>(`${path}/entries?after=0&limit=1`),
    requestServer<EntriesPage>(`${path}/entries?before=&limit=${MOST_READ}`),
  ]);
  const first = start.entries.filter(({ seq }) => seq < (tail.entries[0]?.seq ?? 0));
  return { view, events: [...first, ...tail.entries] };
}

/** What an entry says, in a line. */
type Telling = { seq: number; at: number; text: string };

function lookBefore(events: readonly StreamedEvent[], call: JsonOpenItem) {
  const own = 'name' in call ? canonicalJson([call.name, call.input]) : '';
  const calls = new Map<string, { name: string; key: string; text: string }>();
  const messages: Telling[] = [];
  const equal: Telling[] = [];
  const decisions: Telling[] = [];
  let isBefore = true;
  for (const event of events) {
    const tell = (text: string): Telling => ({
      seq: event.seq,
      at: event.at,
      text: formatLine(text, LONGEST),
    });
    if (event.type === 'run.started' || event.type === 'message.received') {
      const items = event.type === 'run.started' ? event.input : event.items;
      const text = items.flatMap(item => (item.type === 'message' ? [textOf(item)] : [])).join(' ');
      if (isBefore && text !== '') messages.push(tell(`${event.by ?? 'user'}: ${text}`));
    } else if (event.type === 'turn.completed') {
      if (isBefore && event.text !== '') messages.push(tell(`agent: ${event.text}`));
      for (const { callId, name, input } of event.calls)
        calls.set(callId, { name, key: canonicalJson([name, input]), text: describeShownCall(name, input) });
      if (event.calls.some(({ callId }) => callId === call.callId)) isBefore = false;
    } else if (event.type === 'tool.settled') {
      const { key = '', text = '', name = '' } = calls.get(event.callId) ?? {};
      if (isBefore && name !== '') messages.push(tell(`${name}: ${formatOutput(event.output)}`));
      if (key === own && event.callId !== call.callId)
        equal.push(tell(`another ${text}${event.isError ? ', which failed' : ''}`));
    } else if (event.type === 'approval.decided') {
      const { name = '', text = '' } = calls.get(event.callId) ?? {};
      const { type } = event.decision;
      if ('name' in call && name === call.name)
        decisions.push(tell(`${event.by ?? 'somebody'} ${DECIDED[type]} ${text}`));
    }
  }
  return { messages, equal, decisions };
}

const DECIDED = { approve: 'approved', reject: 'rejected', answer: 'answered' } as const;

function Told({ told, runId }: { told: readonly Telling[]; runId: string }) {
  if (told.length === 0) return null;
  return (
    <ol>
      {told.map(({ seq, at, text }) => (
        <li key={seq}>
          <a href={`${runPath(runId)}?at=${seq}`}>{formatMoment(at)}</a> <Safe text={text} />
        </li>
      ))}
    </ol>
  );
}
