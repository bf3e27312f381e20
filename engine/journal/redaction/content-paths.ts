import type { RunEvent } from '../../../protocol/event.ts';

const ITEM = [
  ...['text', 'arguments', 'shown', 'reason', 'output/**', 'opaque/data/**'],
  ...['text', 'url', 'name', 'annotations/*/**'].map(part => `content/*/${part}`),
];
const CALL = ['input/**', 'reason', 'error'];

/**
 * The members of each event that may be redacted: content from people, models and tools. In a path, `*` is any
 * index of a list and `**` a value with everything in it. The other members determine the course of the run.
 */
const CONTENT: Readonly<Record<RunEvent['type'], readonly string[]>> = {
  'run.started': ['title', ...below('input/*', ITEM), 'runContext/**'],
  'message.received': [...below('items/*', ITEM), 'by'],
  'approval.decided': ['decision/input/**', 'decision/output/**', 'decision/reason', 'by'],
  'result.received': ['output/**', 'by'],
  'doubt.resolved': ['resolution/output/**', 'resolution/reason', 'by'],
  'transcript.edited': [
    ...below('items/*', ITEM),
    ...below('calls/*', CALL),
    ...below('results/*', ['output/**', 'shown']),
    'by',
  ],
  'turn.edited': [...below('items/*', ITEM), ...below('calls/*', CALL), 'text', 'by'],
  'call.edited': [...below('call', CALL), 'by'],
  'breakpoints.set': ['breakpoints/*/where/value', 'by'],
  'params.changed': ['params/instructions', 'by'],
  'pause.requested': ['by'],
  'cancel.requested': ['reason', 'by'],
  'step.requested': ['by'],
  'run.unpaused': ['by'],
  'run.quarantined': ['reason'],
  'run.cancelled': ['reason', 'by'],
  'text.started': [],
  'calls.started': [],
  'turn.completed': [
    ...below('items/*', ITEM),
    ...below('calls/*', CALL),
    ...['text', 'continuation/instructions'],
  ],
  'turn.failed': ['error/message'],
  'tool.started': [],
  'tool.settled': ['output/**', 'shown'],
  'tool.interrupted': [],
  'tool.doubted': ['reason'],
  'tool.suspended': [],
  'timer.fired': [],
  'finishers.completed': ['text', 'output/**'],
  'finishers.rejected': ['feedback'],
  'run.claimed': [],
  'tool.late': ['output/**', 'contradicts'],
  'run.noted': [],
  'run.redacted': ['by'],
};

/** Whether the value at `path` of an event may be redacted. */
export function isContent(type: RunEvent['type'], path: readonly string[]): boolean {
  return CONTENT[type].some(pattern => matches(pattern.split('/'), path));
}

function below(prefix: string, patterns: readonly string[]): string[] {
  return patterns.map(pattern => `${prefix}/${pattern}`);
}

function matches([first, ...rest]: readonly string[], [key, ...keys]: readonly string[]): boolean {
  if (first === '**') return true;
  if (first === undefined || key === undefined) return first === key;
  return (first === key || (first === '*' && /^\d+$/.test(key))) && matches(rest, keys);
}
