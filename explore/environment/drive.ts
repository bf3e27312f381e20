import type { Call } from '../../machines/context.ts';
import { statePath } from '../../machines/step.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { ExploredAgent } from '../describe-agent.ts';
import { receiving } from '../events/client-events.ts';
import { stamp, starting, type UntimedEvent } from '../events/make-events.ts';
import { makeCallingTurn } from '../events/turn-reports.ts';
import type { Explorer } from '../explorer.ts';
import type { Place } from '../place.ts';
import type { Environment, Round } from './environment.ts';
import { invalidCalls, listCalls } from './environments.ts';

/** The maximum of events of one path; far more than the usual limits allow. */
const MAX_EVENTS = 5_000;

/** Follows single paths deep into a run. Every step is checked, but alternatives are not explored. */
export class Drive {
  readonly #explorer: Explorer;
  readonly #agent: ExploredAgent;
  readonly #environment: Environment;
  /** The first turn from the start of the walks. */
  readonly #start: Place;

  constructor(explorer: Explorer, agent: ExploredAgent, environment: Environment) {
    this.#explorer = explorer;
    this.#agent = agent;
    this.#environment = environment;
    this.#start = this.#finishRound(explorer.start);
  }

  /** Returns places from which one more turn, call or failure reaches a limit. */
  listPlacesNearLimits(): Place[] {
    const start = this.#start;
    const { limits } = this.#agent.config;
    const { turns, toolCalls } = start.reference.spending;
    const places = [this.#spendTurns(limits.turns - 1 - turns)];
    const call = listCalls(this.#agent).find(({ executedBy }) => executedBy === 'engine');
    if (call !== undefined && limits.toolCalls - 1 - toolCalls < MAX_EVENTS) {
      const all = Array.from({ length: Math.max(0, limits.toolCalls - 1 - toolCalls) }, () => call);
      if (all.length > 0) places.push(this.#round(start, all));
    }
    if (limits.repeatedFailures !== undefined) places.push(this.#fail(limits.repeatedFailures - 1));
    return places.filter((place, index) => places.indexOf(place) === index);
  }

  /** Follows paths up to each limit and past it: each tool repeatedly, all tools in turn, turns without a tool. */
  goDeep(): void {
    const { turns } = this.#agent.config.limits;
    const rounds = Math.min(turns, MAX_EVENTS) + 3;
    const byTool = this.#agent.tools.map(tool => listCalls({ ...this.#agent, tools: [tool] }).slice(0, 1));
    const calls = byTool.flat();
    for (const call of calls) this.#repeat(rounds, () => [call]);
    if (calls.length > 1) this.#repeat(rounds, index => calls.slice(index % calls.length).slice(0, 1));
    this.#spendTurns(rounds);
    this.#fail(rounds);
  }

  /** Checks rounds that are not explored further: more calls at once than the run may make. */
  tryProbes(): void {
    for (const round of this.#environment.probes) this.#callIn(this.#start, round);
  }

  /** Takes turns that only call an unknown tool: the cheapest turn. */
  #spendTurns(count: number): Place {
    const [unknown] = invalidCalls(this.#agent);
    let place = this.#start;
    for (let turn = 0; turn < count && turn < MAX_EVENTS && unknown !== undefined; turn += 1) {
      const after = this.#callIn(place, [{ ...unknown, input: { try: turn } }]);
      if (after === null) return place;
      place = after;
    }
    return place;
  }

  /** Repeats one call that cannot run. */
  #fail(count: number): Place {
    const [unknown] = invalidCalls(this.#agent);
    let place = this.#start;
    for (let turn = 0; turn < count && turn < MAX_EVENTS && unknown !== undefined; turn += 1) {
      const after = this.#callIn(place, [unknown]);
      if (after === null) return place;
      place = after;
    }
    return place;
  }

  #repeat(count: number, roundOf: (index: number) => Round): void {
    let place = this.#start;
    for (let index = 0; index < count; index += 1) {
      const after = this.#round(place, roundOf(index));
      if (after === place) return;
      place = after;
    }
  }

  /** Takes a turn with these calls, and every event up to the next turn. */
  #round(from: Place, round: Round): Place {
    const called = this.#callIn(from, round);
    if (called === null) return from;
    return this.#finishRound(called, round.length);
  }

  /** Takes every event up to the next turn; of a run that cannot get there, as many as it can. */
  #finishRound(from: Place, calls = from.state.context.calls.length): Place {
    let place = from;
    const deepest = place.depth + 4 * calls + 20;
    while (place.state.status === 'active' && !statePath(place.state).startsWith('turn')) {
      const after = this.#advance(place);
      if (after === null || after.depth > deepest) return place;
      place = after;
    }
    return place;
  }

  #callIn(place: Place, round: Round): Place | null {
    const { context } = place.state;
    if (place.state.status !== 'active' || !statePath(place.state).startsWith('turn')) return null;
    return this.#take(place, makeCallingTurn(round, context, this.#environment));
  }

  /** Takes the first event that advances the run; every call is approved and succeeds. */
  #advance(place: Place): Place | null {
    const { context } = place.state;
    for (const call of context.calls) {
      const event = this.#answer(call);
      const after = event === null ? null : this.#take(place, event);
      if (after !== null) return after;
    }
    if (context.paused) return this.#take(place, { type: 'run.unpaused' });
    if (context.timer !== null)
      return this.#take(place, { type: 'timer.fired', at: Math.max(context.timer, context.now + 1) });
    return statePath(place.state) === 'finishing' ? this.#take(place, { type: 'finishers.completed' }) : null;
  }

  #answer({ callId, name, digest, status, attempt, childRunId }: Call): UntimedEvent | null {
    const [output = null] = this.#environment.outputs(name);
    switch (status) {
      case 'gated':
        return { type: 'approval.decided', callId, digest, decision: { type: 'approve' } };
      case 'queued':
        return starting(callId, attempt + 1);
      case 'running':
      case 'reconciling':
        return { type: 'tool.settled', callId, output, isError: false };
      case 'waiting':
        return { ...receiving(callId, output), ...omitUndefined({ childRunId }) };
      case 'doubted':
        return { type: 'doubt.resolved', callId, resolution: { type: 'happened', output } };
      case 'ready':
      case 'settled':
        return null;
    }
  }

  #take(place: Place, event: UntimedEvent): Place | null {
    return this.#explorer.take(place, stamp(place.state.context, event))?.place ?? null;
  }
}
