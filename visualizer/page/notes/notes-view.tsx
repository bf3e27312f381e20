// visualizer/page/notes: what models have noted under a label, in place of the run that keeps it.

import { formatNumber } from '../../../protocol/listing/format-number.ts';
import type { Notes } from '../../../protocol/notes.ts';
import { later } from '../app/later.tsx';
import { address, useTitle } from '../app/router.ts';
import { labelsOf, RequestError, requestServer, runPath } from '../data/request.ts';
import { useNews, useRead } from '../data/server-watch.ts';
import type { PageSource } from '../data/source.ts';
import { formatAgo, formatCount, formatDay, joinFacts } from '../render/format.ts';
import { Markdown } from '../ui/markdown.tsx';
import { Details, ProblemText, Safe } from '../ui/text.tsx';

const RunView = later(async () => (await import('../run/run-view.tsx')).RunPane);

/** So many notes are open at first. */
const MOST_OPEN = 8;

/** `label`: `NAME=VALUE`. */
type Found = Notes & { title: string; label: string };

type Props = { source: PageSource; runId: string };

/** The view of a run instead, with its journal, if its address names a tab, and for a run that keeps no notes. */
export function NotesView(props: Props) {
  const isRun = !props.source.live || address.value.searchParams.has('tab');
  return isRun ? <RunView {...props} /> : <NotesPane {...props} />;
}

function NotesPane({ source, runId }: Props) {
  const { answer, problem, again } = useRead(() => readNotes(source, runId), []);
  useNews(source, ['ready', 'summary', 'removed'], again);
  useTitle(answer?.found?.title ?? 'Notes');
  if (answer === null) return problem === '' ? null : <ProblemText text={problem} />;
  if (answer.found === null) return <RunView source={source} runId={runId} />;
  const { title, label, files, changedAt } = answer.found;
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  const facts = joinFacts(
    formatCount(files.length, 'note'),
    files.length > 0 && formatBytes(bytes),
    `changed ${formatAgo(changedAt, Date.now())}`,
  );
  return (
    <main class="notes">
      <p>
        <a href={`/runs?label=${encodeURIComponent(label)}`}>
          Runs with <Safe text={label} />
        </a>
        {' · '}
        <a href={`${runPath(runId)}?tab=journal`}>Journal of the notes</a>
      </p>
      <h1 tabIndex={-1}>
        <Safe text={title} />
      </h1>
      <ProblemText text={problem} />
      <p class="muted" title={formatDay(changedAt)}>
        {facts}
      </p>
      {files.map(({ path, bytes: size, text }) => (
        <section key={path}>
          <Details
            open={files.length <= MOST_OPEN}
            summary={
              <>
                <h2 class="mono">
                  <Safe text={path} />
                </h2>
                <span class="muted">{formatBytes(size)}</span>
              </>
            }
          >
            {() => <Markdown text={text} />}
          </Details>
        </section>
      ))}
    </main>
  );
}

/** `null`: it is not the run that keeps the notes of its label, or is not there. */
async function readNotes(source: PageSource, runId: string): Promise<{ found: Found | null }> {
  try {
    const run = await source.view(runId);
    const [label = ''] = labelsOf(run);
    const notes = await requestServer<Notes>(`/notes?label=${encodeURIComponent(label)}`);
    return { found: notes.runId === runId ? { ...notes, title: run.title, label } : null };
  } catch (error) {
    if (error instanceof RequestError && error.status >= 400 && error.status < 500) return { found: null };
    throw error;
  }
}

function formatBytes(bytes: number): string {
  return bytes < 1024 ? `${bytes}\u{a0}B` : `${formatNumber(Math.round(bytes / 102.4) / 10)}\u{a0}KiB`;
}
