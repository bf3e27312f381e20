import { formatCost } from '../../../protocol/listing/cost.ts';
import { formatDuration } from '../../../protocol/listing/format-duration.ts';
import { formatNumber } from '../../../protocol/listing/format-number.ts';
import { ExplorerPane, explorationOf, type Play, type ShownReport } from '../ahead/explorer.tsx';
import { playExample } from '../app/played.ts';
import { runPath } from '../data/request.ts';
import { readFirstEntries } from '../data/source.ts';

import { type Fact, Facts } from '../ui/text.tsx';
import { useDesk } from './desk.ts';

const FIRST_STATES = 3_000;

export function AheadPane() {
  const { model, source } = useDesk();
  const { runId } = model;
  const at = model.at.value;
  const path = runPath(runId);
  const play: Play = (events, told) => {
    const from = explorationOf(path)?.report?.at ?? at;
    void readFirstEntries(source, runId, from).then(past =>
      playExample({ ...told, of: model.view.peek()?.title || runId, past, path: events }),
    );
  };
  return (
    <div class="scroll ahead">
      <p class="muted">
        Walks every path that the run can still take from this entry, on the server, and executes nothing.
      </p>
      <ExplorerPane
        path={path}
        query={`at=${at}`}
        maxStates={FIRST_STATES}
        label={`Explore from entry ${at}`}
        onPlay={play}
      >
        {report => <Ahead report={report} onPlay={play} />}
      </ExplorerPane>
    </div>
  );
}

function Ahead({ report, onPlay }: { report: ShownReport; onPlay: Play }) {
  const { at = 0, ahead = [], starts = [], approvals = [], left, complete } = report;
  return (
    <>
      <h3>After entry {at} the run can come to</h3>
      <ul class="states">
        {ahead.map(({ state, path }) => (
          <li key={state}>
            <button
              type="button"
              title="Play the way"
              onClick={() => onPlay(path, { title: `A way to ${state}`, message: '' })}
            >
              <span class="mono">{state}</span> <span class="muted">+{path.length}</span>
            </button>
          </li>
        ))}
        {ahead.length === 0 && (
          <li class="muted">
            {complete ? 'No other state: the run has ended.' : 'None where the walks came.'}
          </li>
        )}
      </ul>
      <h3>Who must agree</h3>
      <Facts
        of={[
          ...approvals.map(({ callId, name }): Fact => [name, `waits for a decision now (${callId})`]),
          ...starts.map(({ tool, says }): Fact => [tool, says]),
        ]}
      />
      <h3>The most it can still spend</h3>
      <Facts of={left === undefined ? [] : describeLeft(left)} />
    </>
  );
}

function describeLeft(left: NonNullable<ShownReport['left']>): Fact[] {
  return SPENDING.map(([key, name, format]) => {
    const { spent, most } = left[key];
    return [name, `${most === null ? 'no limit' : `${format(most)} more`} (${format(spent)} so far)`];
  });
}

const SPENDING = [
  ['turns', 'turns', formatNumber],
  ['toolCalls', 'tool calls', formatNumber],
  ['tokens', 'tokens', formatNumber],
  ['cost', 'cost', formatCost],
  ['activeMs', 'time at work', formatDuration],
] as const;
