import type { Call } from '../../../machines/context.ts';
import { statePath } from '../../../machines/step.ts';
import type { ChartEvent } from '../../../protocol/event.ts';
import type { ExploredAgent } from '../describe-agent.ts';
import { stamp, starting, type Told } from '../events/make-events.ts';
import { makeCallingTurn } from '../events/turn-reports.ts';
import type { Explorer, Place } from '../explorer.ts';
import type { Environment, Round } from './environment.ts';
import { brokenCalls, listCalls } from './environments.ts';

/** Events of one way: far beyond what any limit lets a run have. */
const LONGEST = 5_000;

/** Thin ways deep into a run. Every step is held to everything, and no other way is taken. */
export class Drive {
  readonly #explorer: Explorer;
  readonly #agent: ExploredAgent;
  readonly #environment: Environment;

  constructor(explorer: Explorer, agent: ExploredAgent, environment: Environment) {
    this.#explorer = explorer;
    this.#agent = agent;
    this.#environment = environment;
  }

  /** Places from which one more turn, call or failure reaches a limit. */
  listPlacesNearLimits(): Place[] {
    const { start } = this.#explorer;
    const { limits } = this.#agent.config;
    const places = [this.#spendTurns(limits.turns - 1)];
    const call = listCalls(this.#agent).find(({ executedBy }) => executedBy === 'engine');
    if (call !== undefined && limits.toolCalls - 1 < LONGEST) {
      const all = Array.from({ length: Math.max(0, limits.toolCalls - 1) }, () => call);
      if (all.length > 0) places.push(this.#round(start, all));
    }
    if (limits.repeatedFailures !== undefined) places.push(this.#fail(limits.repeatedFailures - 1));
    return places.filter((place, index) => places.indexOf(place) === index);
  }

  /** To the end, or as far as anything goes: one tool over and over, all in turn, and turns without any. */
  goDeep(): void {
    const { turns } = this.#agent.config.limits;
    const rounds = Math.min(turns, LONGEST) + 3;
    const byTool = this.#agent.tools.map(tool => listCalls({ ...this.#agent, tools: [tool] }).slice(0, 1));
    const calls = byTool.flat();
    for (const call of calls) this.#repeat(rounds, () => [call]);
    if (calls.length > 1) this.#repeat(rounds, index => calls.slice(index % calls.length).slice(0, 1));
    this.#spendTurns(rounds);
    this.#fail(rounds);
  }

  /** What is looked at, and not walked on from: more calls at once than the run may make. */
  tryProbes(): void {
    for (const round of this.#environment.probes) this.#callIn(this.#explorer.start, round);
  }

  /** One turn after another that asks for a tool that does not exist: the least that a turn can be. */
  #spendTurns(count: number): Place {
    const [unknown] = brokenCalls(this.#agent);
    let place = this.#explorer.start;
    for (let turn = 0; turn < count && turn < LONGEST && unknown !== undefined; turn += 1) {
      const after = this.#callIn(place, [{ ...unknown, input: { try: turn } }]);
      if (after === null) return place;
      place = after;
    }
    return place;
  }

  /** The same call that cannot run, over and over. */
  #fail(count: number): Place {
    const [unknown] = brokenCalls(this.#agent);
    let place = this.#explorer.start;
    for (let turn = 0; turn < count && turn < LONGEST && unknown !== undefined; turn += 1) {
      const after = this.#callIn(place, [unknown]);
      if (after === null) return place;
      place = after;
    }
    return place;
  }

  #repeat(count: number, roundOf: (index: number) => Round): void {
    let place = this.#explorer.start;
    for (let index = 0; index < count; index += 1) {
      const after = this.#round(place, roundOf(index));
      if (after === place) return;
      place = after;
    }
  }

  /** A turn of these calls, and all that it takes until the next one. */
  #round(from: Place, round: Round): Place {
    const called = this.#callIn(from, round);
    if (called === null) return from;
    let place = called;
    const longest = place.depth + 4 * round.length + 20;
    while (place.state.status === 'active' && !statePath(place.state).startsWith('turn')) {
      const after = this.#goOn(place);
      if (after === null || after.depth > longest) return place;
      place = after;
    }
    return place;
  }

  #callIn(place: Place, round: Round): Place | null {
    const { context } = place.state;
    if (place.state.status !== 'active' || !statePath(place.state).startsWith('turn')) return null;
    const told: Told = makeCallingTurn(round, context, this.#environment);
    return this.#take(place, told);
  }

  /** The first thing that leads on: everybody says yes. */
  #goOn(place: Place): Place | null {
    const { context } = place.state;
    for (const call of context.calls) {
      const told = this.#answer(call);
      const after = told === null ? null : this.#take(place, told);
      if (after !== null) return after;
    }
    if (context.timer !== null) return this.#take(place, { type: 'timer.fired', at: context.timer });
    return statePath(place.state) === 'finishing' ? this.#take(place, { type: 'finishers.completed' }) : null;
  }

  #answer({ callId, name, digest, status, attempt }: Call): Told | null {
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
        return { type: 'result.received', callId, output, isError: false };
      case 'doubted':
        return { type: 'doubt.resolved', callId, resolution: { type: 'happened', output } };
      case 'ready':
      case 'settled':
        return null;
    }
  }

  #take(place: Place, told: Told): Place | null {
    const event: ChartEvent = stamp(place.state.context, told);
    return this.#explorer.take(place, event)?.place ?? null;
  }
}
