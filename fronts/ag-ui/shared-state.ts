import { progressOf } from '../../engine/journal/progress.ts';
import { listUnsettled } from '../../engine/run/settled.ts';
import { statusOf } from '../../machines/standing.ts';
import { type ChartState, statePath } from '../../machines/step.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined, toJson } from '../../protocol/json.ts';
import type { AgUiEvent } from './events.ts';

type Operation = Extract<AgUiEvent, { type: 'STATE_DELTA' }>['delta'][number];

/** The chart's states that are reported as steps: the states in which the run is active. */
const STEPS: readonly string[] = ['turn', 'executingTools', 'backingOff', 'finishing'];

/**
 * The AG-UI shared state: the run's members, together with the application's own members.
 *
 * S1 The first event is a snapshot; each later event is the JSON Patch from the previous state.
 */
export class SharedState {
  readonly #own: JsonObject;
  readonly #showText: (text: string) => string;
  #state: ChartState | null = null;
  #sent: JsonObject | null = null;
  #step: string | null = null;

  /** `given`: the state in the request. Members that the run does not set are kept. */
  constructor(given: JsonValue | undefined, showText: (text: string) => string) {
    this.#own = isJsonObject(given) ? given : {};
    this.#showText = showText;
  }

  /** Returns the events for a state of the chart; none if no shared member changed. */
  update(state: ChartState | null): AgUiEvent[] {
    if (state === null || state === this.#state) return [];
    this.#state = state;
    const before = this.#sent;
    const described = describeState(state, this.#showText);
    const now = { ...this.#own, ...described };
    for (const name of OPTIONAL) if (!Object.hasOwn(described, name)) delete now[name];
    const step = statePath(state).split('.')[0] ?? '';
    const events = this.#moveTo(STEPS.includes(step) ? step : null);
    this.#sent = now;
    if (before === null) return [{ type: 'STATE_SNAPSHOT', snapshot: now }, ...events];
    const delta = diffJson(before, now);
    return delta.length === 0 ? events : [...events, { type: 'STATE_DELTA', delta }];
  }

  /** Returns the end of the last step and a full state snapshot, which must precede an interrupt. */
  finish(): AgUiEvent[] {
    const snapshot = this.#sent;
    return [
      ...this.#moveTo(null),
      ...(snapshot === null ? [] : [{ type: 'STATE_SNAPSHOT' as const, snapshot }]),
    ];
  }

  #moveTo(step: string | null): AgUiEvent[] {
    if (step === this.#step) return [];
    const events: AgUiEvent[] = [];
    if (this.#step !== null) events.push({ type: 'STEP_FINISHED', stepName: this.#step });
    if (step !== null) events.push({ type: 'STEP_STARTED', stepName: step });
    this.#step = step;
    return events;
  }
}

/** The optional members. They are removed explicitly, so that members of the thread's earlier run do not remain. */
const OPTIONAL = ['why', 'answer', 'output', 'error', 'incomplete'];

/** Returns the run's members: the state's path, status, reason, usage, open calls, and outcome. */
function describeState(state: ChartState, showText: (text: string) => string): JsonObject {
  const { context } = state;
  const { runId, agent, next, answer, paused, usage, turns } = context;
  const { state: path, why, incomplete } = progressOf(state);
  const status = statusOf(state);
  return toJson({
    runId,
    agent: agent.name,
    state: path,
    status,
    paused,
    turns,
    usage,
    calls: listUnsettled(context),
    ...omitUndefined({
      why,
      incomplete,
      answer: status === 'finished' ? showText(answer?.text ?? '') : undefined,
      output: status === 'finished' ? answer?.output : undefined,
      error: next?.type === 'fail' ? { code: next.code, message: next.message } : undefined,
    }),
  }) as JsonObject;
}

/** Returns the JSON Patch (RFC 6902) that turns `before` into `after`. Lists that differ are replaced as a whole. */
function diffJson(before: JsonObject, after: JsonObject, path = ''): Operation[] {
  const operations: Operation[] = [];
  for (const name of Object.keys(before)) {
    if (!Object.hasOwn(after, name)) operations.push({ op: 'remove', path: pointerTo(path, name) });
  }
  for (const [name, value] of Object.entries(after)) {
    const place = pointerTo(path, name);
    const old = before[name];
    if (!Object.hasOwn(before, name)) operations.push({ op: 'add', path: place, value });
    else if (isJsonObject(old) && isJsonObject(value)) operations.push(...diffJson(old, value, place));
    else if (JSON.stringify(old) !== JSON.stringify(value))
      operations.push({ op: 'replace', path: place, value });
  }
  return operations;
}

function pointerTo(path: string, name: string): string {
  return `${path}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}
