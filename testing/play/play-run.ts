import type { StandardSchemaV1 } from '@standard-schema/spec';
import { type Agent, createAgent } from '../../agent/agent.ts';
import type { AgentOptions } from '../../agent/agent-options.ts';
import { loadRun } from '../../engine/journal/load-run.ts';
import { describeOutcome, type Outcome } from '../../engine/replay/describe-outcome.ts';
import {
  type RecordedEvent,
  type RecordedRun,
  type RecordedTool,
  type Recording,
  recordedTools,
} from '../../engine/replay/record-run.ts';
import type { Run } from '../../engine/run/run.ts';
import type { Context } from '../../machines/context.ts';
import { hasEnded } from '../../machines/status.ts';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import type { RunConfig } from '../../protocol/config.ts';
import { messageOf, ProviderError } from '../../protocol/error.ts';
import {
  type CallVerdict,
  callsOf,
  type QualifiedCall,
  type RunEvent,
  type Spent,
} from '../../protocol/event.ts';
import type { AnswerGuardrail, GuardrailContext, ToolInputGuardrail } from '../../protocol/guardrail.ts';
import { canonicalJson, omitUndefined } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';
import type { Tool } from '../../protocol/tool.ts';
import type { ModelTurn, ToolCall } from '../../protocol/turn.ts';
import { type Rule, rule } from '../../rules/rule.ts';
import { memory } from '../../stores/memory.ts';
import { isToolSource } from '../../tools/connect-tools.ts';
import { limitsToPlay, optionsToPlay, playedTool, repeatOutcome } from './follow-recording.ts';
import { asOutcome, HAND_OFF, handOffTool } from './hand-off-tool.ts';
import { backgroundTool, PlayedWork } from './played-work.ts';
import { repeatInput } from './repeat-input.ts';
import { ANSWER_CHECK, MODEL, Stage as Requests, StageHost, sourceOf } from './stage.ts';

// testing/play: playing a recorded run again: its model, tools and people answer as recorded.

/** How long a function of the user's agent may take, in ms. */
const PATIENCE_MS = 5_000;

/**
 * Plays a recorded run again, after the runs that it continues. The agent loop runs in memory on the recording's
 * clock; the model's turns, the tools' results and people's decisions are repeated at their recorded times.
 * Resolves to the outcome of the last run. Rejects with an `Error` that names the event where a run diverges.
 *
 * With `agent`, its schemas, approvals, rules, guardrails and prompts take part: a call that it now checks, gates or judges
 * otherwise diverges. Its model and tools are not called, and its tool servers are not started.
 *
 * @example
 * // `agentchart export RUN --test --out refund.test.ts` writes such a test, with the recording.
 * expect(await playRun(recording, agent)).toEqual(expected);
 */
export async function playRun(recording: Recording, agent?: Agent): Promise<Outcome> {
  const store = memory();
  const ids = new Map<string, string>();
  let outcome: Outcome | undefined;
  for (const recorded of recording) outcome = await playOne(recorded, { store, ids }, agent);
  if (outcome === undefined) throw new Error('The recording has no run.');
  return outcome;
}

