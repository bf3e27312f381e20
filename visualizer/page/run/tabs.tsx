import { useRef } from 'preact/hooks';
import { useShortcuts } from '../app/keyboard.ts';
import { formatNumber } from '../render/format.ts';
import { AheadPane } from './ahead-pane.tsx';
import { ConversationPane } from './conversation/conversation-pane.tsx';
import { TABS, type Tab, useDesk } from './desk.ts';
import { JournalPane } from './journal-pane.tsx';
import { TreePane } from './tree-pane.tsx';
import { WaterfallPane } from './waterfall-pane.tsx';

const NAMES: Readonly<Record<Tab, string>> = {
  conversation: 'Conversation',
  waterfall: 'Waterfall',
  journal: 'Journal',
  tree: 'Tree',
  ahead: 'What may still happen',
};

export function Tabs() {
  const { model, tab, source } = useDesk();
  const tabs: readonly Tab[] = source.live ? TABS : TABS.filter(name => name !== 'ahead');
  const list = useRef<HTMLDivElement>(null);
  const choose = (name: Tab) => (tab.value = name);
  const move = (event: KeyboardEvent): void => {
    const by = MOVES[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const next = tabs[(tabs.indexOf(tab.peek()) + by + tabs.length) % tabs.length];
    if (next === undefined) return;
    choose(next);
    list.current?.querySelector<HTMLElement>(`#tab-${next}`)?.focus();
  };
  useShortcuts(
    'Panes',
    tabs.map((name, index) => ({
      keys: [String(index + 1)],
      does: NAMES[name].toLowerCase(),
      run: () => choose(name),
    })),
  );
  return (
    <section class="pane middle">
      <div ref={list} class="tabs" role="tablist" aria-label="Panes" onKeyDown={move}>
        {tabs.map(name => (
          <button
            key={name}
            type="button"
            role="tab"
            id={`tab-${name}`}
            aria-selected={tab.value === name}
            aria-controls="tab-panel"
            tabIndex={tab.value === name ? 0 : -1}
            onClick={() => choose(name)}
          >
            {NAMES[name]}
            {name === 'journal' ? <span class="muted"> {formatNumber(model.last.value)}</span> : null}
          </button>
        ))}
      </div>
      <div class="tab-panel" role="tabpanel" id="tab-panel" aria-labelledby={`tab-${tab.value}`}>
        {drawTab(tab.value)}
      </div>
    </section>
  );
}

const MOVES: Readonly<Record<string, number>> = { ArrowLeft: -1, ArrowRight: 1 };

function drawTab(tab: Tab) {
  switch (tab) {
    case 'conversation':
      return <ConversationPane />;
    case 'waterfall':
      return <WaterfallPane />;
    case 'journal':
      return <JournalPane />;
    case 'tree':
      return <TreePane />;
    case 'ahead':
      return <AheadPane />;
  }
}
