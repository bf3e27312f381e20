import { useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import type { Context } from '../../../../machines/context.ts';
import type { NextAction } from '../../../../protocol/effect.ts';
import { edgeId, stateId } from '../../../chart-graph.ts';
import { explorationOf } from '../../ahead/explorer.tsx';
import { later } from '../../app/later.tsx';
import { runPath } from '../../data/request.ts';
import { reasonOf } from '../../model/journal-fold.ts';
import { kindOf } from '../../model/time-line.ts';
import { Button } from '../../ui/button.tsx';
import { Safe } from '../../ui/text.tsx';
import { useDesk } from '../desk.ts';
import { actionTo, breakpointsOf, brokenStates } from '../steering/breakpoints.ts';
import { SKETCH_ARROWS, SKETCH_BOXES, SKETCH_SIZE, type SketchArrow } from './chart-sketch.ts';
import type { ChartProps } from './full-chart.tsx';

const Breakpoints = later(async () => (await import('../../app/more-parts.ts')).Breakpoints);
const FullChart = later(async () => (await import('../../app/more-parts.ts')).FullChart);

const APART = 9;
const HEAD = 7;

export function ChartPane() {
  const desk = useDesk();
  const { model } = desk;
  const full = useRef<HTMLDialogElement>(null);
  const isFull = useSignal(false);
  const folded = model.shown.value;
  const path = (model.isAtEnd.value ? model.path.value : folded.path) ?? '';
  const why = folded.taken.decisions.at(-1) ?? folded.context?.next ?? null;
  const breaks = brokenStates(breakpointsOf(desk));
  const breakAt = ({ target }: MouseEvent): void => {
    const data = (target as Element).closest<SVGElement>('[data-state], [data-to]')?.dataset;
    const next = actionTo(data?.state ?? data?.to ?? '');
    if (next === undefined || !desk.isSteered) return;
    full.current?.close();
    desk.breaking.value = { next };
  };
  const moves = useMoves(model.at.value);
  const drawn = { folded, path, breaks, moves, onClick: breakAt };
  return (
    <section class={`pane chart-pane ${desk.isSteered ? 'steered' : ''}`}>
      <h2>
        Chart at entry {model.at.value}
        <Button
          class="quiet"
          label="Full chart"
          onClick={() => {
            isFull.value = true;
            full.current?.showModal();
          }}
        />
      </h2>
      <CompactChart {...drawn} />
      <Why why={why} path={path} context={folded.context} />
      <Breakpoints />
      {folded.problem !== null && <p class="problem">{folded.problem}</p>}
      <dialog ref={full} class="full-chart" aria-label="Full chart" onClose={() => (isFull.value = false)}>
        <form method="dialog">
          <button type="submit">Close</button>
        </form>
        {isFull.value && <FullChart {...drawn} />}
      </dialog>
    </section>
  );
}

/** Whether the cursor came from the entry before: then the edges that were taken are drawn from the old state to the new. */
function useMoves(at: number): boolean {
  const now = useRef({ at, moves: false });
  if (now.current.at !== at) now.current = { at, moves: at === now.current.at + 1 };
  return now.current.moves;
}

type WhyProps = { why: NextAction | null; path: string; context: Context | null };

function Why({ why, path, context }: WhyProps) {
  if (why === null) return <p class="where muted">{path === '' ? 'Nothing has happened yet.' : path}</p>;
  return (
    <p class={`where tone-${toneOf(path)}`}>
      <strong class="mono">{why.type}</strong> <Safe text={reasonOf(why, context)} class="why" />
    </p>
  );
}

/** What happens in a state has the colour that it has on the strip. */
const toneOf = (id: string): string => ENDS[id] ?? kindOf(id);

const ENDS: Readonly<Record<string, string>> = { failed: 'failed', cancelled: 'failed', finished: 'done' };

/** The chart in landscape format, at a fold. The list of breakpoints does by keyboard what a click does. */
function CompactChart({ folded, path, breaks, moves, onClick }: ChartProps) {
  const { model } = useDesk();
  const ahead = statesAhead(model.runId, model.at.value);
  const { width, height } = SKETCH_SIZE;
  const { edges } = folded.taken;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the list of breakpoints does the same by keyboard.
    <svg
      class={`sketch ${moves ? 'moves' : ''}`}
      onClick={onClick}
      viewBox={`0 0 ${width} ${height}`}
      role="img"
      aria-label={`The agent's statechart. Current state: ${path || 'none yet'}.${breaks.size === 0 ? '' : ` Breakpoints: ${[...breaks].join(', ')}.`}`}
    >
      {SKETCH_ARROWS.map(arrow => (
        <Arrow key={arrow.x} arrow={arrow} latest={edges} seq={folded.seq} />
      ))}
      {Object.entries(SKETCH_BOXES).map(([id, box]) => {
        const current = path === id || path.startsWith(`${id}.`);
        const count = folded.count(id);
        const isHub = id === 'deciding' || id === 'executingTools';
        const x = isHub ? box.x + box.width / 2 : box.x + 8;
        const y = box.frame ? box.y + 17 : box.y + box.height / 2 + 4.5;
        return (
          <g
            key={id}
            id={stateId(id)}
            data-state={id}
            class={`state ${breaks.has(id) ? 'breaks' : ''} tone-${toneOf(id)} ${box.frame ? 'frame' : ''} ${current ? 'current' : ''} ${count > 0 || current ? 'visited' : ''} ${ahead.includes(id) ? 'ahead' : ''}`}
          >
            <rect x={box.x} y={box.y} width={box.width} height={box.height} rx={7} />
            <text x={x} y={y} text-anchor={isHub ? 'middle' : 'start'}>
              {id.split('.').at(-1)}
            </text>
            {breaks.has(id) && <circle class="break" cx={box.x + 8} cy={box.y + 8} r={4.5} />}
            <text class="count" x={box.x + box.width - 4} y={box.y + 11} text-anchor="end">
              {count > 0 && `×${count}`}
            </text>
          </g>
        );
      })}
    </svg>
  );
}

type ArrowProps = { arrow: SketchArrow; latest: readonly string[]; seq: number };

/** An edge taken at another entry is a new line, whose animation starts over. */
function Arrow({ arrow: { x, from, to, hub = 'deciding', states, back }, latest, seq }: ArrowProps) {
  const isLatest = (edgeOf: (id: string) => string): boolean =>
    states.some(id => latest.includes(edgeOf(id)));
  const [there, here] = [isLatest(id => edgeId(hub, id)), isLatest(id => edgeId(id, hub))];
  return (
    <>
      <Line
        key={there && seq}
        x={back ? x - APART : x}
        from={from}
        to={to}
        look={`choice ${there ? 'latest' : ''}`}
      />
      {back && <Line key={here && -seq} x={x + APART} from={to} to={from} look={here ? 'latest' : ''} />}
    </>
  );
}

function Line({ x, from, to, look }: { x: number; from: number; to: number; look: string }) {
  const foot = to - Math.sign(to - from) * HEAD;
  return (
    <g class={look}>
      <path class="line" d={`M${x} ${from}V${foot}`} pathLength="1" />
      <path class="head" d={`M${x} ${to}L${x - 4.5} ${foot}H${x + 4.5}Z`} />
    </g>
  );
}

function statesAhead(runId: string, at: number): readonly string[] {
  const report = explorationOf(runPath(runId))?.report;
  return report?.at === at ? (report.ahead?.map(({ state }) => state) ?? []) : [];
}