/** `ids`: of the runs that recorded work in the background began, by those that begin here. */
async function playOne(
  recorded: RecordedRun,
  { store, ids }: { store: Store; ids: Map<string, string> },
  own: Agent | undefined,
): Promise<Outcome> {
  const { started } = recorded;
  const events = recorded.events
    .map(event => (own === undefined ? event : asOutcome(event)))
    .filter((event): event is PlayedEvent => event.type !== 'call.judged');
  const { runId, input, stream, paused, continues, config, by, runContext } = started;
  const host = new StageHost({ now: started.at, name: 'played_' });
  const stage = new Stage({ patienceMs: own === undefined ? 0 : PATIENCE_MS });
  const work = new PlayedWork(store, runId, async (callId, signal) => {
    const event = await stage.request(sourceOf(callId), signal);
    if (event.type === 'tool.suspended' || event.type === 'tool.doubted') return event;
    throw new Error(`Expected the work of call ${callId} to begin, got ${event.type}.`);
  });
  const environment = { host, stage, work: work.options };
  const agent =
    own === undefined ? makeAgent(recorded, environment) : withRecording(own, recorded, environment);
  const run = await agent.start(input, {
    runId,
    stream,
    ...omitUndefined({ paused, continues, holdsAtEnd: config.holdsAtEnd }),
    ...(own !== undefined && limitsToPlay(own.options.limits, config)),
    ...(own !== undefined && omitUndefined({ by, runContext })),
  });
  stage.contextOf = () => run.context;
  stage.isOver = () => hasEnded(run.durable.state);
  const readPlayed = playedEvents(store, runId);
  for (const [place, event] of events.entries()) {
    try {
      const isThere = async () => (await readPlayed()).length > place;
      await playEvent({ run, host, stage, work, event, own, isThere });
      await stage.waitFor(isThere, () => 'the run recorded no event');
      const played = (await readPlayed())[place];
      const name = played && nameOf(played);
      if (name !== nameOf(event)) throw new Error(`the run recorded ${name} instead`);
      const change = own && played && findChange(event, played);
      if (change !== undefined) throw new Error(change);
    } catch (error) {
      throw new Error(
        `Run ${runId} diverges from its recording at event ${place + 1} of ${events.length}, ${nameOf(event)}: ${messageOf(error)}.`,
        { cause: error },
      );
    }
  }
  await stage.rest();
  const further = own && (await readPlayed())[events.length];
  if (further !== undefined)
    throw new Error(
      `Run ${runId} diverges from its recording after its end: the run recorded ${nameOf(further)}.`,
    );
  for (const [played, known] of work.recordedIds) ids.set(played, known);
  return withIds(describeOutcome((await loadRun(store, runId)).state), ids);
}

/** A fork has receipts of the work that its original began, with the ids of the runs that do it. */
function withIds(outcome: Outcome, ids: ReadonlyMap<string, string>): Outcome {
  let text = JSON.stringify(outcome);
  for (const [played, known] of ids) if (played !== known) text = text.replaceAll(played, known);
  return JSON.parse(text);
}

/** Events that follow from the others, are not in a recording, or come in any order. */
const LEFT_OUT: ReadonlySet<RunEvent['type']> = new Set([
  ...(['run.started', 'run.claimed', 'run.noted', 'run.redacted', 'tool.late'] as const),
  ...(['text.started', 'calls.started', 'items.judged', 'call.judged'] as const),
  ...(['tool.started', 'tool.kept'] as const),
]);

function playedEvents(store: Store, runId: string): () => Promise<readonly RunEvent[]> {
  const events: RunEvent[] = [];
  let last = 0;
  return async () => {
    for (const { seq, event } of await store.read(runId, last)) {
      last = seq;
      if (!LEFT_OUT.has(event.type)) events.push(event);
    }
    return events;
  };
}

/** How the agent treats a call otherwise than it was recorded. */
function findChange(recorded: PlayedEvent, played: RunEvent): string | undefined {
  if (recorded.type === 'question.asked' && played.type === 'question.asked') {
    const [was, is] = [recorded, played].map(({ questions }) =>
      questions.map(({ message }) => message).join(' '),
    );
    return recorded.digest === played.digest ? undefined : `the tool asks "${is}", recorded: "${was}"`;
  }
  const now = callsOf(played);
  for (const [place, was] of callsOf(recorded).entries()) {
    const is = now[place];
    if (is === undefined) return `the call ${was.callId} is missing`;
    const [before, after] = [was, is].map(factsOf);
    const fact = FACTS.find(one => before?.[one] !== after?.[one]);
    if (fact === undefined) continue;
    const why = fact === 'validity' && is.error !== undefined ? ` (${is.error})` : '';
    return `${is.name}: ${fact} is ${after?.[fact]}${why}, recorded: ${before?.[fact]}`;
  }
  return undefined;
}

