import { makeNewRun } from './commands/new-run.ts';
import { h, keyedList, type View } from './render/element.ts';
import { formatAgo, formatCount, formatDay } from './render/format.ts';
import { showSafely } from './render/show-safely.ts';
import { type RunSummary, request } from './runs-api.ts';

const POLL_MS = 2_000;
const MOST = 200;
const STATUSES = ['all', 'running', 'waiting', 'finished', 'failed', 'cancelled'] as const;

/** Shows the list of runs, waiting runs first; refreshes every two seconds while the page is visible. */
export function showRunsPage(page: Element): void {
  let filter = new URLSearchParams(location.search).get('status') ?? 'all';
  const waiting = h('ul', { class: 'runs' });
  const others = h('ul', { class: 'runs' });
  const waitingPart = h('section', {}, h('h2', {}, 'Waiting for a person'), waiting);
  const othersTitle = h('h2', {}, 'Runs');
  const empty = h('p', { class: 'muted' });
  const state = h('p', { class: 'connection', role: 'status' });
  const [showWaiting, showOthers] = [waiting, others].map(list =>
    keyedList<RunSummary>(list, run => run.runId, makeRow),
  );
  const filters = STATUSES.map(status =>
    h(
      'button',
      { type: 'button', 'aria-pressed': String(status === filter), onclick: () => choose(status) },
      status,
    ),
  );

  const choose = (status: string): void => {
    filter = status;
    for (const button of filters) button.setAttribute('aria-pressed', String(button.textContent === status));
    history.replaceState(null, '', status === 'all' ? '/' : `/?status=${status}`);
    void look();
  };
  const look = async (): Promise<void> => {
    const asked = filter;
    try {
      const [open, all] = await Promise.all([listRuns('waiting'), listRuns(asked)]);
      if (asked !== filter) return;
      state.dataset.is = 'live';
      state.textContent = 'Live';
      const rest = all.filter(({ status }) => status !== 'waiting');
      const wanted = asked === 'all' || asked === 'waiting' ? open : [];
      showWaiting?.(wanted);
      showOthers?.(rest);
      waitingPart.hidden = wanted.length === 0;
      othersTitle.hidden = rest.length === 0;
      empty.textContent = wanted.length + rest.length > 0 ? '' : describeEmpty(asked);
      document.title = open.length === 0 ? 'Runs · Agentchart' : `(${open.length}) Runs · Agentchart`;
    } catch (error) {
      state.dataset.is = 'away';
      state.textContent = error instanceof Error ? error.message : String(error);
    }
  };

  page.replaceChildren(
    h('header', { class: 'list-header' }, h('h1', {}, 'Agentchart'), state),
    h(
      'main',
      { class: 'list' },
      h(
        'div',
        {},
        h('div', { class: 'filters', role: 'group', 'aria-label': 'Status' }, ...filters),
        waitingPart,
        h('section', {}, othersTitle, others),
        empty,
      ),
      makeNewRun(),
    ),
  );
  waitingPart.hidden = othersTitle.hidden = true;
  void look();
  setInterval(() => {
    if (!document.hidden) void look();
  }, POLL_MS);
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) void look();
  });
}

async function listRuns(status: string): Promise<RunSummary[]> {
  const wanted = status === 'all' ? '' : `status=${encodeURIComponent(status)}&`;
  const { runs } = await request<{ runs: RunSummary[] }>(`/runs?${wanted}limit=${MOST}`);
  return runs;
}

function describeEmpty(filter: string): string {
  if (filter === 'all') return 'No runs yet. Start one here, or with: agentchart run';
  return `No ${filter} runs.`;
}

function makeRow(run: RunSummary): View<RunSummary> {
  const status = h('span');
  const when = h('time', { title: formatDay(run.createdAt) });
  const about = h('span', { class: 'muted' });
  const title = h('bdi', { class: 'title', dir: 'auto' });
  const link = h(
    'a',
    { href: `/runs/${encodeURIComponent(run.runId)}` },
    status,
    h('bdi', { class: 'agent' }, showSafely(run.agent)),
    title,
    h('span', { class: 'mono id' }, run.runId),
    about,
    when,
  );
  return {
    element: h('li', { class: 'row' }, link),
    update(now) {
      status.className = `status is-${now.status}`;
      status.textContent = now.status;
      title.textContent = showSafely(now.title);
      about.textContent = formatCount(now.seq, 'event');
      when.textContent = formatAgo(now.updatedAt, Date.now());
    },
  };
}
