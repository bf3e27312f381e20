import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { Settled } from '../../../engine/log/settled.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { Tool, ToolSource } from '../../../protocol/tool.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';
import { type Finding, found } from './finding.ts';

/** A scripted model that records the length of the longest request, in characters of JSON. */
export class WatchedModel implements ModelAdapter {
  longest = 0;
  readonly #inner: ModelAdapter;
  readonly provider;
  readonly model;
  readonly capabilities;

  constructor(turns: readonly ScriptedTurn[]) {
    this.#inner = scripted(turns);
    ({ provider: this.provider, model: this.model, capabilities: this.capabilities } = this.#inner);
  }

  generate(request: ModelRequest, call: { signal: AbortSignal }) {
    this.#measure(request);
    return this.#inner.generate(request, call);
  }

  stream(request: ModelRequest, call: { signal: AbortSignal }) {
    this.#measure(request);
    return this.#inner.stream(request, call);
  }

  #measure(request: ModelRequest): void {
    this.longest = Math.max(this.longest, JSON.stringify(request.transcript).length);
  }
}

/**
 * Runs an agent with these tools to its end, with a person who resolves every doubt as failed. Returns the faults
 * at the end: the model must have read a result for every call.
 */
export async function runToEnd(
  model: ModelAdapter,
  tools: readonly (Tool | ToolSource)[],
  options: { stream?: boolean } = {},
): Promise<{ settled: Settled; findings: Finding[]; stateLength: number }> {
  const agent = createAgent({ name: 'attacked', model, tools, retry: { baseMs: 1 } });
  const run = await agent.start('go', options);
  let settled = await run.settled();
  for (let left = 10; settled.status === 'waiting' && left > 0; left -= 1) {
    for (const { callId } of settled.doubts) await run.resolve(callId, { failed: 'written off' });
    settled = await run.settled();
  }
  const stateLength = JSON.stringify(run.snapshot()).length;
  await agent.close();
  return { settled, findings: checkEnd(settled), stateLength };
}

function checkEnd(settled: Settled): Finding[] {
  switch (settled.status) {
    case 'finished':
      return [];
    case 'failed':
      return [
        found('broken', `the run failed: ${settled.error.code} ${settled.error.message.slice(0, 200)}`),
      ];
    default:
      return [found('stranded', `the run is ${settled.status}`)];
  }
}
