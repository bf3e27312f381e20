/** The activity between two entries. `dead`: no process held the run. */
export type ActivityKind =
  | 'model'
  | 'tool'
  | 'wait'
  | 'check'
  | 'person'
  | 'doubt'
  | 'paused'
  | 'dead'
  | 'none';

/** The activity of a run in a state of the chart. */
export function kindOf(path: string): ActivityKind {
  switch (path.split('.')[0]) {
    case 'turn':
      return 'model';
    case 'executingTools':
      return 'tool';
    case 'backingOff':
      return 'wait';
    case 'finishing':
      return 'check';
    case 'resting':
      return RESTS[path] ?? 'paused';
    default:
      return 'none';
  }
}

const RESTS: Readonly<Record<string, ActivityKind>> = {
  'resting.awaitingApproval': 'person',
  'resting.awaitingResults': 'wait',
  'resting.inDoubt': 'doubt',
  'resting.paused': 'paused',
};
