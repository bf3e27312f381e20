import { useEffect, useRef } from 'preact/hooks';
import { formatDuration } from '../../../../protocol/listing/format-duration.ts';
import { formatNumber } from '../../../../protocol/listing/format-number.ts';
import { CHART_PLACES } from '../../../chart-places.ts';
import { drawSvg } from '../../../draw-svg.ts';
import type { Folded } from '../../model/journal-fold.ts';
import { timesAt } from '../../model/time-line.ts';
import { joinFacts } from '../../render/format.ts';
import { Button } from '../../ui/button.tsx';
import { useDesk } from '../desk.ts';
import { Lens } from './lens.ts';

export type ChartProps = {
  folded: Folded;
  path: string;
  breaks: ReadonlySet<string>;
  /** Whether the cursor came here from the entry before. */
  moves: boolean;
  onClick(event: MouseEvent): void;
};

const BUTTONS = [
  ['Zoom in', '+', (lens: Lens) => lens.zoom(1.25)],
  ['Zoom out', '−', (lens: Lens) => lens.zoom(0.8)],
  ['Fit', 'Fit', (lens: Lens) => lens.fit()],
] as const;

export function FullChart({ folded, path, breaks, moves, onClick }: ChartProps) {
  const { model } = useDesk();
  const place = useRef<HTMLDivElement>(null);
  const lens = useRef<Lens>(null);
  useEffect(() => {
    const box = place.current;
    const drawing = readDrawing();
    if (box === null) return;
    box.replaceChildren(drawing);
    lens.current = new Lens(box, drawing);
    const [, y = 0, , height = 0] =
      Object.entries(CHART_PLACES.states).find(([id]) => id === path)?.[1] ?? [];
    lens.current.readAt(y + height / 2);
    box.focus();
  }, []);
  const times = timesAt(model.story.activities, folded.seq);
  useEffect(() => {
    const drawing = place.current?.firstElementChild;
    if (drawing == null) return;
    drawing.setAttribute('aria-label', `The agent's statechart. Current state: ${path}.`);
    light(drawing, { folded, path, breaks, moves }, times);
  }, [folded, path, breaks]);
  const states = Object.keys(CHART_PLACES.states).filter(id => folded.count(id) > 0 || times.has(id));
  return (
    <div class="full">
      <p class="lens">
        {BUTTONS.map(([label, sign, act]) => (
          <Button
            key={label}
            aria-label={label}
            label={sign}
            onClick={() => lens.current && act(lens.current)}
          />
        ))}
        <span class="muted">Drag, pinch or use the wheel; keys: arrows, +, − and 0.</span>
      </p>
      <section
        ref={place}
        class="drawing"
        aria-label="Chart to move and scale"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: its keys move and scale the chart.
        tabIndex={0}
        onClick={onClick}
        onKeyDown={event => lens.current?.key(event)}
        onWheel={event => lens.current?.wheel(event)}
        onPointerDown={event => lens.current?.press(event)}
        onPointerMove={event => lens.current?.drag(event)}
        onPointerUp={event => lens.current?.release(event)}
        onPointerCancel={event => lens.current?.release(event)}
        onPointerLeave={event => lens.current?.release(event)}
      />
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls has to be reachable by keyboard. */}
      <section class="times" tabIndex={0}>
        <table>
          <caption>Up to entry {folded.seq}</caption>
          <thead>
            <tr>
              <th scope="col">State</th>
              <th scope="col">Times</th>
              <th scope="col">Total time</th>
            </tr>
          </thead>
          <tbody>
            {states.map(id => (
              <tr key={id} class={path === id ? 'chosen' : ''}>
                <th scope="row" class="mono">
                  {id}
                </th>
                <td>{folded.count(id) > 0 && formatNumber(folded.count(id))}</td>
                <td>{formatDuration(times.get(id) ?? 0)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </div>
  );
}

/** The whole chart. The page's style sheet has its styles; the small chart has the ids. */
function readDrawing(): SVGSVGElement {
  const { documentElement } = new DOMParser().parseFromString(drawSvg(), 'image/svg+xml');
  for (const element of documentElement.querySelectorAll('[id^="state-"]')) element.removeAttribute('id');
  return document.adoptNode(documentElement) as Element as SVGSVGElement;
}

function light(
  drawing: Element,
  { folded, path, breaks, moves }: Omit<ChartProps, 'onClick'>,
  times: ReadonlyMap<string, number>,
): void {
  drawing.classList.toggle('moves', moves);
  for (const state of drawing.querySelectorAll('.state')) {
    const id = state.getAttribute('data-state') ?? '';
    const isCurrent = path === id || path.startsWith(`${id}.`);
    state.classList.toggle('current', isCurrent);
    state.classList.toggle('breaks', breaks.has(id));
    mark(state, folded.count(id), isCurrent, times.get(id));
  }
  for (const edge of drawing.querySelectorAll('.edge')) {
    const line = edge.querySelector('.line');
    // A new line starts its animation over.
    if (edge.classList.toggle('latest', folded.taken.edges.includes(edge.id)))
      line?.replaceWith(line.cloneNode());
    mark(edge, folded.count(edge.id), false);
  }
}

function mark(group: Element, count: number, isCurrent: boolean, time = 0): void {
  group.classList.toggle('visited', count > 0 || isCurrent);
  const text = group.querySelector('.count');
  if (text !== null) text.textContent = joinFacts(count > 0 && `×${count}`, time > 0 && formatDuration(time));
}
