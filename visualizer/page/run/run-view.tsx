// visualizer/page/run: one run: its strip, chart, panes, decisions and controls. `desk.ts` holds what they
// share.

import { useSignal, useSignalEffect } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { address, setQuery, showTitle } from '../app/router.ts';
import { followShownRun } from '../data/follow-run.ts';
import type { PageSource } from '../data/source.ts';
import { RunModel } from '../model/run-model.ts';
import { showSafe } from '../render/format.ts';
import { DecisionBar } from './decisions/decision-bar.tsx';
import { ActContext } from './decisions/open-decisions.tsx';
import { Desk, DeskContext, isNarrow, TABS } from './desk.ts';
import { Inspector } from './inspector.tsx';
import { RunHeader } from './run-header.tsx';
import { Strip } from './strip.tsx';
import { ChartAndState, Tabs } from './tabs.tsx';

/** Embedded runs are folded by the file that shows them. */
export { foldToState } from '../model/journal-fold.ts';

export function RunPane({ source, runId }: { source: PageSource; runId: string }) {
  const missing = useSignal(false);
  const { desk, end } = useMemo(() => {
    const model = new RunModel(runId);
    const following = followShownRun(source, model, () => {
      missing.value = true;
    });
    const named = address.peek().searchParams.get('tab');
    const tab = TABS.find(name => name === named) ?? 'conversation';
    return { desk: new Desk(model, source, tab, following.look), end: following.end };
  }, [source, runId]);
  useEffect(() => end, [end]);
  useAddress(desk);
  if (missing.value) {
    return (
      <main class="missing">
        <h1>Run not found</h1>
        <p>
          There is no run <span class="mono">{showSafe(runId)}</span> here. It may have been deleted, or be in
          another store.
        </p>
        <a href="/runs">All runs</a>
      </main>
    );
  }
  return (
    <DeskContext.Provider value={desk}>
      <ActContext.Provider value={({ type, runId, ...body }) => desk.act(type, body, runId)}>
        <div class="run">
          <RunHeader />
          <Strip />
          <main class="panes">
            {!isNarrow.value && (
              <div class="left">
                <ChartAndState />
              </div>
            )}
            <Tabs />
            <Inspector />
          </main>
          <DecisionBar />
        </div>
      </ActContext.Provider>
    </DeskContext.Provider>
  );
}

/** The cursor and the tab are in the address: `?at=18&tab=journal`. */
function useAddress({ model, tab, source }: Desk): void {
  useEffect(() => {
    const at = Number(address.peek().searchParams.get('at'));
    if (!Number.isInteger(at) || at < 1) return;
    model.chosen.value = at;
  }, [model]);
  useSignalEffect(() => {
    const { chosen, last } = model;
    const [at, shown] = [chosen.value, tab.value];
    if (!source.live || last.value === 0) return;
    setQuery({ at: at === null ? null : String(at), tab: shown === 'conversation' ? null : shown });
  });
  useSignalEffect(() => {
    const view = model.view.value;
    if (view === null) return;
    const mark = view.status === 'waiting' ? '● ' : '';
    showTitle(`${mark}${model.path.value} · ${showSafe(view.agent)}`);
  });
}
