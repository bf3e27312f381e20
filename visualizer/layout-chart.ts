import elk, { type ElkExtendedEdge, type ElkNode, type ElkPort } from 'elkjs/lib/elk.bundled.js';
import { type ChartState, edgeId, type MergedEdge, mergeEdges, readChart } from './chart-graph.ts';

export type Point = { x: number; y: number };
export type Box = Point & { width: number; height: number };

export type PlacedState = Box &
  Pick<ChartState, 'id' | 'name' | 'description' | 'final' | 'invokes'> & {
    /** Whether the state is drawn as a frame around its sub-states. */
    frame: boolean;
  };

/** `points` lead from `from` to `to`. `label` is the top left of the label, `count` the right end of the count. */
export type PlacedEdge = MergedEdge & { points: Point[]; label: Point; count: Point };

/** The chart in px, with its origin at the top left. `anywhere` is the source of edges from any state. */
export type PlacedChart = {
  width: number;
  height: number;
  /** The id of the initial state. */
  initial: string;
  states: PlacedState[];
  edges: PlacedEdge[];
  anywhere: Box;
};

/** The text is monospaced, so its width is known without a browser. */
export const TEXT = { labelSize: 10.5, lineHeight: 13, charWidth: 0.602 };

/** The state that all others return to. */
const HUB = 'deciding';
const ANYWHERE = 'any';
const WIDTH = { state: 184, inner: 160, hub: 98 };
const HEIGHT = { state: 30, service: 44, gap: 42 };
const FRAME = { top: 32, side: 12, bottom: 12 };

const OPTIONS = {
  'elk.algorithm': 'layered',
  'elk.direction': 'RIGHT',
  'elk.hierarchyHandling': 'INCLUDE_CHILDREN',
  'elk.edgeRouting': 'ORTHOGONAL',
  'elk.padding': '[top=6,left=2,bottom=6,right=2]',
  'elk.layered.considerModelOrder.strategy': 'NODES_AND_EDGES',
  'elk.layered.crossingMinimization.forceNodeModelOrder': 'true',
  'elk.layered.edgeLabels.sideSelection': 'ALWAYS_UP',
  'elk.layered.nodePlacement.strategy': 'NETWORK_SIMPLEX',
  'elk.layered.nodePlacement.favorStraightEdges': 'true',
  'elk.layered.nodePlacement.networkSimplex.nodeFlexibility.default': 'NODE_SIZE',
  'elk.spacing.nodeNode': '16',
  'elk.spacing.edgeEdge': '10',
  'elk.spacing.edgeNode': '8',
  'elk.spacing.edgeLabel': '2',
  'elk.spacing.portsSurrounding': '[top=10,left=0,bottom=10,right=0]',
  'elk.layered.spacing.nodeNodeBetweenLayers': '12',
  'elk.layered.spacing.edgeNodeBetweenLayers': '12',
};

/** Lays out the chart around `deciding`. Requires elkjs, a development dependency. */
export async function layoutChart(): Promise<PlacedChart> {
  const graph = readChart();
  const edges = sortEdges(mergeEdges(graph.edges), graph.states);
  const between = edges.filter(edge => !isInside(edge));
  const others = graph.states.filter(({ id }) => id !== HUB);
  const hub = graph.states.filter(({ id }) => id === HUB).map(state => toHub(state, between));
  const root: ElkNode = {
    id: 'chart',
    layoutOptions: OPTIONS,
    children: [
      ...hub,
      ...others.map(state => toNode(state, edges)),
      { id: ANYWHERE, width: WIDTH.hub, height: 26 },
    ],
    edges: between.map(edge => toEdge(edge, graph.states)),
  };
  const laidOut: ElkNode = await new elk.default().layout(root);
  const boxes = collectBoxes(laidOut);
  const states = graph.states.flatMap(state => [state, ...state.states]).map(state => place(state, boxes));
  return {
    width: laidOut.width ?? 0,
    height: laidOut.height ?? 0,
    initial: graph.initial,
    states,
    edges: edges.map(edge => (isInside(edge) ? drawInside(edge, boxes) : placeEdge(edge, laidOut, boxes))),
    anywhere: boxOf(boxes, ANYWHERE),
  };
}

/** Sorts by target state; for each state, edges from the hub before edges back to it, and a frame's own edges last. */
function sortEdges(edges: MergedEdge[], states: readonly ChartState[]): MergedEdge[] {
  const order = states.flatMap(({ id, states: inner }) => [...inner.map(child => child.id), id]);
  const rank = ({ from, to }: MergedEdge): number =>
    to === HUB ? order.indexOf(from) + 0.5 : order.indexOf(enteredBy(to, states));
  return edges.toSorted((one, other) => rank(one) - rank(other));
}

/** The state that an edge ends at: for a frame, its initial state. */
function enteredBy(id: string, states: readonly ChartState[]): string {
  return states.find(state => state.id === id)?.initial ?? id;
}

/** Whether the edge connects two states of one frame. */
function isInside({ from, to }: MergedEdge): boolean {
  const frame = (id: string) => id.split('.').slice(0, -1).join('.');
  return frame(from) !== '' && frame(from) === frame(to);
}