const FACTS = ['validity', 'approval', 'side effect', 'input', 'decided by'] as const;

function factsOf(call: QualifiedCall): Record<(typeof FACTS)[number], string> {
  const { by = [], not, quorum } = call;
  return {
    validity: call.error === undefined ? 'accepted' : 'refused',
    approval: call.gate ? 'needed' : 'not needed',
    'side effect': call.sideEffect,
    input: canonicalJson(call.input),
    'decided by': canonicalJson({ by: by.toSorted(), not: not ?? null, quorum: quorum ?? null }),
  };
}

/** The requests are fulfilled with recorded events. */
class Stage extends Requests<RecordedEvent> {
  /** Of the played run, once it is there. */
  contextOf?: () => Context;
}

type Environment = { host: StageHost; stage: Stage; work: PlayedWork['options'] };

function makeAgent({ started, tools, events }: RecordedRun, { host, stage, work }: Environment): Agent {
  const { agent, config } = started;
  const calls = new Map(
    events.flatMap(event => callsOf(event).map(call => [call.callId, { call, at: event.at }] as const)),
  );
  const completed = events.filter(event => event.type === 'turn.completed');
  return createAgent({
    name: agent.name,
    host,
    ...work,
    model: config.models.map(model => playModel(stage, model)),
    tools: tools.map(tool => {
      const played = playTool(stage, tool, callId => calls.get(callId));
      if (tool.background === 'call') return { ...played, background: true };
      const [model] = config.models;
      return tool.background === 'agent'
        ? backgroundTool(played, model && playModel(stage, model))
        : asking(played, { started, tools, events }, stage);
    }),
    prepareTurn: ({ turns }) => {
      const [names] = (completed[turns]?.calls ?? []).map(recordedTools).filter(tools => tools !== undefined);
      return names === undefined ? undefined : { tools: names };
    },
    maxResultBytes: Number.MAX_SAFE_INTEGER,
    toolConcurrency: stopsInOrder(events) ? 1 : Number.MAX_SAFE_INTEGER,
    toolChoice: config.toolChoice,
    finalAnswer: config.finalAnswer,
    onMessage: config.onMessage,
    onLimit: config.onLimit,
    limits: config.limits,
    retry: { attempts: config.attempts, baseMs: 0, maxMs: 0 },
    ...omitUndefined({
      version: agent.version,
      prices: config.prices,
      onUnknownUsage: config.onUnknownUsage,
      compaction: config.compaction && {
        at: config.compaction.at[0] ?? 1,
        keep: config.compaction.keep,
        summarize: events.some(event => event.type === 'transcript.compacted' && event.items !== undefined)
          ? ('provider' as const)
          : ('model' as const),
      },
    }),
    ...playGuardrails(stage, config, events),
    rules: playRules(stage, events, callId => calls.get(callId)?.call),
  });
}

/** The user's agent with the recorded replies and results. The tools of its servers are those that the recording names. */
function withRecording(own: Agent, recorded: RecordedRun, { host, stage, work }: Environment): Agent {
  const { tools, events, started } = recorded;
  const { models, attempts } = started.config;
  const options = optionsToPlay(own, recorded);
  const entries = options.tools ?? [];
  const written = entries.flatMap(entry => (isToolSource(entry) ? [] : [entry]));
  const names = new Set(written.map(({ name }) => name));
  const others = written.length === entries.length ? [] : tools.filter(({ name }) => !names.has(name));
  return createAgent({
    ...options,
    host,
    ...work,
    model: models.map(model => playModel(stage, model)),
    tools: [
      ...written.map(tool => {
        const [model] = models.map(one => playModel(stage, one));
        if (tool.answers === 'directly' && tool.subAgent !== undefined)
          return handOffTool(tool, model, signal => readAnswer(stage, signal));
        if (tool.background === true && tool.subAgent !== undefined) return backgroundTool(tool, model);
        const played = playedTool(tool, recorded, ({ callId, signal }) =>
          repeatResult(stage, callId, signal),
        );
        return asking(played, recorded, stage);
      }),
      ...others.map(tool => playTool(stage, tool, () => undefined)),
    ],
    maxResultBytes: Number.MAX_SAFE_INTEGER,
    toolConcurrency: stopsInOrder(events) ? 1 : Number.MAX_SAFE_INTEGER,
    retry: { attempts, baseMs: 0, maxMs: 0 },
  });
}

