import { mayOperate } from '../data/caller.ts';
import { type RunView, runPath } from '../data/request.ts';
import type { Connection } from '../model/run-model.ts';
import { statusNotices } from '../model/status-notices.ts';
import {
  formatClock,
  formatCost,
  formatCount,
  formatDay,
  formatNumber,
  formatSpan,
} from '../render/format.ts';
import { showSafely } from '../render/show-safely.ts';
import { StatusBadge } from '../ui/icon.tsx';
import { Safe } from '../ui/text.tsx';
import { ActionButton } from '../ui/two-presses.tsx';
import { useDesk } from './desk.ts';
import { heldAt } from './steering/breakpoints.ts';

/** The header of a run: title, status, usage, notices and actions. */
export function RunHeader() {
  const { model, source, timeLine } = useDesk();
  const view = model.view.value;
  const { path, connection } = model;
  return (
    <header class="run-header">
      <div class="title-line">
        {source.live ? (
          <a class="up" href="/" aria-label="All runs">
            Runs /
          </a>
        ) : null}
        <h1 tabIndex={-1}>
          {view === null ? (
            <span class="mono">{model.runId}</span>
          ) : (
            <Safe text={view.title || model.runId} />
          )}
        </h1>
        {view === null ? null : <Safe text={view.agent} class="agent" />}
        {view === null ? null : <StatusBadge status={view.status} />}
        <p class="facts">{view === null ? '' : describeSpent(view, timeLine.restMs)}</p>
        <span class="space" />
        {source.live && mayOperate() ? <Buttons /> : null}
        <p class="connection" role="status" data-is={connection.value.type}>
          {source.live ? describeConnection(connection.value) : 'Recording, read-only'}
        </p>
      </div>
      {view === null ? null : <Lineage view={view} />}
      <div class="notices">{view === null ? null : <Notices view={view} />}</div>
      <p class="spoken" aria-live="polite">
        {view === null ? '' : `${view.status}: ${path.value}`}
      </p>
    </header>
  );
}

function describeConnection(connection: Connection): string {
  switch (connection.type) {
    case 'connecting':
      return 'Connecting…';
    case 'live':
      return 'Live';
    case 'away':
      return `No response since ${formatClock(connection.since)}; retrying`;
    case 'ended':
      return 'Ended';
  }
}

function describeSpent(view: RunView, restMs: number): string {
  const { usage, cost, turns, toolCalls, limits, activeMs } = view;
  const near = (spent: number, limit: number | undefined): string =>
    limit !== undefined && spent * 2 >= limit ? ` of ${formatNumber(limit)}` : '';
  return [
    `${formatCount(turns, 'turn')}${near(turns, limits.turns)}`,
    `${formatCount(toolCalls, 'call')}${near(toolCalls, limits.toolCalls)}`,
    ...(usage === null
      ? []
      : [`${formatNumber(usage.inputTokens)} → ${formatNumber(usage.outputTokens)} tokens`]),
    ...(cost > 0 ? [formatCost(cost)] : []),
    `${formatSpan(activeMs)} at work`,
    ...(restMs > 1_000 ? [`${formatSpan(restMs)} at rest`] : []),
  ].join(' · ');
}

/** The origin of the run and its driver. */
function Lineage({ view }: { view: RunView }) {
  const { source } = useDesk();
  const { continues, parent, forkOf, driver, createdAt, runId } = view;
  const link = (id: string, at?: number) =>
    source.live ? (
      <a href={`${runPath(id)}${at === undefined ? '' : `?at=${at}`}`}>{showSafely(id)}</a>
    ) : (
      <span class="mono id">{showSafely(id)}</span>
    );
  return (
    <p class="lineage">
      <span class="mono id">{showSafely(runId)}</span>
      <span>started {formatDay(createdAt)}</span>
      {forkOf === undefined ? null : (
        <span>
          fork of {link(forkOf.runId, forkOf.at)} at entry {forkOf.at}
          {source.live ? (
            <>
              {' '}
              (
              <a href={`/compare/${encodeURIComponent(forkOf.runId)}..${encodeURIComponent(runId)}`}>
                compare
              </a>
              )
            </>
          ) : null}
        </span>
      )}
      {continues === undefined ? null : <span>continues {link(continues)}</span>}
      {parent === undefined ? null : <span>sub-agent of {link(parent.runId)}</span>}
      {driver === null ? null : (
        <span>
          driven by process {driver.pid} on {showSafely(driver.host)}
        </span>
      )}
      {source.live ? <Downloads runId={runId} /> : null}
    </p>
  );
}

/** The run as files: a page that plays it offline, without its contents, and a test that replays it. */
function Downloads({ runId }: { runId: string }) {
  const { model } = useDesk();
  const path = runPath(runId);
  const savePicture = async (kind: 'svg' | 'png') =>
    (await import('./picture.ts')).savePicture(runId, model.at.peek(), kind);
  return (
    <>
      {FILES.map(([from, ending, label, title]) => (
        <a key={from} href={`${path}/${from}`} download={`${runId}${ending}`} title={title}>
          {label}
        </a>
      ))}
      {PICTURES.map(([kind, label, title]) => (
        <button key={kind} type="button" class="quiet link" title={title} onClick={() => savePicture(kind)}>
          {label}
        </button>
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

/** How many runs a notice links to. */
const MOST_LINKS = 4;

function Notices({ view }: { view: RunView }) {
  const { source } = useDesk();
  const mayContinue = source.live && mayOperate();
  return (
    <>
      {statusNotices(view, mayContinue).map(({ tone, title, text, runs = [] }) => (
        <div key={`${title} ${text}`} class={`notice ${tone}`}>
          <strong>{showSafely(title)}</strong>
          {text === '' ? null : <Safe text={` ${text}`} />}
          {source.live
            ? runs.slice(0, MOST_LINKS).map((run, place) => (
                <a key={run} href={runPath(run)}>
                  {runs.length === 1 ? 'Open its run' : `Open run ${place + 1}`}
                </a>
              ))
            : null}
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
  return (
    <div class="buttons">
      {status === 'running' && driver === null && availableAgent ? (
        <ActionButton act={() => desk.act('resume')}>Resume</ActionButton>
      ) : null}
      {active && !paused ? <ActionButton act={() => desk.act('pause')}>Pause</ActionButton> : null}
      {active && paused && !held ? (
        <ActionButton act={() => desk.act('unpause')}>Continue</ActionButton>
      ) : null}
      {active && paused && !held && !asks ? (
        <ActionButton act={() => desk.act('step')}>Step</ActionButton>
      ) : null}
      {active ? (
        <ActionButton class="danger" confirm={() => 'Really cancel?'} act={() => desk.act('cancel')}>
          Cancel run
        </ActionButton>
      ) : null}
    </div>
  );
}
