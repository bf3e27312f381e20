import { formatCost } from '../../../protocol/listing/cost.ts';
import { type RunSummary, requestServer, runPath } from '../data/request.ts';
import { useNews, useRead } from '../data/server-watch.ts';
import { formatCount, joinFacts } from '../render/format.ts';
import { StatusBadge } from '../ui/button.tsx';
import { ProblemText, Safe } from '../ui/text.tsx';
import { useDesk } from './desk.ts';

/** A run, the runs that it has started, and theirs. */
export function TreePane() {
  const { model, source } = useDesk();
  const view = model.view.value;
  return (
    <div class="scroll tree">
      {view && (
        <ul>
          <li>
            <Line run={view} isHere />
            {source.live ? (
              <Children of={view.runId} depth={0} />
            ) : (
              <p class="muted">The runs of sub-agents are not in this file.</p>
            )}
          </li>
        </ul>
      )}
    </div>
  );
}

const DEEPEST = 5;

function Children({ of, depth }: { of: string; depth: number }) {
  const { source } = useDesk();
  const query = new URLSearchParams({ parent: of, order: 'asc', limit: '200' });
  const { answer, problem, again } = useRead(
    () => requestServer<{ runs: RunSummary[] }>(`/runs?${query}`),
    [of],
  );
  useNews(source, ['ready', 'summary', 'removed'], again);
  if (answer?.runs.length === 0) return depth === 0 ? <p class="muted">This run started no others.</p> : null;
  return (
    <>
      <ProblemText text={problem} />
      <ul>
        {answer?.runs.map(run => (
          <li key={run.runId}>
            <Line run={run} isHere={false} />
            {depth < DEEPEST && <Children of={run.runId} depth={depth + 1} />}
          </li>
        ))}
      </ul>
    </>
  );
}

function Line({ run, isHere }: { run: RunSummary; isHere: boolean }) {
  const open = (run.waitsFor ?? []).filter(({ runId }) => runId === undefined).length;
  const title = <Safe text={run.title || run.runId} class="title" />;
  return (
    <p class="tree-line">
      <StatusBadge status={run.status} />
      <Safe text={run.agent} class="agent" />
      {isHere ? title : <a href={runPath(run.runId)}>{title}</a>}
      <span class="muted">
        {joinFacts(
          run.state,
          formatCount(run.turns, 'turn'),
          run.cost > 0 && formatCost(run.cost),
          open > 0 && formatCount(open, 'open decision'),
        )}
      </span>
    </p>
  );
}
