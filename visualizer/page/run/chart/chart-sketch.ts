type SketchBox = { x: number; y: number; width: number; height: number; frame?: true };

/** An arrow between `hub`, by default `deciding`, and the states that it represents; with `back`, also an arrow in the other direction. */
export type SketchArrow = {
  x: number;
  from: number;
  to: number;
  hub?: string;
  states: readonly string[];
  back: boolean;
};

export const SKETCH_SIZE = { width: 440, height: 334 };

const [ROW, HEIGHT] = [32, 24];

function stack(x: number, y: number, width: number, ids: readonly string[]): Record<string, SketchBox> {
  return Object.fromEntries(ids.map((id, place) => [id, { x, y: y + place * ROW, width, height: HEIGHT }]));
}

const TURN = ['turn.planning', 'turn.finalStreaming'];
const BETWEEN = ['backingOff', 'compacting', 'finishing'];
const OPEN = ['awaitingApproval', 'awaitingReview', 'inDoubt', 'paused'].map(name => `resting.${name}`);
const AWAITED = ['awaitingResults', 'awaitingAnswers', 'awaitingSignIn'].map(name => `resting.${name}`);

/** The chart in landscape format: the box of each state, by id. A test compares the ids with the machine. */
export const SKETCH_BOXES: Readonly<Record<string, SketchBox>> = {
  turn: { x: 2, y: 2, width: 160, height: 88, frame: true },
  ...stack(10, 26, 144, TURN),
  executingTools: { x: 168, y: 2, width: 128, height: 88 },
  ...stack(304, 2, 134, BETWEEN),
  deciding: { x: 2, y: 120, width: 436, height: 30 },
  resting: { x: 2, y: 180, width: 332, height: 152, frame: true },
  ...stack(10, 204, 155, OPEN),
  ...stack(171, 204, 155, AWAITED),
  ...stack(342, 180, 96, ['finished', 'failed', 'cancelled']),
};

const ABOVE = { from: 120, to: 90 };
const BELOW = { from: 150, to: 180 };

export const SKETCH_ARROWS: readonly SketchArrow[] = [
  { x: 120, from: 50, to: 58, hub: 'turn.planning', states: ['turn.finalStreaming'], back: true },
  { x: 82, ...ABOVE, states: ['turn', ...TURN], back: true },
  { x: 232, ...ABOVE, states: ['executingTools'], back: true },
  { x: 371, ...ABOVE, states: BETWEEN, back: true },
  { x: 168, ...BELOW, states: ['resting', ...OPEN, ...AWAITED], back: true },
  { x: 390, ...BELOW, states: ['finished', 'failed'], back: false },
];