function toHub({ id }: ChartState, edges: readonly MergedEdge[]): ElkNode {
  const ports = edges
    .filter(({ from, to }) => from === id || to === id)
    .map(
      ({ from, to }, index): ElkPort => ({
        id: `port ${edgeId(from, to)}`,
        layoutOptions: { 'elk.port.side': 'EAST', 'elk.port.index': String(index) },
      }),
    );
  return {
    id,
    ports,
    layoutOptions: {
      'elk.portConstraints': 'FIXED_ORDER',
      'elk.nodeSize.constraints': 'PORTS MINIMUM_SIZE',
      'elk.nodeSize.minimum': `(${WIDTH.hub},${HEIGHT.state})`,
    },
  };
}

/** A frame has room at the bottom for the labels of its outgoing edge. */
function toNode({ id, states, invokes }: ChartState, edges: readonly MergedEdge[]): ElkNode {
  const inner = id.includes('.');
  if (states.length === 0) {
    const height = invokes.length === 0 ? HEIGHT.state : HEIGHT.service;
    return { id, width: inner ? WIDTH.inner : WIDTH.state, height };
  }
  const leaving = edges.find(({ from }) => from === id)?.labels.length ?? 0;
  const bottom = FRAME.bottom + leaving * TEXT.lineHeight;
  const joined = edges.some(edge => isInside(edge) && edge.from.startsWith(`${id}.`));
  return {
    id,
    children: states.map(state => toNode(state, edges)),
    layoutOptions: {
      'elk.padding': `[top=${FRAME.top},left=${FRAME.side},bottom=${bottom},right=${FRAME.side}]`,
      'elk.spacing.nodeNode': String(joined ? HEIGHT.gap : 8),
    },
  };
}

function toEdge({ from, to, labels }: MergedEdge, states: readonly ChartState[]): ElkExtendedEdge {
  const id = edgeId(from, to);
  const width = Math.max(...labels.map(label => label.length)) * TEXT.labelSize * TEXT.charWidth;
  return {
    id,
    layoutOptions: { 'elk.layered.priority.straightness': to === HUB ? '1' : '20' },
    sources: [from === '' ? ANYWHERE : `port ${id}`],
    targets: [to === HUB ? from : enteredBy(to, states)],
    labels: [{ text: id, width, height: labels.length * TEXT.lineHeight }],
  };
}

function collectBoxes(node: ElkNode, at: Point = { x: 0, y: 0 }, boxes = new Map<string, Box>()) {
  for (const child of node.children ?? []) {
    const corner = { x: at.x + (child.x ?? 0), y: at.y + (child.y ?? 0) };
    boxes.set(child.id, { ...corner, width: child.width ?? 0, height: child.height ?? 0 });
    collectBoxes(child, corner, boxes);
  }
  return boxes;
}

function boxOf(boxes: ReadonlyMap<string, Box>, id: string): Box {
  const box = boxes.get(id);
  if (box === undefined) throw new Error(`the layout has no state ${id}`);
  return box;
}

function place(
  { id, name, description, final, invokes, states }: ChartState,
  boxes: ReadonlyMap<string, Box>,
): PlacedState {
  return { ...boxOf(boxes, id), id, name, description, final, invokes, frame: states.length > 0 };
}

function placeEdge(edge: MergedEdge, root: ElkNode, boxes: ReadonlyMap<string, Box>): PlacedEdge {
  const placed = root.edges?.find(({ id }) => id === edgeId(edge.from, edge.to));
  const section = placed?.sections?.[0];
  const label = placed?.labels?.[0];
  if (placed === undefined || section === undefined || label === undefined)
    throw new Error(`the layout has no edge to ${edge.to}`);
  const container = 'container' in placed ? String(placed.container) : root.id;
  const { x, y } = container === root.id ? { x: 0, y: 0 } : boxOf(boxes, container);
  const points = [section.startPoint, ...(section.bendPoints ?? []), section.endPoint].map(point => ({
    x: point.x + x,
    y: point.y + y,
  }));
  const left = Math.min(...points.map(point => point.x));
  const right = boxOf(boxes, edge.to === HUB ? edge.from : (edge.to.split('.')[0] ?? edge.to)).x;
  const top = y + (label.y ?? 0);
  return {
    ...edge,
    points: edge.to === HUB ? straighten(points, boxOf(boxes, edge.from)).reverse() : points,
    label: { x: left + 12, y: top },
    count: { x: right - 10, y: top },
  };
}

/** Replaces the bends by a straight line if it still ends at the box. */
function straighten(points: Point[], { y, height }: Box): Point[] {
  const [start, end] = [points[0], points.at(-1)];
  if (start === undefined || end === undefined || start.y < y || start.y > y + height) return points;
  return [start, { x: end.x, y: start.y }];
}

/** Draws an edge straight down on the left or straight up on the right, with its label in the gap. */
function drawInside(edge: MergedEdge, boxes: ReadonlyMap<string, Box>): PlacedEdge {
  const [from, to] = [boxOf(boxes, edge.from), boxOf(boxes, edge.to)];
  const down = from.y < to.y;
  const x = down ? from.x + 16 : from.x + from.width - 16;
  const top = down ? from.y + from.height : to.y + to.height;
  const ends = [
    { x, y: top },
    { x, y: top + HEIGHT.gap },
  ];
  const width = Math.max(...edge.labels.map(label => label.length)) * TEXT.labelSize * TEXT.charWidth;
  const y = down ? top + 6 : top + HEIGHT.gap - 7 - TEXT.lineHeight;
  return {
    ...edge,
    points: down ? ends : ends.reverse(),
    label: { x: down ? x + 8 : x - 8 - width, y },
    count: { x: down ? from.x + from.width - 24 : from.x + 44, y },
  };
}
