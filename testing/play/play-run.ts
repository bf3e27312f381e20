import { repeatCommand } from '../../engine/log/command.ts';
import type { CommandResult } from '../../engine/log/refusal.ts';
// testing/play: playing a recorded run again: its model, tools and people answer as recorded.

import { type Agent, createAgent } from '../../agent/agent.ts';
import { loadRun } from '../../engine/journal/load-run.ts';
import { describeOutcome, type Outcome } from '../../engine/replay/describe-outcome.ts';
import {
  offeredTools,
  type RecordedEvent,
  type RecordedRun,
  type Recording,
} from '../../engine/replay/record-run.ts';
import type { Run } from '../../engine/run/run.ts';
import { callsOf, type InputEvent, type RunEvent } from '../../protocol/event.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';
import { memory } from '../../stores/memory.ts';
import { playFinishers } from './play-finishers.ts';
import { playModel } from './play-model.ts';
import { playTool } from './play-tool.ts';
import { FINISHER, MODEL, Stage, sourceOf } from './stage.ts';
import { StageHost } from './stage-host.ts';

/**
 * Plays a recorded run again, after the runs that it continues. The agent loop runs in memory on the recording's
 * clock; the model's turns, the tools' results and people's decisions are repeated at their recorded times.
 * Resolves to the outcome of the last run. Rejects with an `Error` that names the event where a run diverges.
 *
 * @example
 * // `agentchart export RUN --test --out refund.test.ts` writes such a test, with the recording.
 * expect(await playRun(recording)).toEqual(expected);
 */
export async function playRun(recording: Recording): Promise<Outcome> {
  const store = memory();
  let outcome: Outcome | undefined;
  for (const recorded of recording) outcome = await playOne(recorded, store);
  if (outcome === undefined) throw new Error('The recording has no run.');
  return outcome;
}

async function playOne(recorded: RecordedRun, store: Store): Promise<Outcome> {
  const { started, events } = recorded;
  const { runId } = started;
  const [host, stage] = [new StageHost(started.at), new Stage()];
  const agent = makeAgent(recorded, { host, stage, store });
  const run = await begin(agent, recorded);
  const played = new PlayedEvents(store, runId);
  for (const [place, event] of events.entries()) {
    try {
      await playEvent({ run, host, stage, event });
      await stage.waitFor(
        async () => (await played.read()).length > place,
        () => 'the run recorded no event',
      );
      const name = (await played.read())[place];
      if (name !== nameOf(event)) throw new Error(`the run recorded ${name} instead`);
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      throw new Error(
        `Run ${runId} diverges from its recording at event ${place + 1} of ${events.length}, ${nameOf(event)}: ${message}.`,
        { cause: error },
      );
    }
  }
  await stage.rest();
  return describeOutcome((await loadRun(store, runId)).state);
}

/** Events that follow from the others and are not in a recording. */
const LEFT_OUT: ReadonlySet<RunEvent['type']> = new Set([
  ...(['run.started', 'run.claimed', 'run.noted', 'run.redacted', 'tool.late'] as const),
  ...(['text.started', 'calls.started', 'tool.started'] as const),
]);

/** The names of a played run's events, without those that recordings leave out. */
class PlayedEvents {
  readonly #store: Store;
  readonly #runId: string;
  readonly #names: string[] = [];
  #seq = 0;

  constructor(store: Store, runId: string) {
    this.#store = store;
    this.#runId = runId;
  }

  /** Reads new events and returns the names of all. */
  async read(): Promise<readonly string[]> {
    for (const { seq, event } of await this.#store.read(this.#runId, this.#seq)) {
      this.#seq = seq;
      if (!LEFT_OUT.has(event.type)) this.#names.push(nameOf(event));
    }
    return this.#names;
  }
}

type Environment = { host: StageHost; stage: Stage; store: Store };

function makeAgent({ started, tools, events }: RecordedRun, { host, stage, store }: Environment): Agent {
  const { agent, config } = started;
  const calls = new Map(
    events.flatMap(event => callsOf(event).map(call => [call.callId, { call, at: event.at }] as const)),
  );
  const completed = events.filter(event => event.type === 'turn.completed');
  return createAgent({
    name: agent.name,
    host,
    store,
    model: config.models.map(model => playModel(stage, model)),
    tools: tools.map(tool => playTool(stage, tool, callId => calls.get(callId))),
    prepareTurn: ({ turns }) => {
      const [names] = (completed[turns]?.calls ?? []).map(offeredTools).filter(tools => tools !== undefined);
      return names === undefined ? undefined : { tools: names };
    },
    maxResultBytes: Number.MAX_SAFE_INTEGER,
    toolConcurrency: Number.MAX_SAFE_INTEGER,
    toolChoice: config.toolChoice,
    finalAnswer: config.finalAnswer,
    onMessage: config.onMessage,
    onLimit: config.onLimit,
    limits: config.limits,
    retry: { attempts: config.attempts, baseMs: 0, maxMs: 0 },
    ...omitUndefined({ version: agent.version, prices: config.prices }),
    ...(config.finishers ? playFinishers(stage, events) : {}),
  });
}

async function begin(agent: Agent, { started }: RecordedRun): Promise<Run> {
  const { runId, input, stream, paused, continues, config } = started;
  return await agent.start(input, {
    runId,
    stream,
    ...omitUndefined({ paused, continues, holdsAtEnd: config.holdsAtEnd }),
  });
}

type Moment = { run: Run; host: StageHost; stage: Stage; event: RecordedEvent };

async function playEvent({ run, host, stage, event }: Moment): Promise<void> {
  switch (event.type) {
    case 'turn.completed':
    case 'turn.failed':
      host.moveTo(event.at);
      return await stage.deliver(MODEL, event);
    case 'tool.settled':
    case 'tool.doubted':
      host.moveTo(event.at);
      return await stage.deliver(sourceOf(event.callId), event);
    case 'finishers.completed':
    case 'finishers.rejected':
      host.moveTo(event.at);
      return await stage.deliver(FINISHER, event);
    case 'timer.fired':
      await stage.rest();
      host.moveTo(Math.max(event.at, run.context.timer ?? event.at));
      return host.fireDueTimers();
    default:
      await stage.rest();
      host.moveTo(event.at);
      return await submit(run, event);
  }
}

/** Submits the command that a recorded event came from. */
async function submit(run: Run, event: RecordedInput): Promise<void> {
  const result =
    event.type === 'transcript.edited' ? await edit(run, event) : await run.submit([repeatCommand(event)]);
  if (!result.accepted) throw new Error(`the command was refused: ${result.message}`);
}

type RecordedInput = Extract<RecordedEvent, { type: InputEvent['type'] }>;
type Edited = Extract<RecordedInput, { type: 'transcript.edited' }>;

/** An edit that drops the result of a known call was a `retry` of that call. */
async function edit(run: Run, { items, calls, results = [], by }: Edited): Promise<CommandResult> {
  const sender = omitUndefined({ by });
  const kept = new Set(results.map(({ callId }) => callId));
  const known = run.context.transcript.flatMap(item => (item.type === 'tool_result' ? [item.callId] : []));
  const again = calls.find(({ callId }) => !kept.has(callId) && known.includes(callId));
  return again === undefined
    ? await run.editTranscript(items, sender)
    : await run.retry(again.callId, sender);
}

function nameOf(event: RecordedEvent | RunEvent): string {
  return 'callId' in event ? `${event.type} ${event.callId}` : event.type;
}