/** Whether calls of a turn had ended before another one stopped the run: then they ran one after the other. */
function stopsInOrder(events: readonly RecordedEvent[]): boolean {
  const place = events.findIndex(event => event.type === 'call.judged' && stopOf([event]) !== undefined);
  const turn = events.findLastIndex((event, at) => at < place && event.type === 'turn.completed');
  return place >= 0 && events.slice(turn, place).some(({ type }) => type === 'tool.settled');
}

function hasOutcome(events: readonly RecordedEvent[], callId: string): boolean {
  return events.some(event => 'callId' in event && event.callId === callId);
}

/** What keeps the calls of a turn from beginning once one of them has stopped the run. */
function stopOf(judged: readonly Judged[]): Pick<Judged, 'type' | 'verdicts' | 'reason'> | undefined {
  for (const { type, verdicts } of judged) {
    const stop = verdicts.find(({ verdict, shadow }) => verdict === 'stop' && shadow !== true);
    if (stop !== undefined) return { type, verdicts: [stop], reason: `stopped by the rule "${stop.rule}"` };
  }
  return undefined;
}

/**
 * The rules of the recorded run, which say what they said: of a call that is about to start, what was said right before its
 * start and is not known yet; of others, what stands with them.
 */
function playRules(
  stage: Stage,
  events: readonly RecordedEvent[],
  made: (callId: string) => QualifiedCall | undefined,
): Rule[] {
  const judged = events.filter(event => event.type === 'call.judged');
  const all = [...events.flatMap(callsOf), ...judged].flatMap(({ verdicts = [] }) => verdicts);
  const names = new Map(
    all.map(({ rule: name, shadow }) => [name, shadow === true ? 'shadow' : 'enforce'] as const),
  );
  const find = (callId: string) => {
    const open = stage.contextOf?.().calls.find(call => call.callId === callId);
    if (open?.status !== 'queued') return made(callId);
    const isKnown = ({ rule: name }: CallVerdict) => open.verdicts?.some(known => known.rule === name);
    const own = judged.find(event => event.callId === callId && !event.verdicts.every(isKnown));
    return own ?? (hasOutcome(events, callId) ? undefined : stopOf(judged));
  };
  return [...names].map(([name, mode]) =>
    rule({
      name,
      mode,
      when({ call }) {
        const found = find(call.callId);
        const verdict = found?.verdicts?.find(one => one.rule === name)?.verdict;
        if (found === undefined || verdict === undefined) return 'allow';
        if (verdict === 'ask') return 'ask';
        const said = 'error' in found ? found.error?.slice(NOT_RUN.length) : found.reason;
        return { type: verdict, reason: said ?? '' };
      },
    }),
  );
}

/** Whether an event comes from a function of the user's agent. */
function comesFrom({ options }: Agent, { type }: PlayedEvent): boolean {
  if (type === 'answer.checked' || type === 'answer.blocked' || type === 'review.requested') return true;
  return (
    (type === 'transcript.compacted' || type === 'compaction.failed') &&
    typeof options.compaction?.summarize === 'function'
  );
}

type Judged = Extract<RecordedEvent, { type: 'call.judged' }>;
type PlayedEvent = Exclude<RecordedEvent, Judged>;

