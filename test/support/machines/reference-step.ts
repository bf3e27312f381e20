import { transition } from 'xstate';
import { agentMachine, endCancelled } from '../../../machines/agent.ts';
import type { ChartState } from '../../../machines/step.ts';
import type { Effect, ServiceInput } from '../../../protocol/effect.ts';
import type { ChartEvent } from '../../../protocol/event.ts';

type Action = { type: string; params: unknown };

export type ReferenceStep = { state: ChartState; effects: string[] };

/** The step of XState's own pure `transition`, which `next` must equal. */
export function transitionOf(state: ChartState, event: ChartEvent): ReferenceStep {
  const [after, actions] = transition(agentMachine, state, event);
  return { state: after, effects: nameActions(actions) };
}

function nameActions(actions: readonly Action[]): string[] {
  return actions.flatMap(({ type, params }) => {
    if (type === endCancelled.name) return [];
    if (type === 'xstate.emit') return [`publish ${JSON.stringify((params as { event: unknown }).event)}`];
    if (type === 'xstate.stopChild') {
      return params === undefined ? [] : [`stop ${(params as { id: string }).id}`];
    }
    const { id, src, input } = params as { id: string; src: string; input: ServiceInput };
    return [`start ${src} ${id} ${JSON.stringify(input)}`];
  });
}

/** An effect in the notation of the actions above. */
export function nameEffect(effect: Effect): string {
  switch (effect.type) {
    case 'publish':
      return `publish ${JSON.stringify(effect.notice)}`;
    case 'stop':
      return `stop ${effect.id}`;
    case 'start':
      return `start ${effect.service} ${effect.id} ${JSON.stringify(effect.input)}`;
  }
}
