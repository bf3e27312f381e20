import { formatCost } from '../../../protocol/listing/cost.ts';
import { formatDuration } from '../../../protocol/listing/format-duration.ts';
import { formatNumber } from '../../../protocol/listing/format-number.ts';
import { describeCached } from '../../describe-event.ts';
import { mayOperate } from '../data/caller.ts';
import {
  comparePath,
  type RunSummary,
  type RunView,
  requestServer,
  runPath,
  threadOf,
} from '../data/request.ts';
import { useRead } from '../data/server-watch.ts';
import type { RunConnection } from '../model/run-model.ts';
import { statusNotices } from '../model/status-notices.ts';
import {
  formatCount,
  formatDay,
  formatTimeOfDay,
  formatUsage,
  joinFacts,
  showSafe,
} from '../render/format.ts';
import { Button, StatusBadge } from '../ui/button.tsx';
import { Safe } from '../ui/text.tsx';
import { ActionButton } from '../ui/two-presses.tsx';
import { useDesk } from './desk.ts';
import { heldAt } from './steering/breakpoints.ts';

export function RunHeader() {
  const { model, source, timeLine } = useDesk();
  const view = model.view.value;
  const { path, connection } = model;
  return (
    <header class="run-header">
      <div class="title-line">
        {source.live && (
          <a class="up" href="/runs" aria-label="All runs">
            Runs /
          </a>
        )}
        <h1 tabIndex={-1}>
          <Safe text={view?.title || model.runId} class={view === null ? 'mono' : ''} />
        </h1>
        {view && <StatusBadge status={shownStatus(view)} />}
        <span
          class="now"
          aria-hidden="true"
        >{`${formatNumber(model.at.value)} / ${formatNumber(model.last.value)}`}</span>
      </div>
      <div class="fact-line">
        {view && <Safe text={speakersIn(view)} class="agent" />}
        <p class="facts">{view && describeSpent(view, timeLine.value.restMs)}</p>
        <span class="space" />
        {source.live && mayOperate() && <Buttons />}
        <p class="connection" role="status" data-is={connection.value.type}>
          {source.live ? describeConnection(connection.value) : 'Recording, read-only'}
        </p>
      </div>
      {view && <Lineage view={view} />}
      <div class="notices">{view && <Notices view={view} />}</div>
      <p class="spoken" aria-live="polite">
        {view && `${view.status}: ${path.value}`}
      </p>
    </header>
  );
}

function shownStatus({ status, open }: RunView): string {
  return open.some(({ kind }) => kind === 'doubt') ? 'in doubt' : status;
}

/** The agent of the run, and the one that has the conversation, if it was handed over. */
function speakersIn({ agent, settled }: RunView): string {
  const speaker = settled?.status === 'finished' ? settled.agent : agent;
  return speaker === agent ? agent : `${agent} → ${speaker}`;
}

function describeConnection(connection: RunConnection): string {
  if (connection.type === 'away') return `No response since ${formatTimeOfDay(connection.since)}; retrying`;
  return { connecting: 'Connecting…', live: 'Live', ended: 'Ended' }[connection.type];
}

function describeSpent(view: RunView, restMs: number): string {
  const { usage, cost, turns, toolCalls, limits, activeMs } = view;
  const near = (spent: number, limit: number | undefined): string =>
    limit !== undefined && spent * 2 >= limit ? ` of ${formatNumber(limit)}` : '';
  return joinFacts(
    `${formatCount(turns, 'turn')}${near(turns, limits.turns)}`,
    `${formatCount(toolCalls, 'call')}${near(toolCalls, limits.toolCalls)}`,
    usage && formatUsage(usage, 'tokens'),
    usage && describeCached(usage),
    cost > 0 && formatCost(cost),
    `${formatDuration(activeMs)} at work`,
    restMs > 1_000 && `${formatDuration(restMs)} at rest`,
  );
}

