import { useSignalEffect } from '@preact/signals';
import type { ComponentType } from 'preact';
import { useRef } from 'preact/hooks';
import { formatNumber } from '../../../protocol/listing/format-number.ts';
import { useShortcuts } from '../app/keyboard.ts';
import { later } from '../app/later.tsx';
import { ChartPane } from './chart/chart-pane.tsx';
import { ConversationPane } from './conversation/conversation-pane.tsx';
import { isNarrow, TABS, type Tab, useDesk } from './desk.ts';
import { JournalPane } from './journal-pane.tsx';
import { StatePane } from './state-pane.tsx';
import { TreePane } from './tree-pane.tsx';

const WaterfallPane = later(async () => (await import('../app/more-parts.ts')).WaterfallPane);
const SequencePane = later(async () => (await import('../app/more-parts.ts')).SequencePane);
const AheadPane = later(async () => (await import('../app/more-parts.ts')).AheadPane);

const PANES: Readonly<Record<Tab, readonly [name: string, Pane: ComponentType]>> = {
  conversation: ['Conversation', ConversationPane],
  waterfall: ['Waterfall', WaterfallPane],
  journal: ['Journal', JournalPane],
  sequence: ['Sequence', SequencePane],
  tree: ['Tree', TreePane],
  ahead: ['What may still happen', AheadPane],
  chart: ['Chart', ChartTab],
};

export function ChartAndState() {
  return (
    <>
      <ChartPane />
      <StatePane />
    </>
  );
}

function ChartTab() {
  return (
    <div class="scroll left">
      <ChartAndState />
    </div>
  );
}

export function Tabs() {
  const { model, tab, source, breaking } = useDesk();
  const tabs: readonly Tab[] = TABS.filter(
    name => (name !== 'ahead' || source.live) && (name !== 'chart' || isNarrow.value),
  );
  const shown = tabs.includes(tab.value) ? tab.value : 'conversation';
  const [, Pane] = PANES[shown];
  useSignalEffect(() => {
    if (breaking.value !== null && isNarrow.value) tab.value = 'chart';
  });
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
      does: PANES[name][0].toLowerCase(),
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
            aria-selected={shown === name}
            aria-controls="tab-panel"
            tabIndex={shown === name ? 0 : -1}
            onClick={() => choose(name)}
          >
            {PANES[name][0]}
            {name === 'journal' ? <span class="muted"> {formatNumber(model.last.value)}</span> : null}
          </button>
        ))}
      </div>
      <div class="tab-panel" role="tabpanel" id="tab-panel" aria-labelledby={`tab-${shown}`}>
        <Pane />
      </div>
    </section>
  );
}

const MOVES: Readonly<Record<string, number>> = { ArrowLeft: -1, ArrowRight: 1 };
