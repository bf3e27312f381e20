import type { Act } from '../commands/act.ts';
import { makeNameField } from '../commands/acting-as.ts';
import { makeButtons } from '../commands/steer-run.ts';
import { fill, h } from '../render/element.ts';
import { formatClock, formatDay, formatNumber } from '../render/format.ts';
import { showSafely } from '../render/show-safely.ts';
import { statusNotices } from '../render/status-notices.ts';
import type { Connection, RunModel } from '../run-model.ts';
import type { OpenCall, RunView } from '../runs-api.ts';
import type { Pane } from './conversation-pane.ts';

/** The header of a run: its agent, state, facts, notices and control buttons. */
export function makeRunHeader(runId: string, act: Act): Pane<RunModel> {
  const name = h('h1', {}, h('span', { class: 'mono' }, runId));
  const where = h('p', { class: 'where' });
  const facts = h('dl', { class: 'facts' });
  const notices = h('div', { class: 'notices' });
  const problem = h('p', { class: 'problem', role: 'alert' });
  const buttons = makeButtons(act, problem);
  const connection = h('p', { class: 'connection', role: 'status' });
  const spoken = h('p', { class: 'spoken', 'aria-live': 'polite' });
  const element = h(
    'header',
    { class: 'run-header' },
    h(
      'nav',
      { 'aria-label': 'Breadcrumb' },
      h('a', { href: '/' }, 'Runs'),
      h('span', { 'aria-hidden': 'true' }, '/'),
      name,
      connection,
      makeNameField(),
    ),
    h('div', { class: 'lead' }, where, buttons.element),
    facts,
    notices,
    problem,
    spoken,
  );
  return {
    element,
    update({ view, fold, path, connection: way }) {
      connection.dataset.is = way.type;
      connection.textContent = describeConnection(way);
      if (view === null) return;
      const why = fold.context?.next?.why ?? view.next?.why ?? '';
      const step = `${view.status}: ${path}`;
      if (spoken.textContent !== step) spoken.textContent = step;
      document.title = `${view.status === 'waiting' ? '● ' : ''}${path} · ${showSafely(view.agent)} · Agentchart`;
      fill(name, [view.agent], () => drawName(view));
      fill(where, [view.status, path, why], () => drawWhere(view, path, why));
      fill(facts, listFacts(view).flat(), () =>
        listFacts(view).map(([name, value]) => drawFact(name, value)),
      );
      fill(notices, [statusNotices(view)], () => drawNotices(view));
      buttons.update(view);
    },
  };
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
      return 'Run ended';
  }
}

function drawName({ agent, runId }: RunView): (HTMLElement | string)[] {
  return [h('bdi', {}, showSafely(agent)), ' ', h('span', { class: 'id mono' }, runId)];
}

function drawWhere({ status }: RunView, path: string, why: string): HTMLElement[] {
  return [
    h('span', { class: `status is-${status}` }, status),
    h('span', { class: 'mono path' }, path),
    h('bdi', { class: 'why' }, showSafely(why)),
  ];
}

function listFacts(view: RunView): [string, string][] {
  const { usage, limits, cost, driver, continues, parent } = view;
  return [
    ['turns', withLimit(view.turns, limits.turns)],
    ['calls', withLimit(view.toolCalls, limits.toolCalls)],
    ['tokens', describeTokens(usage)],
    ...(cost > 0 ? [['cost', cost.toFixed(4)] satisfies [string, string]] : []),
    ['started', formatDay(view.createdAt)],
    ['driven by', driver === null ? 'no process' : `process ${driver.pid} on ${showSafely(driver.host)}`],
    ...(continues === undefined ? [] : [['continues', continues] satisfies [string, string]]),
    ...(parent === undefined ? [] : [['sub-agent of', parent.runId] satisfies [string, string]]),
  ];
}

function describeTokens(usage: RunView['usage']): string {
  if (usage === null) return 'unknown';
  return `${formatNumber(usage.inputTokens)} in, ${formatNumber(usage.outputTokens)} out`;
}

function withLimit(spent: number, limit: number | undefined): string {
  return limit === undefined ? formatNumber(spent) : `${formatNumber(spent)} of ${formatNumber(limit)}`;
}

function drawFact(name: string, value: string): HTMLElement {
  const isRun = name === 'continues' || name === 'sub-agent of';
  const shown = isRun ? h('a', { href: `/runs/${encodeURIComponent(value)}` }, value) : value;
  return h('div', {}, h('dt', {}, name), h('dd', {}, shown));
}

function drawNotices(view: RunView): HTMLElement[] {
  const first = view.calls.find(
    ({ status }) => status === 'gated' || status === 'doubted' || status === 'waiting',
  );
  return statusNotices(view).map(({ tone, title, text, run }) =>
    h(
      'div',
      { class: `notice ${tone}` },
      h('strong', {}, showSafely(title)),
      text === '' ? null : h('bdi', {}, ` ${showSafely(text)}`),
      drawLink(run, tone === 'waits' ? first : undefined),
    ),
  );
}

function drawLink(run: string | undefined, call: OpenCall | undefined): HTMLElement | null {
  if (run !== undefined) return h('a', { href: `/runs/${encodeURIComponent(run)}` }, 'Open its run');
  if (call === undefined) return null;
  return h('a', { href: `#call-${encodeURIComponent(call.callId)}` }, 'Show the call');
}
