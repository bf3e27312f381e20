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

export const SKETCH_SIZE = { width: 552, height: 392 };

/** The chart in landscape format: the box of each state, by id. A test compares the ids with the machine. */
export const SKETCH_BOXES: Readonly<Record<string, SketchBox>> = {
  turn: { x: 2, y: 2, width: 164, height: 106, frame: true },
  'turn.planning': { x: 12, y: 32, width: 144, height: 30 },
  'turn.finalStreaming': { x: 12, y: 69, width: 144, height: 30 },
  executingTools: { x: 174, y: 2, width: 116, height: 106 },
  backingOff: { x: 298, y: 2, width: 82, height: 106 },
  compacting: { x: 388, y: 2, width: 80, height: 106 },
  finishing: { x: 476, y: 2, width: 74, height: 106 },
  deciding: { x: 2, y: 142, width: 548, height: 36 },
  resting: { x: 2, y: 212, width: 404, height: 178, frame: true },
  'resting.awaitingApproval': { x: 12, y: 241, width: 187, height: 30 },
  'resting.awaitingResults': { x: 209, y: 241, width: 187, height: 30 },
  'resting.awaitingReview': { x: 12, y: 278, width: 187, height: 30 },
  'resting.awaitingAnswers': { x: 209, y: 278, width: 187, height: 30 },
  'resting.inDoubt': { x: 12, y: 315, width: 187, height: 30 },
  'resting.awaitingSignIn': { x: 209, y: 315, width: 187, height: 30 },
  'resting.paused': { x: 12, y: 352, width: 187, height: 30 },
  finished: { x: 420, y: 212, width: 130, height: 30 },
  failed: { x: 420, y: 249, width: 130, height: 30 },
  cancelled: { x: 420, y: 286, width: 130, height: 30 },
};

const ABOVE = { from: 142, to: 108 };
const BELOW = { from: 178, to: 212 };

export const SKETCH_ARROWS: readonly SketchArrow[] = [
  { x: 140, from: 62, to: 69, hub: 'turn.planning', states: ['turn.finalStreaming'], back: true },
  { x: 84, ...ABOVE, states: ['turn', 'turn.planning', 'turn.finalStreaming'], back: true },
  { x: 232, ...ABOVE, states: ['executingTools'], back: true },
  { x: 339, ...ABOVE, states: ['backingOff'], back: true },
  { x: 428, ...ABOVE, states: ['compacting'], back: true },
  { x: 513, ...ABOVE, states: ['finishing'], back: true },
  { x: 204, ...BELOW, states: Object.keys(SKETCH_BOXES).filter(id => id.startsWith('resting')), back: true },
  { x: 485, ...BELOW, states: ['finished', 'failed'], back: false },
];
