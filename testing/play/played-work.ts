import { createAgent } from '../../agent/agent.ts';
import type { AgentOptions } from '../../agent/agent-options.ts';
import type { RunParts, RunSupervisor } from '../../engine/driver/run-options.ts';
import { Supervisor } from '../../engine/driver/supervisor.ts';
import { Stopped } from '../../engine/services/service.ts';
import { findCall } from '../../machines/calls.ts';
import { describeWaiting } from '../../machines/settled.ts';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import { InDoubt } from '../../protocol/error.ts';
import type { RunStarted } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';
import type { Tool } from '../../protocol/tool.ts';
import { standInModel } from './hand-off-tool.ts';
import type { OutcomeEvent, RecordedInput } from './repeat-input.ts';

type Message = Extract<RecordedInput, { type: 'message.received' }>;

/**
 * The work in the background of a played run. Each run that would do it begins once `begins` resolves, with what is
 * recorded of its call, and does nothing: no tool and no agent is reached. Its outcome is the recorded one.
 */
export class PlayedWork {
  /** For the agent that plays. */
  readonly options: Required<Pick<AgentOptions, 'store' | 'makeSupervisor'>>;
  /** The runs that recorded work began, by those that stand for them here. */
  readonly recordedIds = new Map<string, string>();
  readonly #held = new Set<string>();
  readonly #ended = new AbortController();
  #top: { parts: RunParts; supervisor: Supervisor } | undefined;

  constructor(
    store: Store,
    runId: string,
    begins: (callId: string, signal: AbortSignal) => Promise<OutcomeEvent | 'go'>,
  ) {
    const hold = async ({ runId: heldId, parent }: RunStarted) => {
      const isOwn = parent?.runId === runId;
      const call = isOwn && this.#top && findCall(this.#top.parts.log.state.context, parent.callId);
      if (!isOwn || !call || call.background !== true) return;
      const begun = await begins(call.callId, this.#ended.signal).catch(() => {
        throw new Stopped('The played run ends here.');
      });
      if (begun !== 'go' && begun.type === 'tool.doubted') throw new InDoubt(begun.reason);
      if (begun !== 'go' && begun.type === 'tool.suspended') this.recordedIds.set(heldId, begun.childRunId);
      this.#held.add(heldId);
    };
    this.options = {
      store: {
        ...store,
        create: async (started, ...rest) => {
          await hold(started);
          return await store.create(started, ...rest);
        },
      },
      makeSupervisor: parts => {
        if (this.#held.has(parts.options.runId)) return new HeldRun(parts);
        const supervisor = new Supervisor(parts);
        if (parts.options.runId === runId) this.#top ??= { parts, supervisor };
        return supervisor;
      },
    };
  }

  /** Whether the work of a call has begun, and its outcome is not there. */
  isOpen(callId: string): boolean {
    return this.#findOpen(callId) !== undefined;
  }

  /** Gives the run the recorded outcome of the work of a call, which may have another id there. */
  async deliver({ at: _, from, items, ...event }: Message, callId: string): Promise<void> {
    const childRunId = this.#findOpen(callId)?.childRunId;
    if (this.#top === undefined || from === undefined || childRunId === undefined)
      throw new Error(`no work of call ${callId} is open`);
    const renamed = items.map(item => renameCall(item, from.callId, callId));
    const outcome = { ...event, items: renamed, from: { callId, runId: childRunId } };
    const result = await this.#top.supervisor.put([() => outcome]);
    if (!result.accepted) throw new Error(`the outcome was refused: ${result.message}`);
  }

  /** No other work begins. */
  end(): void {
    this.#ended.abort();
  }

  #findOpen(callId: string) {
    return this.#top?.parts.log.state.context.background.find(work => work.callId === callId);
  }
}

/** The engine's words before the outcome name the call. */
function renameCall(item: Item, from: string, to: string): Item {
  if (from === to || item.type !== 'message' || item.outcomeOf === undefined) return item;
  const [words, ...rest] = item.content;
  const isText = words?.type === 'text';
  const renamed = isText ? { ...words, text: words.text.replace(`call ${from} (`, `call ${to} (`) } : words;
  const content = renamed === undefined ? [] : [renamed, ...rest];
  return { ...item, outcomeOf: { ...item.outcomeOf, callId: to }, content };
}

/** A run that nothing drives. */
class HeldRun implements RunSupervisor {
  readonly driver = null;
  readonly activity = 'at-rest';
  readonly failure = null;
  readonly inherited = [];
  readonly #log: RunParts['log'];

  constructor({ log }: RunParts) {
    this.#log = log;
  }

  async refresh() {
    await this.#log.catchUp();
  }

  async put(makes: Parameters<RunSupervisor['put']>[0]) {
    return await this.#log.put(makes);
  }

  async settled() {
    return describeWaiting(this.#log.state.context);
  }

  async tryToDrive() {
    return false;
  }

  async drive() {}
  async yield() {}
  begin() {}
  wakeAtExpiry() {}
}

/** A tool whose work in the background is the run of an agent, by an agent that stands in for it and is not called. */
export function backgroundTool(tool: Tool, model: ModelAdapter | undefined): Tool {
  const { provider = 'recording', model: name = 'recording' } = model ?? {};
  const standIn = createAgent({
    name: `${tool.name} in the background`,
    model: standInModel({ provider, model: name }, async () => {
      throw new Error('It is not called.');
    }),
  });
  const { subAgent, run } = standIn.asTool({
    name: tool.name,
    description: tool.description,
    background: true,
  });
  return { ...tool, background: true, ...omitUndefined({ subAgent, run }) };
}
