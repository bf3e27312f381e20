import type { AgentMachine } from '../../machines/agent.ts';
import { fromStored, pendingServices, toStored } from '../../machines/snapshot.ts';
import type { ChartState, Step } from '../../machines/step.ts';
import type { ServiceInput } from '../../protocol/effect.ts';

/**
 * Simulates the end of the process: restores the run from its JSON alone. Returns the restored state and the
 * services to start, by id. Throws the errors of reading the JSON.
 */
export function dropProcess(
  state: ChartState,
  machine: AgentMachine,
): { restored: ChartState; services: Record<string, ServiceInput> } {
  const restored = fromStored(JSON.parse(JSON.stringify(toStored(state))), machine);
  return {
    restored,
    services: Object.fromEntries(pendingServices(restored).map(({ id, input }) => [id, input])),
  };
}

/** Returns the first difference between two steps, or `null` if they are equal. */
export function compareSteps(expected: Step, found: Step): string | null {
  const [one, other] = [toText(expected), toText(found)];
  return one === other ? null : describeDifference(one, other);
}

function toText({ state: { value, context, status }, effects }: Step): string {
  return JSON.stringify({ value, status, effects, context });
}

function describeDifference(expected: string, found: string): string {
  let at = 0;
  while (expected[at] === found[at]) at += 1;
  const from = Math.max(0, at - 60);
  return `expected …${expected.slice(from, at + 80)}…, got …${found.slice(from, at + 80)}…`;
}