type Moment = {
  run: Run;
  host: StageHost;
  stage: Stage;
  work: PlayedWork;
  event: PlayedEvent;
  own: Agent | undefined;
  /** Whether the run has recorded the event. */
  isThere(): Promise<boolean>;
};

/** A tool that asks what is recorded of its calls, if it has no code of its own that asks. */
function asking(tool: Tool, { events }: RecordedRun, stage: Stage): Tool {
  const asked = events.filter(event => event.type === 'question.asked');
  if (tool.prepare !== undefined || asked.length === 0) return tool;
  return {
    ...tool,
    prepare: async (_, { callId, askPeople }) => {
      const { asks = 0 } = stage.contextOf?.().calls.find(call => call.callId === callId) ?? {};
      const round = asked.filter(event => event.callId === callId)[asks];
      const questions = round?.questions.map(({ digest: _, expiresAt, ...question }) => ({
        ...question,
        ...(expiresAt !== undefined && { expiresInMs: expiresAt - round.at }),
      }));
      await Promise.all((questions ?? []).map(question => askPeople?.(question)));
    },
  };
}

async function playEvent({ run, host, stage, work, event, own, isThere }: Moment): Promise<void> {
  if (own !== undefined && comesFrom(own, event)) return host.moveTo(event.at);
  switch (event.type) {
    case 'turn.completed':
    case 'turn.failed':
    case 'transcript.compacted':
    case 'compaction.failed':
      host.moveTo(event.at);
      return await stage.deliver(MODEL, event);
    case 'tool.suspended':
    case 'tool.settled':
    case 'tool.doubted': {
      host.moveTo(event.at);
      const isAnswer = 'answered' in event && event.answered !== undefined;
      const source = isAnswer ? HAND_OFF : sourceOf(event.callId);
      // The engine itself refuses to begin work for which a limit leaves nothing.
      await stage.waitFor(
        async () => stage.has(source) || (event.type === 'tool.settled' && (await isThere())),
        () => `the run has no ${source}`,
      );
      return stage.fulfil(source, event);
    }
    case 'answer.checked':
    case 'answer.blocked':
    case 'review.requested':
      host.moveTo(event.at);
      return await stage.deliver(ANSWER_CHECK, event);
    case 'question.asked':
      host.moveTo(event.at);
      return await stage.waitFor(isThere, () => 'the tool asks nothing');
    case 'timer.fired':
      await stage.rest();
      host.moveTo(Math.max(event.at, run.context.timer ?? event.at));
      return await host.advance(0);
    default:
      await stage.rest();
      host.moveTo(event.at);
      if (event.type === 'message.received' && event.from !== undefined)
        return await work.deliver(event, event.from.callId);
      return await repeatInput(run, event);
  }
}

function nameOf(event: RecordedEvent | RunEvent): string {
  return 'callId' in event ? `${event.type} ${event.callId}` : event.type;
}

type Completed = Extract<RecordedEvent, { type: 'turn.completed' }>;
type Failed = Extract<RecordedEvent, { type: 'turn.failed' }>;

function playModel(stage: Stage, { provider, model }: { provider: string; model: string }): ModelAdapter {
  const answer = async (signal: AbortSignal): Promise<ModelTurn> => {
    const event = await stage.request(MODEL, signal);
    if (event.type === 'turn.failed') throw failureIn(event);
    if (event.type === 'turn.completed') return turnIn(event);
    if (event.type === 'transcript.compacted') return summaryIn(event, model);
    if (event.type === 'compaction.failed') throw compactionFailureIn(event);
    throw new Error(`Expected an event of a model call, got ${event.type}.`);
  };
  return {
    provider,
    model,
    capabilities: {
      streaming: true,
      parallelToolCalls: true,
      reasoningReplay: true,
      serverTools: true,
      structuredOutput: 'instructions',
      continuation: true,
      usage: 'unknown',
    },
    generate: (_, { signal }) => answer(signal),
    compact: async (_, { signal }) => await answer(signal),
    async *stream(_, { signal }) {
      yield { type: 'turn', turn: await answer(signal) };
    },
  };
}