function Lineage({ view }: { view: RunView }) {
  const { source } = useDesk();
  const { continues, parent, forkOf, driver, createdAt, runId } = view;
  const link = (id: string, at?: number) =>
    source.live ? (
      <a href={`${runPath(id)}${at === undefined ? '' : `?at=${at}`}`}>{showSafe(id)}</a>
    ) : (
      <span class="mono id">{showSafe(id)}</span>
    );
  return (
    <p class="lineage">
      <span class="mono id">{showSafe(runId)}</span>
      <span>started {formatDay(createdAt)}</span>
      {forkOf && (
        <span>
          forked from {link(forkOf.runId, forkOf.at)} at entry {forkOf.at}
          {source.live && (
            <>
              {' ('}
              <a href={comparePath(forkOf.runId, runId)}>compare</a>)
            </>
          )}
        </span>
      )}
      {continues !== undefined && <span>continues {link(continues)}</span>}
      {view.thread !== undefined && source.live && <Thread view={view} />}
      {parent && <span>started by {link(parent.runId)}</span>}
      {driver && <span>{`driven by process ${driver.pid} on ${showSafe(driver.host)}`}</span>}
      {source.live && <Downloads runId={runId} />}
    </p>
  );
}

/** The thread that a run belongs to, and the run after it. */
function Thread({ view }: { view: RunView }) {
  const { thread = '', place = 0, status } = view;
  const path = threadOf(view);
  const { answer } = useRead(() => requestServer<{ runs: RunSummary[] }>(path), [path, status]);
  const next = place > 0 ? answer?.runs.find(run => (run.place ?? 0) > place) : undefined;
  return (
    <span>
      {place > 0 && `run ${place} of `}thread <a href={path}>{showSafe(thread)}</a>
      {next && (
        <>
          , <a href={runPath(next.runId)}>next run</a>
        </>
      )}
    </span>
  );
}

function Downloads({ runId }: { runId: string }) {
  const { model } = useDesk();
  const path = runPath(runId);
  const savePicture = async (kind: 'svg' | 'png') =>
    (await import('../app/more-parts.ts')).savePicture(runId, model.at.peek(), kind);
  return (
    <>
      {FILES.map(([from, ending, label, title]) => (
        <a key={from} href={`${path}/${from}`} download={`${runId}${ending}`} title={title}>
          {label}
        </a>
      ))}
      {PICTURES.map(([kind, label, title]) => (
        <Button key={kind} label={label} class="quiet link" title={title} onClick={() => savePicture(kind)} />
      ))}
    </>
  );
}

const FILES = [
  ['share', '.html', 'Share', 'One HTML file that plays the run offline, without its contents'],
  ['export?as=test', '.test.ts', 'Export as test', 'A vitest file that replays the run'],
] as const;
const PICTURES = [
  ['svg', 'Picture', 'An SVG of the strip, the chart and its reason at the cursor'],
  ['png', 'PNG', 'The same picture as a PNG'],
] as const;

const MOST_LINKS = 4;

function Notices({ view }: { view: RunView }) {
  const { source } = useDesk();
  const mayContinue = source.live && mayOperate();
  return (
    <>
      {statusNotices(view, mayContinue).map(({ tone, title, text, runs = [] }) => (
        <div key={`${title} ${text}`} class={`notice ${tone}`}>
          <strong>{showSafe(title)}</strong>
          {text !== '' && <Safe text={` ${text}`} />}
          {source.live &&
            runs.slice(0, MOST_LINKS).map((run, place) => (
              <a key={run} href={runPath(run)}>
                {runs.length === 1 ? 'Open its run' : `Open run ${place + 1}`}
              </a>
            ))}
          {runs.length > MOST_LINKS ? ` and ${runs.length - MOST_LINKS} more in the tree` : ''}
        </div>
      ))}
    </>
  );
}

function Buttons() {
  const desk = useDesk();
  const view = desk.model.view.value;
  if (view === null) return null;
  const { status, paused, driver, availableAgent, settled } = view;
  const active = status === 'running' || status === 'waiting';
  const held = heldAt(desk) !== null;
  const asks =
    settled?.status === 'waiting' && view.calls.some(({ status: at }) => at !== 'ready' && at !== 'queued');
  const way = (label: string, command: string) => (
    <ActionButton label={label} act={() => desk.act(command)} />
  );
  return (
    <div class="buttons">
      {status === 'running' && driver === null && availableAgent && way('Resume', 'resume')}
      {active && !paused && way('Pause', 'pause')}
      {active && paused && !held && way('Continue', 'unpause')}
      {active && paused && !held && !asks && way('Step', 'step')}
      {active && (
        <ActionButton
          label="Cancel run"
          class="danger"
          confirm={() => 'Really cancel?'}
          act={() => desk.act('cancel')}
        />
      )}
    </div>
  );
}
