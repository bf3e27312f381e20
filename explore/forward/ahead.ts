import { type Step, statePath } from '../../machines/step.ts';
import type { ChartEvent } from '../../protocol/event.ts';
import type { JsonValue } from '../../protocol/json.ts';
import type { SideEffect } from '../../protocol/tool.ts';
import type { ExploredTool } from '../describe-agent.ts';
import type { Place } from '../place.ts';

/** A tool, and what has to come before its calls. Without both members, no call of it can start any more. */
export type ToolAhead = {
  tool: string;
  sideEffect: SideEffect;
  /** An input with which a call can start without any further approval. */
  freely?: JsonValue;
  /** An input with which a call can start only after a person approved it. */
  approved?: JsonValue;
};

/** The step that reaches a state, of the shortest path found. */
type LastStep = { before: Place; event: ChartEvent; people: People };

/** What people do in a walk: they approve nothing, decide, or do everything they can. */
type People = 'refuse' | 'decide' | 'act';

/** Gathers what the walks of an exploration meet. */
export class Ahead {
  people: People = 'act';
  /** Whether a model call can complete. */
  takesTurns = false;
  /** The states that can come, if possible without messages, pauses and edits. */
  readonly states = new Map<string, LastStep>();
  readonly #free = new Set<string>();
  readonly #starts = { freely: new Map<string, JsonValue>(), approved: new Map<string, JsonValue>() };

  /** Takes an accepted event. */
  take(before: Place, event: ChartEvent, { state }: Step): void {
    const path = statePath(state);
    const known = this.states.get(path);
    const { people } = this;
    const isBetter = people !== 'act' || known?.people === 'act';
    if (known === undefined || (isBetter && before.depth < known.before.depth))
      this.states.set(path, { before, event, people });
    if (event.type === 'turn.completed') this.takesTurns = true;
    this.#findStarts(before, event, state);
  }

  /** Whether a call of an engine's tool can start. */
  get startsTools(): boolean {
    return this.#starts.freely.size + this.#starts.approved.size > 0;
  }

  /** Returns the tools with what was met of them. */
  listTools(tools: readonly ExploredTool[]): ToolAhead[] {
    const { freely, approved } = this.#starts;
    return tools.map(({ name, sideEffect }) => ({
      tool: name,
      sideEffect,
      ...(freely.has(name) && { freely: freely.get(name) ?? null }),
      ...(approved.has(name) && { approved: approved.get(name) ?? null }),
    }));
  }

  /** A call starts when the engine starts it, or when a client gets it. */
  #findStarts({ state: before }: Place, event: ChartEvent, { context }: Step['state']): void {
    if (event.type !== 'tool.started' && event.type !== 'turn.completed' && event.type !== 'approval.decided')
      return;
    for (const { callId, name, input, status, gate } of context.calls) {
      const isStarted = event.type === 'tool.started' ? event.callId === callId : status === 'waiting';
      if (!isStarted || before.context.calls.find(call => call.callId === callId)?.status === status)
        continue;
      if (this.people === 'refuse') {
        this.#free.add(`${callId} ${gate}`);
        keep(this.#starts.freely, name, input);
      } else if (gate && !this.#free.has(`${callId} ${gate}`)) keep(this.#starts.approved, name, input);
    }
  }
}

function keep(inputs: Map<string, JsonValue>, tool: string, input: JsonValue): void {
  if (!inputs.has(tool)) inputs.set(tool, input);
}
