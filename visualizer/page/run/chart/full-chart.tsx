import { useEffect, useRef } from 'preact/hooks';
import { drawSvg } from '../../../draw-svg.ts';
import type { Folded } from '../../model/journal-fold.ts';

export type ChartProps = {
  folded: Folded;
  path: string;
  breaks: ReadonlySet<string>;
  onClick(event: MouseEvent): void;
};

export function FullChart({ folded, path, breaks, onClick }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    place.current?.replaceChildren(readDrawing());
  }, []);
  useEffect(() => {
    const drawing = place.current?.firstElementChild;
    if (drawing == null) return;
    drawing.setAttribute('aria-label', `The agent's statechart. Current state: ${path}.`);
    light(drawing, folded, path, breaks);
  }, [folded, path, breaks]);
  // biome-ignore lint/a11y/noStaticElementInteractions lint/a11y/useKeyWithClickEvents: the list of breakpoints does the same by keyboard.
  return <div ref={place} class="drawing" onClick={onClick} />;
}

/** The whole chart. The page's style sheet has its styles; the small chart has the ids. */
function readDrawing(): Element {
  const { documentElement } = new DOMParser().parseFromString(drawSvg(), 'image/svg+xml');
  for (const element of documentElement.querySelectorAll('[id^="state-"]')) element.removeAttribute('id');
  return document.adoptNode(documentElement);
}

function light(drawing: Element, folded: Folded, path: string, breaks: ReadonlySet<string>): void {
  for (const state of drawing.querySelectorAll('.state')) {
    const id = state.getAttribute('data-state') ?? '';
    const isCurrent = path === id || path.startsWith(`${id}.`);
    state.classList.toggle('current', isCurrent);
    state.classList.toggle('breaks', breaks.has(id));
    mark(state, folded.count(id), isCurrent);
  }
  for (const edge of drawing.querySelectorAll('.edge')) {
    edge.classList.toggle('latest', folded.taken.edges.includes(edge.id));
    mark(edge, folded.count(edge.id), false);
  }
}

function mark(group: Element, count: number, isCurrent: boolean): void {
  group.classList.toggle('visited', count > 0 || isCurrent);
  const text = group.querySelector('.count');
  if (text !== null) text.textContent = count === 0 ? '' : `×${count}`;
}
