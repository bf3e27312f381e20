import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { navigate, setQuery } from '../app/router.ts';
import { type RunSummary, request } from '../data/request.ts';
import type { Source } from '../data/source.ts';
import { formatAgo, formatCount, formatDay } from '../render/format.ts';
import { StatusBadge } from '../ui/status-badge.tsx';
import { Safe } from '../ui/text.tsx';
import { NewRun } from './new-run.tsx';

const STATUSES = ['all', 'waiting', 'running', 'finished', 'failed', 'cancelled'] as const;
const PAGE = 100;
const LOOK_MS = 300;

type Listed = { runs: RunSummary[]; next?: string };

/** The list of runs: those that wait first, then the newest. */
export function RunsView({ source, query }: { source: Source; query: URLSearchParams }) {
  const status = query.get('status') ?? 'all';
  const search = query.get('q') ?? '';
  const waiting = useSignal<RunSummary[]>([]);
  const others = useSignal<Listed>({ runs: [] });
  const problem = useSignal('');
  const read = async (cursor?: string): Promise<void> => {
    try {
      const [open, all] = await Promise.all([list('waiting', search), list(status, search, cursor)]);
      waiting.value = status === 'all' || status === 'waiting' ? open.runs : [];
      const rest = all.runs.filter(run => run.status !== 'waiting');
      const shown = cursor === undefined ? rest : [...others.peek().runs, ...rest];
      others.value = all.next === undefined ? { runs: shown } : { runs: shown, next: all.next };
      problem.value = '';
      document.title =
        open.runs.length === 0 ? 'Runs · Agentchart' : `(${open.runs.length}) Runs · Agentchart`;
    } catch (error) {
      problem.value = error instanceof Error ? error.message : String(error);
    }
  };
  useEffect(() => {
    let soon: ReturnType<typeof setTimeout> | undefined;
    void read();
    const end = source.followList(() => {
      soon ??= setTimeout(() => {
        soon = undefined;
        void read();
      }, LOOK_MS);
    });
    return () => {
      clearTimeout(soon);
      end();
    };
  }, [source, status, search]);
  const { runs, next } = others.value;
  const isEmpty = runs.length + waiting.value.length === 0;
  return (
    <main class="list">
      <div>
        <h1>Runs</h1>
        <div class="filters">
          <search>
            <input
              type="search"
              aria-label="Search"
              placeholder="Search titles and ids"
              value={search}
              onInput={event => setQuery({ q: event.currentTarget.value || null })}
            />
          </search>
          {/* biome-ignore lint/a11y/useSemanticElements: buttons that filter are no fields of a form. */}
          <div role="group" aria-label="Status">
            {STATUSES.map(name => (
              <button
                key={name}
                type="button"
                aria-pressed={name === status}
                onClick={() => setQuery({ status: name === 'all' ? null : name })}
              >
                {name}
              </button>
            ))}
          </div>
        </div>
        <p class="problem" role="alert">
          {problem.value}
        </p>
        <Part title="Waiting for a person" runs={waiting.value} />
        <Part title="Runs" runs={runs} />
        {isEmpty ? <p class="muted">No runs here. Start one on this page, or with: agentchart run</p> : null}
        {next === undefined ? null : (
          <button type="button" onClick={() => void read(next)}>
            Show more
          </button>
        )}
      </div>
      <NewRun onStarted={runId => navigate(`/runs/${encodeURIComponent(runId)}`)} />
    </main>
  );
}

function list(status: string, search: string, cursor?: string): Promise<Listed> {
  const query = new URLSearchParams({ limit: String(PAGE) });
  if (status !== 'all') query.set('status', status);
  if (search !== '') query.set('text', search);
  if (cursor !== undefined) query.set('cursor', cursor);
  return request(`/runs?${query}`);
}

function Part({ title, runs }: { title: string; runs: readonly RunSummary[] }) {
  if (runs.length === 0) return null;
  return (
    <section>
      <h2>{title}</h2>
      <ul class="runs">
        {runs.map(run => (
          <li key={run.runId} class="row">
            <a href={`/runs/${encodeURIComponent(run.runId)}`}>
              <StatusBadge status={run.status} />
              <Safe text={run.title || run.runId} class="title" />
              <Safe text={run.agent} class="agent" />
              <span class="mono id">{run.runId}</span>
              <span class="muted">{formatCount(run.seq, 'entry', 'entries')}</span>
              <time title={formatDay(run.createdAt)}>{formatAgo(run.updatedAt, Date.now())}</time>
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}