function turnIn({ items, calls, text, finishReason, usage, model, continuation }: Completed): ModelTurn {
  const written = new Map(
    items.flatMap(item => (item.type === 'tool_call' ? [[item.callId, item.arguments]] : [])),
  );
  return {
    text,
    reasoning: items.flatMap(item => (item.type === 'reasoning' ? [item.text] : [])).join(''),
    toolCalls: calls.map(call => callIn(call, written.get(call.callId) ?? JSON.stringify(call.input))),
    finishReason,
    usage,
    model,
    items,
    ...omitUndefined({ continuation: continuation?.token }),
  };
}

type Compacted = Extract<RecordedEvent, { type: 'transcript.compacted' }>;

function summaryIn({ summary, items = [], usage }: Compacted, model: string): ModelTurn {
  return { text: summary, reasoning: '', toolCalls: [], finishReason: 'stop', usage, model, items };
}

function compactionFailureIn({ error }: Extract<RecordedEvent, { type: 'compaction.failed' }>): Error {
  return Object.assign(new Error(error.message), { code: error.code });
}

const NOT_RUN = 'Not run: ';
const INVALID = `${NOT_RUN}The arguments are not valid: `;

/** Returns a call with its recorded error, unless the error was an unknown tool, which the run finds again, or a guardrail blocked it. */
function callIn({ callId, name, input, error }: QualifiedCall, written: string): ToolCall {
  const call = { callId, name, arguments: written, executedBy: 'engine' } as const;
  const readable = typeof input === 'string' ? {} : { input };
  const isArguments = error?.startsWith(INVALID) === true;
  return { ...call, ...readable, ...(isArguments && { error: error.slice(INVALID.length) }) };
}

function failureIn({ at, error, retryable, retryAt }: Failed): Error {
  const { code, message, status, provider, model } = error;
  if (provider === undefined) {
    const failure = new Error(message);
    return code === 'internal' ? failure : Object.assign(failure, { code });
  }
  return new ProviderError(message, {
    code: code as ProviderError['code'],
    status: status ?? null,
    retryable,
    retryAfterMs: retryAt === undefined ? null : Math.max(0, retryAt - at),
    provider,
    model: model ?? '',
    raw: null,
  });
}

const BAD_SCHEMA = /^The answer does not follow the schema: ([\s\S]*)\. Answer again\.$/;
const UNCHECKED = 'The answer could not be checked: ';

function playGuardrails(
  stage: Stage,
  config: RunConfig,
  events: readonly RecordedEvent[],
): Pick<AgentOptions, 'guardrails' | 'output'> {
  const { guardrails, ...output } = config.checksAnswer ? playAnswerChecks(stage, config, events) : {};
  const turns = events.filter(event => event.type === 'turn.completed');
  const toolInput: ToolInputGuardrail = (_, { callId, countUsage }) => {
    const turn = turns.find(({ calls }) => calls.some(call => call.callId === callId));
    const call = turn?.calls.find(one => one.callId === callId);
    if (turn?.calls[0] === call) repeatSpent(turn?.spent, config, countUsage);
    if (call?.error !== undefined && call.verdicts === undefined)
      return { type: 'block', reason: call.error.slice(NOT_RUN.length) };
    return call?.replaced === true ? { type: 'replace', value: call.input } : { type: 'pass' };
  };
  return { guardrails: { ...guardrails, toolInput }, ...output };
}

/** A recording does not name the models of guardrails; their calls cost what those of the run's model cost. */
function repeatSpent(
  spent: Spent | undefined,
  { models }: RunConfig,
  countUsage: GuardrailContext['countUsage'],
): void {
  const { model = '' } = models[0] ?? {};
  if (spent?.usage) countUsage({ model, usage: spent.usage });
  if (spent?.usageUnknown) countUsage({ model, usage: null });
}

