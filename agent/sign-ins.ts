import { listAll, type RunRecord } from '../protocol/store.ts';
import type { ToolSignIn } from '../protocol/tool.ts';
import type { Agent } from './agent.ts';
import { namesOf, toolSourcesOf } from './sub-agents.ts';

/** How people sign in at the tool servers of an agent and of its sub-agents. */
export function signInsOf(agent: Agent): ToolSignIn[] {
  return toolSourcesOf(agent).flatMap(({ signIn }) => signIn ?? []);
}

/**
 * The runs in the agent's store, of it and its sub-agents, that wait for a sign-in at the server; `topId` is the topmost run
 * of each, which has to be told that a person has signed in.
 */
export async function* runsAwaitingSignIn(
  agent: Agent,
  server: string,
): AsyncGenerator<{ runId: string; topId: string }> {
  const names = new Set(namesOf(agent));
  const { store } = agent;
  for await (const record of listAll(store, { status: 'waiting', onDamaged: () => {} })) {
    const waits = record.waitsFor?.some(({ type, callId }) => type === 'sign-in' && callId === server);
    if (waits !== true || !names.has(record.agent)) continue;
    let top: RunRecord = record;
    while (top.parent !== undefined) {
      const above = await store.get(top.parent.runId);
      if (above === undefined) break;
      top = above;
    }
    yield { runId: record.runId, topId: top.runId };
  }
}
