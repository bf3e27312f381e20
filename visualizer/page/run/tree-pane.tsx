import { useSignal, useSignalEffect } from '@preact/signals';
import { formatCost } from '../../../protocol/listing/cost.ts';
import { type RunView, requestServer, runPath } from '../data/request.ts';
import { openDecisions } from '../model/status-notices.ts';
import { formatCount, joinFacts, showSafe } from '../render/format.ts';
import { StatusBadge } from '../ui/button.tsx';
import { Safe } from '../ui/text.tsx';
import { useDesk } from './desk.ts';

type Node = { callId: string; name: string; view: RunView | null };

export function TreePane() {
  const { model } = useDesk();
  const view = model.view.value;
  return (
    <div class="scroll tree">
      {view && (
        <ul>
          <li>
            <Line view={view} isHere />
            <Children of={view.runId} depth={0} />
          </li>
        </ul>
      )}
    </div>
  );
}

const DEEPEST = 5;

/** The children of the shown run are known from its journal; theirs, from their calls. */
function Children({ of, depth }: { of: string; depth: number }) {
  const { model, source } = useDesk();
  const nodes = useSignal<Node[]>([]);
  useSignalEffect(() => {
    void model.told.value;
    if (of !== model.runId) return;
    const children = [...model.story.calls.values()].flatMap(({ call, told }) =>
      told.flatMap(one =>
        one.type === 'call.suspended' ? [{ id: one.childRunId, callId: call.callId, name: call.name }] : [],
      ),
    );
    const read = async ({ id, ...call }: (typeof children)[number]): Promise<Node> => ({
      ...call,
      view: await requestServer<RunView>(runPath(id)).catch(() => null),
    });
    void Promise.all(children.map(read)).then(found => (nodes.value = found));
  });
  if (nodes.value.length === 0) return depth === 0 ? <p class="muted">This run started no others.</p> : null;
  return (
    <ul>
      {nodes.value.map(({ callId, name, view }) => (
        <li key={callId}>
          {view === null ? (
            <p class="muted">
              {showSafe(name)}: {source.live ? 'its run was not found' : 'its run is not in this file'}
            </p>
          ) : (
            <Line view={view} isHere={false} />
          )}
          {view && depth < DEEPEST && <Children of={view.runId} depth={depth + 1} />}
        </li>
      ))}
    </ul>
  );
}

function Line({ view, isHere }: { view: RunView; isHere: boolean }) {
  const open = openDecisions(view).length;
  const title = <Safe text={view.title || view.runId} class="title" />;
  return (
    <p class="tree-line">
      <StatusBadge status={view.status} />
      <Safe text={view.agent} class="agent" />
      {isHere ? title : <a href={runPath(view.runId)}>{title}</a>}
      <span class="muted">
        {joinFacts(
          view.state,
          formatCount(view.turns, 'turn'),
          view.cost > 0 && formatCost(view.cost),
          open > 0 && formatCount(open, 'open decision'),
        )}
      </span>
    </p>
  );
}
