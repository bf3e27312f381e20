import { createAgent, tool } from '../../agent/index.ts';
import { loadRun } from '../../engine/journal/load-run.ts';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import type { Item } from '../../protocol/item.ts';
import type { Store, StoredSnapshot } from '../../protocol/store.ts';
import type { ModelTurn } from '../../protocol/turn.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { inputSchema } from './measure-tool.ts';
import { makeCall, makeResult, type StepContender } from './step-contender.ts';

/** Opens Agentchart with default options except its limits, and counts the bytes passed to the store. */
export function openJournaledSteps(file: string): StepContender {
  const store = sqlite(file);
  let bytes = 0;
  const snapshots: StoredSnapshot[] = [];
  const counted: Store = {
    ...bindAll(store),
    create: (event, claim, rest) => {
      bytes += JSON.stringify(event).length;
      return store.create(event, claim, rest);
    },
    append: (runId, guard, events, status) => {
      for (const event of events) bytes += JSON.stringify(event).length;
      return store.append(runId, guard, events, status);
    },
    saveSnapshot: (runId, snapshot) => {
      const text = JSON.stringify(snapshot.state);
      bytes += text.length;
      snapshots.push({ seq: snapshot.seq, state: JSON.parse(text) });
      return store.saveSnapshot(runId, snapshot);
    },
  };
  return {
    async run(steps, onStep) {
      const agent = createAgent({
        name: 'steps',
        store: counted,
        model: makeModel(steps, onStep),
        limits: { turns: 10_000, toolCalls: 10_000 },
        tools: [
          tool({
            name: 'measure',
            description: 'Measures a point.',
            input: inputSchema,
            run: async ({ point }) => await makeResult(point),
          }),
        ],
      });
      const settled = await agent.run('Measure the points.', { runId: 'run_steps', stream: false });
      if (settled.status !== 'finished') throw new Error(`The run is ${settled.status}.`);
      await agent.close();
    },
    handedBytes: () => bytes,
    /** As after a crash right before the end: a fifth of the journal follows the snapshot. */
    async resume() {
      const [snapshot] = snapshots.slice(-2);
      const { state } = await loadRun({ ...bindAll(store), loadSnapshot: async () => snapshot }, 'run_steps');
      return state.context.transcript.length;
    },
    close: () => store.close(),
  };
}

function makeModel(steps: number, onStep: (step: number) => void): ModelAdapter {
  let step = 0;
  const answer = (): ModelTurn => {
    onStep(step);
    const turn = step < steps ? callTurn(step) : finalTurn();
    step += 1;
    return turn;
  };
  return {
    provider: 'bench',
    model: 'steps',
    capabilities: {
      streaming: false,
      parallelToolCalls: true,
      reasoningReplay: false,
      serverTools: false,
      structuredOutput: 'instructions',
      continuation: false,
      usage: false,
    },
    generate: async () => answer(),
    async *stream() {
      yield { type: 'turn', turn: answer() };
    },
  };
}

const REST = { reasoning: '', usage: null, model: 'steps' };

function callTurn(step: number): ModelTurn {
  const { callId, name, input } = makeCall(step);
  const call = { callId, name, arguments: JSON.stringify(input) };
  return {
    ...REST,
    text: '',
    toolCalls: [{ ...call, input, executedBy: 'engine' }],
    finishReason: 'tool_calls',
    items: [{ type: 'tool_call', ...call }],
  };
}

function finalTurn(): ModelTurn {
  const text = 'Measured.';
  const message: Item = { type: 'message', role: 'assistant', content: [{ type: 'text', text }] };
  return { ...REST, text, toolCalls: [], finishReason: 'stop', items: [message] };
}

/** Returns the store with bound methods. */
function bindAll(store: Store): Store {
  return {
    create: store.create.bind(store),
    adopt: store.adopt.bind(store),
    append: store.append.bind(store),
    read: store.read.bind(store),
    claim: store.claim.bind(store),
    renew: store.renew.bind(store),
    release: store.release.bind(store),
    saveSnapshot: store.saveSnapshot.bind(store),
    loadSnapshot: store.loadSnapshot.bind(store),
    get: store.get.bind(store),
    list: store.list.bind(store),
    totals: store.totals.bind(store),
    putBlob: store.putBlob.bind(store),
    readBlob: store.readBlob.bind(store),
    chain: store.chain.bind(store),
    delete: store.delete.bind(store),
    prune: store.prune.bind(store),
    redact: store.redact.bind(store),
    rewrite: store.rewrite.bind(store),
    close: store.close.bind(store),
  };
}