function playAnswerChecks(
  stage: Stage,
  config: RunConfig,
  events: readonly RecordedEvent[],
): Pick<AgentOptions, 'guardrails' | 'output'> {
  let current: RecordedEvent | undefined;
  const judgeText: AnswerGuardrail = async (_, { signal, countUsage }) => {
    current = await stage.request(ANSWER_CHECK, signal);
    if (
      current.type !== 'answer.checked' &&
      current.type !== 'answer.blocked' &&
      current.type !== 'review.requested'
    )
      throw new Error(`Expected an event of a check of the answer, got ${current.type}.`);
    repeatSpent(current.spent, config, countUsage);
    if (current.type !== 'answer.blocked')
      return current.text === undefined ? { type: 'pass' } : { type: 'replace', value: current.text };
    return current.code === undefined ? { type: 'block', reason: current.reason } : { type: 'pass' };
  };
  const ask: AnswerGuardrail = () => {
    if (current?.type !== 'review.requested') return { type: 'pass' };
    const { at, reason, duties, expiresAt } = current;
    const expiresInMs = expiresAt === undefined ? undefined : Math.max(1, expiresAt - at);
    return { type: 'ask', reason, ...duties, ...omitUndefined({ expiresInMs }) };
  };
  const guardrails = { answer: [judgeText, ask] };
  const hasSchema = events.some(
    event =>
      ((event.type === 'answer.checked' || event.type === 'review.requested') &&
        event.output !== undefined) ||
      (event.type === 'answer.blocked' && event.code !== undefined),
  );
  if (!hasSchema) return { guardrails };
  const schema: StandardSchemaV1 = {
    '~standard': { version: 1, vendor: 'agentchart', validate: () => judge(current) },
  };
  return { guardrails, output: { schema, jsonSchema: { type: 'object' } } };
}

function judge(event: RecordedEvent | undefined): StandardSchemaV1.Result<unknown> {
  const isPassed = event?.type === 'answer.checked' || event?.type === 'review.requested';
  if (isPassed && event.output !== undefined) return { value: event.output };
  const reason = event?.type === 'answer.blocked' ? event.reason : '';
  const message = BAD_SCHEMA.exec(reason)?.[1] ?? reason.replace(UNCHECKED, '');
  return { issues: [{ message }] };
}

type KnownCall = (callId: string) => { call: QualifiedCall; at: number } | undefined;

function playTool(stage: Stage, { name, sideEffect, executedBy }: RecordedTool, known: KnownCall): Tool {
  return {
    name,
    sideEffect,
    description: '',
    inputSchema: { type: 'object' },
    retries: 0,
    maxResultBytes: Number.MAX_SAFE_INTEGER,
    validate: value => ({ valid: true, value }),
    approval({ callId }) {
      const found = known(callId);
      if (found === undefined) return false;
      const { gate, reason, expiresAt } = found.call;
      return {
        required: gate,
        ...omitUndefined({ reason, expiresInMs: expiresAt === undefined ? undefined : expiresAt - found.at }),
      };
    },
    ...(executedBy === 'client'
      ? {}
      : { run: (_, { callId, signal }) => repeatResult(stage, callId, signal) }),
  };
}

async function readAnswer(stage: Stage, signal: AbortSignal) {
  const event = await stage.request(HAND_OFF, signal);
  return event.type === 'tool.settled' ? event : undefined;
}

async function repeatResult(stage: Stage, callId: string, signal: AbortSignal): Promise<unknown> {
  const event = await stage.request(sourceOf(callId), signal);
  if (event.type === 'tool.doubted' || event.type === 'tool.settled') return repeatOutcome(event);
  throw new Error(`Expected an event of a tool call, got ${event.type}.`);
}
