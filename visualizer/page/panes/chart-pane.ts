import { CHART_DRAWING } from '../../chart-drawing.ts';
import { stateId } from '../../merge-edges.ts';
import { fill, h } from '../render/element.ts';
import type { RunModel } from '../run-model.ts';
import type { Entry } from './conversation.ts';
import type { Pane } from './conversation-pane.ts';

const LAST_STEPS = 200;

type ChartPane = Pane<RunModel> & {
  /** Highlights the states and edges of an entry; `null` clears the highlight. */
  point(entry: Entry | null): void;
};

/** The chart with the current state highlighted, and how often each state and edge was taken. */
export function makeChartPane(): ChartPane {
  const drawing = readDrawing();
  const problem = h('p', { class: 'problem' });
  const steps = h('div', { class: 'steps' });
  const scroller = h(
    'div',
    { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Chart' },
    problem,
    steps,
  );
  scroller.prepend(drawing);
  let drawn = '';
  return {
    element: h('section', { class: 'pane chart-pane' }, h('h2', { class: 'pane-title' }, 'Chart'), scroller),
    update({ fold, entries, path }) {
      const version = `${entries.length} ${path} ${fold.problem}`;
      if (version === drawn) return;
      drawn = version;
      problem.textContent = fold.problem ?? '';
      drawing.setAttribute('aria-label', `The agent's statechart. Current state: ${path}.`);
      lightStates(drawing, path, fold.stateCounts);
      keepInSight(scroller, drawing.querySelector('.state.current:not(.frame)'));
      lightEdges(drawing, fold.edgeCounts, lastEdges(entries));
      fill(steps, [entries.length], () => listSteps(entries));
    },
    point(entry) {
      for (const edge of drawing.querySelectorAll('.edge')) {
        edge.classList.toggle('pointed', entry?.taken.edges.includes(edge.id) === true);
      }
      for (const state of drawing.querySelectorAll('.state')) {
        const entered = entry?.taken.entered.some(id => stateId(id) === state.id) === true;
        state.classList.toggle('pointed', entered);
      }
    },
  };
}

/** Parses the drawing in `chart-drawing.ts`. The page's style sheet has its styles. */
function readDrawing(): Element {
  const { documentElement } = new DOMParser().parseFromString(CHART_DRAWING, 'image/svg+xml');
  return document.adoptNode(documentElement);
}

/** Scrolls the state into view within the pane, without scrolling the page. */
function keepInSight(scroller: HTMLElement, state: Element | null): void {
  if (state === null || scroller.scrollHeight <= scroller.clientHeight) return;
  const [seen, wanted] = [scroller.getBoundingClientRect(), state.getBoundingClientRect()];
  if (wanted.top < seen.top) scroller.scrollTop -= seen.top - wanted.top + 24;
  if (wanted.bottom > seen.bottom) scroller.scrollTop += wanted.bottom - seen.bottom + 24;
}

function lightStates(drawing: Element, path: string, counts: ReadonlyMap<string, number>): void {
  for (const state of drawing.querySelectorAll('.state')) {
    const id = state.getAttribute('data-state') ?? '';
    const count = counts.get(id) ?? 0;
    const isCurrent = path === id || path.startsWith(`${id}.`);
    state.classList.toggle('current', isCurrent);
    state.classList.toggle('visited', count > 0 || isCurrent);
    setCount(state, count);
  }
}

function lightEdges(drawing: Element, counts: ReadonlyMap<string, number>, latest: readonly string[]): void {
  for (const edge of drawing.querySelectorAll('.edge')) {
    const count = counts.get(edge.id) ?? 0;
    edge.classList.toggle('visited', count > 0);
    edge.classList.toggle('latest', latest.includes(edge.id));
    setCount(edge, count);
  }
}

function setCount(group: Element, count: number): void {
  const text = group.querySelector('.count');
  if (text !== null) text.textContent = count === 0 ? '' : `×${count}`;
}

function lastEdges(entries: readonly Entry[]): readonly string[] {
  return entries.findLast(({ taken }) => taken.edges.length > 0)?.taken.edges ?? [];
}

/** The path as a text list. */
function listSteps(entries: readonly Entry[]): HTMLElement {
  const moves = entries.filter(({ taken }) => taken.entered.length > 0);
  const shown = moves.slice(-LAST_STEPS);
  const left = moves.length - shown.length;
  return h(
    'details',
    {},
    h('summary', {}, 'The path as text'),
    left === 0 ? null : h('p', { class: 'muted' }, `${left} earlier steps are not shown.`),
    h(
      'ol',
      { class: 'path' },
      ...shown.map(({ event, taken }) =>
        h(
          'li',
          { class: 'step' },
          h('span', { class: 'seq' }, String(event.seq)),
          ` ${event.type} → ${taken.entered.join(' → ')}`,
        ),
      ),
    ),
  );
}
