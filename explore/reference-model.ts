import type { CallResult, CallStatus } from '../machines/context.ts';
import { limitsOf } from '../machines/limits.ts';
import type { ChartState, Step } from '../machines/step.ts';
import type { Limits, RunConfig } from '../protocol/config.ts';
import type { Breakpoint } from '../protocol/debugger/breakpoint.ts';
import type { Effect, NextAction, ServiceInput, ServiceName } from '../protocol/effect.ts';
import type { ChartEvent, Duties, QualifiedCall, Question, RunStarted, Spent } from '../protocol/event.ts';
import type { Item } from '../protocol/item.ts';
import { type JsonValue, omitUndefined } from '../protocol/json.ts';
import { costOf } from '../protocol/listing/cost.ts';
import { isOutcome } from '../protocol/message.ts';
import type { Usage } from '../protocol/turn.ts';
import { exploredRequest } from './explored-request.ts';

/** The expected state of a run, from its events alone: without the chart's guards and actions. */
export type ReferenceModel = {
  config: RunConfig;
  now: number;
  /** The services that were started and not stopped, by id. */
  running: Readonly<Record<string, ServiceInput>>;
  /** Invalid starts and stops in the latest step. */
  misuse: string[];
  /** Model calls in the latest step that a limit should have prevented. */
  overruns: string[];
  /** Services that the latest step started while the run was paused and had no requested step left. */
  unpaid: string[];
  /** Services that the latest step started although a breakpoint matches and the run was not continued. */
  unheld: string[];
  /** Whether the latest event let the run continue. */
  continued: boolean;
  breakpoints: readonly Breakpoint[];
  /** Whether one of them holds the run. The next start passes it, and removes those that match once. */
  held: boolean;
  /** The answer under review, and its text if a person changed it. */
  review: ReferenceReview | null;
  /** The latest turn, while it may be edited: where it begins in the transcript, and how many calls it made. */
  latest: { from: number; calls: number } | null;
  transcript: readonly Expected[];
  /** How many of its items were judged, or were part of a request that was answered. */
  judged: number;
  inbox: readonly Item[];
  /** The accepted messages that must be in the transcript or the inbox. */
  messages: readonly Item[];
  calls: ReferenceCall[];
  /** The calls that started work in the background, with its run and the turns that it may take, until its outcome. */
  background: readonly { callId: string; runId: string; digest: string; turns: number; toolCalls: number }[];
  /** The position in the transcript for the results of an edited round; `null` for the end. */
  resultsAt: number | null;
  done: readonly ReferenceCall[];
  sticky: readonly { tool: string; decision: 'approve' | 'reject'; as: string | undefined }[];
  paused: boolean;
  cancelling: boolean;
  steps: number;
  spending: Spending;
  /** Whether the current turn has its tools disabled. Stays set over failed attempts. */
  final: boolean;
  /** `begun`: the single closing call was started; `over`: it has completed. */
  closing: 'none' | 'begun' | 'over';
  /** Whether text of the current or the failed attempt has been shown. */
  shown: boolean;
  /** Whether the last attempt of the turn did not complete, so that the next one continues it. */
  unfinished: boolean;
  continuation: JsonValue | null;
  /** How the call that has just settled answers for the run: with it, the agent that has the conversation. */
  taken: QualifiedCall | 'back' | null;
  /** The call that reaches the sub-agent whose answer is the run's, or `back` for words that hand the conversation back. */
  answeredBy: QualifiedCall | 'back' | null;
  /** Whether a person must sign in at a tool server. */
  needsSignIn: boolean;
  /** Whether a rule ends the run. */
  isStopped: boolean;
  /** Whether the model has to answer again. */
  isSentBack: boolean;
  /** Whether the latest step calls the model although a sub-agent has answered for the run. */
  spokeOver: boolean;
  /** The `once` calls that settled and were not refused; `isPast`: before the latest compaction. */
  deeds: readonly ReferenceDeed[];
  /** What the latest completed turn read, and what the turn under way reads. */
  read: Read | null;
  reading: Read | null;
  /** The reasoning that requests may no longer have, by id. */
  lost: ReadonlySet<string>;
  /** What is wrong with the request that the latest step begins. */
  ungrown: string[];
  /** Whether a turn has completed since the latest compaction ended. */
  mayCompact: boolean;
  /** Who started the run, and who wrote in it; a text that is not a name stands for a person without one. */
  starters: readonly string[];
  writers: readonly string[];
};

const NAMELESS = '\0';

/** The name of the model that reads a request, its items, and whether the engine names a break. */
type Read = { model: string; items: readonly Item[]; isBroken: boolean };

type ReferenceDeed = {
  callId: string;
  name: string;
  digest: string;
  failed: boolean;
  isPast: boolean;
};

type ReferenceReview = {
  id: string;
  digest: string;
  duties: Duties;
  expiresAt: number;
  approvals: readonly string[];
  text?: string;
};

export type ReferenceCall = {
  call: QualifiedCall;
  /** The status that the events imply. */
  stage: CallStatus;
  /** The sub-agent's run that alone gives the result. */
  childRunId?: string;
  /** The input it runs with, which may have been edited on approval. */
  input: JsonValue;
  digest: string;
  approved: boolean;
  /** Of a call that asks for certain people: who has approved it as it is. */
  approvals: readonly string[];
  starts: number;
  /** What it asks and no one has answered: the digest of all that was asked, and the open questions. */
  asked?: { digest: string; questions: readonly Question[] };
  /** Whether another attempt continues what an earlier one did. */
  kept?: boolean;
  /** Whether it may be started: it was not started before, or is known not to have happened. */
  mayStart: boolean;
  /** The limit for which it was refused without running. */
  deniedFor?: 'toolCalls';
  /** The reported result; `null` for a refusal, whose text is the chart's. */
  result: CallResult | null;
};

/**
 * An item that must be in the transcript. The chart chooses the text of a refusal, the frame of what a compaction made, and
 * the words around what is noted about a review.
 */
export type Expected = Item | { refused: string } | { framed: string } | { noted: string };

export type Spending = {
  turns: number;
  /** The turns of sub-agents, included in `turns`. */
  fromElsewhere: number;
  toolCalls: number;
  /** The calls that were refused because the limit `toolCalls` was reached. */
  denied: number;
  tokens: number;
  cost: number;
  activeMs: number;
  activeSince: number | null;
  /** Completed turns, of the run and its sub-agents, that reported no usage. */
  uncounted: number;
  /** Consecutive failures, by call digest. */
  failures: Readonly<Record<string, number>>;
};

/** An accepted event and its step; the start of a run if `before` is `null`. */
export type CheckedStep = {
  before: { state: ChartState; reference: ReferenceModel } | null;
  event: ChartEvent | null;
  after: ChartState;
  effects: readonly Effect[];
  /** The expected state after the event. */
  reference: ReferenceModel;
};

export function startReference(started: RunStarted, step: Step): ReferenceModel {
  const model: ReferenceModel = {
    config: started.config,
    now: started.at,
    running: {},
    misuse: [],
    overruns: [],
    unpaid: [],
    unheld: [],
    continued: false,
    breakpoints: [],
    held: false,
    review: null,
    latest: null,
    transcript: started.input,
    judged: 0,
    inbox: [],
    messages: [],
    calls: started.onlyCall === undefined ? [] : [{ ...newEntry(started.onlyCall), stage: 'ready' }],
    background: [],
    resultsAt: null,
    done: [],
    sticky: [],
    paused: started.paused ?? false,
    cancelling: false,
    steps: 0,
    spending: {
      turns: 0,
      fromElsewhere: 0,
      toolCalls: 0,
      denied: 0,
      tokens: 0,
      cost: 0,
      activeMs: 0,
      activeSince: null,
      uncounted: 0,
      failures: {},
    },
    final: false,
    closing: 'none',
    shown: false,
    unfinished: false,
    continuation: null,
    taken: null,
    answeredBy: null,
    isSentBack: false,
    isStopped: false,
    needsSignIn: false,
    spokeOver: false,
    deeds: [],
    read: null,
    reading: null,
    lost: new Set(),
    ungrown: [],
    mayCompact: true,
    starters: [...names(started.people?.starters), ...names([started.by ?? null])],
    writers: [...names(started.people?.senders), ...names([started.by ?? null])],
  };
  followEffects(model, step.effects);
  followRequest(model, step);
  return model;
}

export function followReference(before: ReferenceModel, event: ChartEvent, step: Step): ReferenceModel {
  const model: ReferenceModel = {
    ...before,
    calls: before.calls.map(entry => ({ ...entry })),
    spending: { ...before.spending },
    now: Math.max(before.now, event.at),
    misuse: [],
    overruns: [],
    unpaid: [],
    unheld: [],
    ungrown: [],
    taken: null,
    spokeOver: false,
    continued: event.type === 'run.unpaused',
  };
  if (isWritten(event, before)) model.writers = [...model.writers, ...names([event.by ?? null])];
  expectationOf(event).follow?.(model, event, step);
  closeRound(model);
  followAnswer(model, step);
  followEffects(model, step.effects);
  followRequest(model, step);
  return model;
}

/** A request that the step begins. */
function followRequest(model: ReferenceModel, { effects, state: { context } }: Step): void {
  if (!effects.some(effect => effect.type === 'start' && effect.service === 'modelTurn')) return;
  const { transcript: items, broken } = exploredRequest(context);
  const reads = context.config.models[context.turn.model]?.model ?? '';
  const reading = { model: reads, items, isBroken: broken !== undefined };
  model.reading = reading;
  const { read } = model;
  if (read === null) return;
  const isGrown =
    read.model === reading.model &&
    read.items.every((item, at) => item === items[at] || JSON.stringify(item) === JSON.stringify(items[at]));
  if (!isGrown && broken === undefined)
    model.ungrown.push(`turn ${context.turn.number} has another beginning, and nothing says so`);
  const isVoid = (item: Item) =>
    item.type === 'reasoning' && item.opaque !== undefined && model.lost.has(item.id ?? '');
  const sealed = broken
    ? items.find(item => item.type === 'reasoning' && item.opaque !== undefined)
    : items.find(isVoid);
  if (sealed) model.ungrown.push(`turn ${context.turn.number} sends ${sealed.id}, which is void`);
}

/** A turn without `sent` cannot be compared with the next one, and names no reasoning that is void. */
function followRead(model: ReferenceModel, { sent }: Of<'turn.completed'>): void {
  if (sent === undefined) {
    model.read = null;
    model.lost = new Set();
    return;
  }
  if (model.reading?.isBroken === true) {
    const thoughts = model.transcript.flatMap(item =>
      'type' in item && item.type === 'reasoning' ? (item.id ?? []) : [],
    );
    model.lost = new Set([...model.lost, ...thoughts]);
  }
  model.read = model.reading;
}

/** Whether the chart must accept the event; it must ignore all others. */
export function isEnabled(event: ChartEvent, reference: ReferenceModel, state: ChartState): boolean {
  if (state.status !== 'active') return false;
  return expectationOf(event).isEnabled?.(event, reference, state) ?? true;
}

export function find({ calls }: ReferenceModel, callId: string): ReferenceCall | undefined {
  return calls.find(({ call }) => call.callId === callId);
}

type Of<Type extends ChartEvent['type']> = Extract<ChartEvent, { type: Type }>;

/** What an event must do, stated independently of the chart's guards and its fold. */
type Expectation<Event> = {
  /** Whether the chart must accept it while the run is active. Default: always. */
  isEnabled?(event: Event, model: ReferenceModel, state: ChartState): boolean;
  /** Changes the model. Default: not at all. */
  follow?(model: ReferenceModel, event: Event, step: Step): void;
};

function names(people: readonly (string | null)[] = []): string[] {
  return people.map(name => name ?? NAMELESS);
}

/** Whether the event adds text that the model reads. A call that is given back unchanged adds none. */
function isWritten(event: ChartEvent, model: ReferenceModel): event is ChartEvent & { by?: string } {
  switch (event.type) {
    case 'message.received':
      return event.from === undefined;
    case 'params.changed':
    case 'transcript.edited':
    case 'turn.edited':
      return true;
    case 'result.received':
      return event.childRunId === undefined;
    case 'call.edited':
      return !isGivenBack(event, model);
    default:
      return false;
  }
}

function isGivenBack({ callId, call }: Of<'call.edited'>, model: ReferenceModel): boolean {
  const known = find(model, callId);
  return (
    known !== undefined &&
    sortedJson({ ...known.call, input: known.input, digest: known.digest }) === sortedJson(call)
  );
}

function sortedJson(call: QualifiedCall): string {
  return JSON.stringify(Object.entries(call).sort(([one], [other]) => (one < other ? -1 : 1)));
}

export function isForAnyone({ by, not, quorum }: Duties): boolean {
  return by === undefined && not === undefined && quorum === undefined;
}

type Who = { by?: string; groups?: readonly string[] };

/** Whether this person may decide the call: its groups include the person, and it does not exclude the name. */
export function isFor(call: Duties, { by: name, groups = [] }: Who, model: ReferenceModel): boolean {
  if (isForAnyone(call)) return true;
  const { starters, writers } = model;
  const excluded: readonly string[] = { none: [], starter: starters, sender: writers }[call.not ?? 'none'];
  return (
    name !== undefined &&
    (call.by === undefined || groups.some(group => call.by?.includes(group))) &&
    !excluded.includes(name) &&
    !excluded.includes(NAMELESS)
  );
}

/** Who decided without being allowed to; `null` if no one did. */
export function findIntruder(event: ChartEvent, model: ReferenceModel): string | null {
  if (event.type === 'review.decided') {
    const { review } = model;
    const isAnyones = review === null || event.decision.type === 'withdraw';
    return isAnyones || isFor(review.duties, event, model) ? null : nameOf(event);
  }
  if (event.type === 'question.answered') {
    const questions = find(model, event.callId)?.asked?.questions ?? [];
    const given = questions.filter(({ key }) => key in event.answers);
    return given.every(question => isFor(question, event, model)) ? null : nameOf(event);
  }
  if (event.type !== 'approval.decided' && event.type !== 'doubt.resolved') return null;
  const call = find(model, event.callId)?.call;
  return call === undefined || isFor(call, event, model) ? null : nameOf(event);
}

function nameOf({ by }: Who): string {
  return by ?? 'someone without a name';
}

/** Whether the calls that an edit changes are for this person to decide. */
function mayEdit(event: Of<'transcript.edited'> | Of<'turn.edited'>, model: ReferenceModel): boolean {
  if (model.review !== null && !isFor(model.review.duties, event, model)) return false;
  const answered = 'results' in event ? (event.results ?? []).map(({ callId }) => callId) : [];
  return model.calls.every(({ call, stage, digest }) => {
    const isKept = event.calls.some(one => one.callId === call.callId && one.digest === digest);
    return stage === 'settled' || (isKept && !answered.includes(call.callId)) || isFor(call, event, model);
  });
}

const EXPECTED: { readonly [Type in ChartEvent['type']]: Expectation<Of<Type>> } = {
  'message.received': {
    isEnabled: ({ from }, { background }) =>
      from === undefined ||
      background.some(({ callId, runId }) => callId === from.callId && runId === from.runId),
    follow(model, event) {
      const { items, from } = event;
      model.inbox = [...model.inbox, ...items];
      model.messages = [...model.messages, ...items];
      addSpent(model, event);
      if (from !== undefined) return followOutcome(model, event, from);
      if (model.config.onMessage !== 'supersede') return;
      refuseCalls(
        model,
        ({ stage, starts, call }) =>
          stage === 'gated' || (stage === 'asking' && (starts === 0 || call.sideEffect !== 'once')),
      );
      if (model.review !== null) note(model, '');
      model.review = null;
    },
  },
  'approval.decided': {
    isEnabled(event, model) {
      const { callId, digest, at, decision, by = '' } = event;
      const entry = find(model, callId);
      if (entry?.stage !== 'gated' || entry.digest !== digest) return false;
      const { call, approvals } = entry;
      if (call.expiresAt !== undefined && at >= call.expiresAt) return false;
      if (isForAnyone(call)) return event.sticky !== true || saysOf(call, 'ask').length === 0;
      if (event.sticky === true || !isFor(call, event, model)) return false;
      if (decision.type === 'answer') return call.quorum === undefined || call.quorum === 1;
      return decision.type === 'reject' || decision.input !== undefined || !approvals.includes(by);
    },
    follow: followDecision,
  },
  'review.decided': {
    isEnabled(event, { review, ...model }) {
      if (review?.id !== event.reviewId) return false;
      const { decision, digest, at, by = '' } = event;
      if (decision.type === 'withdraw') return true;
      const isCurrent = digest === review.digest && at < review.expiresAt;
      if (!isCurrent || !isFor(review.duties, event, { review, ...model })) return false;
      return decision.type === 'reject' || decision.text !== undefined || !review.approvals.includes(by);
    },
    follow: followReview,
  },
  'result.received': {
    isEnabled: ({ callId, childRunId }, model) =>
      hasStage(model, callId, 'waiting') && find(model, callId)?.childRunId === childRunId,
    follow(model, event) {
      addSpent(model, event);
      takeAnswer(model, event);
      settle(model, event.callId, event);
    },
  },
  'sign-in.requested': {
    isEnabled: (event, model) =>
      reportOf('modelTurn')(event, model) ||
      reportOf('toolBatch')(event, model) ||
      reportOf('compaction')(event, model),
    follow(model) {
      model.needsSignIn = true;
      if ('modelTurn' in model.running) model.unfinished = true;
    },
  },
  'sign-in.completed': {
    isEnabled: ({ server }, { needsSignIn }) => needsSignIn && server === 'crm',
    follow(model) {
      model.needsSignIn = false;
    },
  },
  'question.answered': {
    isEnabled(event, model) {
      const { callId, digest, at, answers } = event;
      const entry = find(model, callId);
      if (entry?.stage !== 'asking' || entry.asked?.digest !== digest) return false;
      const open = new Map(entry.asked.questions.map(question => [question.key, question]));
      const isOpen = (key: string) => {
        const question = open.get(key);
        if (question === undefined || (question.expiresAt !== undefined && at >= question.expiresAt))
          return false;
        return isFor(question, event, model);
      };
      return Object.keys(answers).length > 0 && Object.keys(answers).every(isOpen);
    },
    follow: (model, { callId, answers }) => closeQuestions(model, callId, ({ key }) => key in answers),
  },
  'doubt.resolved': {
    isEnabled(event, model) {
      const entry = find(model, event.callId);
      return entry?.stage === 'doubted' && isFor(entry.call, event, model);
    },
    follow(model, { callId, resolution }) {
      if (resolution.type === 'retry') change(model, callId, { stage: 'ready', mayStart: true, kept: false });
      else if (resolution.type === 'failed')
        settle(model, callId, { output: resolution.reason, isError: true });
      else settle(model, callId, { output: resolution.output, isError: false });
    },
  },
  'transcript.edited': {
    isEnabled(event, model, { value }) {
      if (!mayEdit(event, model)) return false;
      const digests = new Map(event.calls.map(({ callId, digest }) => [callId, digest]));
      const isKept = ({ call, stage, digest }: ReferenceCall) =>
        !isOwed(stage) && digests.get(call.callId) === digest;
      return isResting(value) && model.calls.every(entry => isFree(entry) || isKept(entry));
    },
    follow: followEdit,
  },
  'turn.edited': {
    isEnabled: (event, model, { value, context }) =>
      isResting(value) &&
      event.turn === context.turn.number &&
      isEditable(model, event.calls.length) &&
      mayEdit(event, model),
    follow: followTurnEdit,
  },
  'call.edited': {
    isEnabled(event, model) {
      const { callId, digest, call } = event;
      const entry = find(model, callId);
      if (entry !== undefined && !isFor(entry.call, event, model) && !isGivenBack(event, model)) return false;
      const isOpen = entry?.stage === 'ready' || entry?.stage === 'gated' || entry?.stage === 'asking';
      return isOpen && entry.starts === 0 && entry.digest === digest && call.error === undefined;
    },
    /** It needs an approval again, unless a sticky rule gives it. */
    follow(model, { callId, call }) {
      const isAllowed =
        isForAnyone(call) && saysOf(call, 'ask').length === 0 && stickyFor(model, call) === 'approve';
      const { input, digest } = call;
      const isRepetition = repeats(model, call);
      const gate = call.gate || isRepetition;
      const approved = gate && isAllowed && !isRepetition;
      const stage = gate && !approved ? 'gated' : permittedStage(call);
      change(model, callId, { call: { ...call, gate }, input, digest, approved, approvals: [], stage });
      giveReceipts(model);
    },
  },
  'breakpoints.set': {
    follow(model, { breakpoints }) {
      model.breakpoints = breakpoints;
    },
  },
  'params.changed': {
    follow(model, _, { state }) {
      model.config = { ...model.config, limits: limitsOf(state.context) };
    },
  },
  'pause.requested': {
    isEnabled: (_, { paused }) => !paused,
    follow: model => pause(model, model.steps),
  },
  'step.requested': { follow: model => pause(model, model.steps + 1) },
  'run.unpaused': {
    isEnabled: (_, { paused }) => paused,
    follow(model) {
      model.paused = false;
      model.steps = 0;
    },
  },
  'run.quarantined': {
    isEnabled: (_, { running }) =>
      (['modelTurn', 'toolBatch', 'answerCheck', 'compaction'] as const).some(id => id in running),
    follow(model) {
      pause(model, 0);
      model.unfinished = 'modelTurn' in model.running;
    },
  },
  'cancel.requested': {
    isEnabled: (_, { cancelling }) => !cancelling,
    follow(model) {
      model.cancelling = true;
    },
  },
  'run.cancelled': {},
  'items.judged': {
    isEnabled(event, model) {
      const { upTo, changes } = event;
      const isAsked = reportOf('modelTurn')(event, model) || reportOf('compaction')(event, model);
      const isNew = upTo === model.transcript.length && model.judged < upTo;
      return isAsked && isNew && changes.every(({ at }) => at >= model.judged);
    },
    follow(model, event) {
      const items = [...model.transcript];
      for (const { at, item } of event.changes) {
        model.messages = model.messages.map(one => (one === items[at] ? item : one));
        items[at] = item;
      }
      model.transcript = items;
      model.judged = event.upTo;
      addSpent(model, event);
    },
  },
  'text.started': {
    isEnabled: reportOf('modelTurn'),
    follow(model) {
      model.shown = true;
    },
  },
  'calls.started': { isEnabled: reportOf('modelTurn') },
  'turn.completed': { isEnabled: reportOf('modelTurn'), follow: followTurn },
  'turn.failed': {
    isEnabled: reportOf('modelTurn'),
    follow(model, { at, startedAt }) {
      model.unfinished = true;
      model.spending.activeMs += Math.max(0, at - startedAt);
    },
  },
  'transcript.compacted': {
    isEnabled: (event, model) =>
      reportOf('compaction')(event, model) && model.calls.length === 0 && isWhole(model, event),
    follow: followCompaction,
  },
  'compaction.failed': {
    isEnabled: reportOf('compaction'),
    follow(model, event, { state }) {
      model.mayCompact = false;
      spendOn(model, event, state);
    },
  },
  'call.judged': {
    isEnabled: (event, model) =>
      reportAbout('queued')(event, model) && find(model, event.callId)?.starts === 0,
    follow(model, event) {
      const { callId, verdicts, duties = {}, expiresAt } = event;
      const entry = find(model, callId);
      if (entry === undefined) return;
      const { by, not, quorum, expiresAt: _, ...bare } = entry.call;
      const known = [...(entry.call.verdicts ?? []), ...verdicts];
      if (verdicts.every(({ shadow }) => shadow === true))
        return change(model, callId, { call: { ...entry.call, verdicts: known } });
      if (saysOf(event, 'block').length === 0 && saysOf(event, 'stop').length === 0) {
        const call = { ...bare, ...duties, ...omitUndefined({ expiresAt }), gate: true, verdicts: known };
        return change(model, callId, { call, stage: 'gated', approved: false, approvals: [] });
      }
      countOutcome(model, entry.digest, true);
      refuseCalls(model, ({ call }) => call.callId === callId);
      stop(model, event);
    },
  },
  'question.asked': {
    isEnabled: reportAbout('queued', 'running', 'reconciling'),
    follow(model, { at, callId, digest, questions }) {
      endActivity(model, at);
      change(model, callId, { stage: 'asking', asked: { digest, questions } });
    },
  },
  'tool.kept': {
    isEnabled: reportAbout('running'),
    follow: (model, { callId }) => change(model, callId, { kept: true }),
  },
  'tool.started': {
    isEnabled: reportAbout('queued', 'running', 'reconciling'),
    follow(model, { at, callId }) {
      const isActing = model.calls.some(({ stage }) => stage === 'running' || stage === 'reconciling');
      if (!isActing) model.spending.activeSince = at;
      const starts = (find(model, callId)?.starts ?? 0) + 1;
      change(model, callId, { stage: 'running', starts, mayStart: false });
    },
  },
  'tool.settled': {
    isEnabled(event, model) {
      const unbegun = event.isError ? (['queued'] as const) : [];
      return reportAbout('running', 'reconciling', ...unbegun)(event, model);
    },
    follow(model, event) {
      const { at, callId, isError } = event;
      const digest = find(model, callId)?.digest;
      endActivity(model, at);
      addSpent(model, event);
      if (digest !== undefined) countOutcome(model, digest, isError);
      takeAnswer(model, event);
      settle(model, callId, event);
    },
  },
  'tool.interrupted': {
    isEnabled: reportAbout('running'),
    follow(model, { at, callId }) {
      model.spending.activeSince = at;
      const call = find(model, callId)?.call;
      if (call?.sideEffect !== 'once' || call.background || find(model, callId)?.kept)
        change(model, callId, { stage: 'queued', mayStart: true });
      else change(model, callId, { stage: call.reconcilable ? 'reconciling' : 'doubted' });
    },
  },
  'tool.doubted': {
    isEnabled: reportAbout('running', 'reconciling'),
    follow(model, { at, callId }) {
      endActivity(model, at);
      change(model, callId, { stage: 'doubted' });
    },
  },
  'tool.suspended': {
    isEnabled: reportAbout('running'),
    follow(model, { at, callId, childRunId: runId, background }) {
      endActivity(model, at);
      if (background === undefined) return change(model, callId, { stage: 'waiting', childRunId: runId });
      const { digest = '' } = find(model, callId) ?? {};
      const { turns = 0, toolCalls = 0 } = background;
      model.background = [...model.background, { callId, runId, digest, turns, toolCalls }];
      settle(model, callId, { output: { runId, status: 'started' }, isError: false, receipt: 'run' });
    },
  },
  'timer.fired': {
    isEnabled: reportOf('timer'),
    follow(model) {
      refuseCalls(
        model,
        ({ stage, call }) => stage === 'gated' && call.expiresAt !== undefined && call.expiresAt <= model.now,
      );
      for (const { call, stage } of model.calls)
        if (stage === 'asking')
          closeQuestions(
            model,
            call.callId,
            ({ expiresAt = Number.POSITIVE_INFINITY }) => expiresAt <= model.now,
          );
      if (model.review !== null && model.review.expiresAt <= model.now) sendBack(model, '');
    },
  },
  'answer.checked': { isEnabled: reportOf('answerCheck'), follow: addSpent },
  'review.requested': {
    isEnabled: reportOf('answerCheck'),
    follow(model, event) {
      const { reviewId: id, digest, duties = {}, expiresAt = Number.POSITIVE_INFINITY } = event;
      addSpent(model, event);
      model.review = { id, digest, duties, expiresAt, approvals: [] };
    },
  },
  'answer.blocked': {
    isEnabled: reportOf('answerCheck'),
    follow(model, event) {
      const { reason: text } = event;
      addSpent(model, event);
      model.latest = null;
      model.isSentBack = true;
      const message: Item = { type: 'message', role: 'developer', content: [{ type: 'text', text }] };
      model.transcript = [...model.transcript, message];
    },
  },
};

/** The model reads what became of the answer. */
function sendBack(model: ReferenceModel, noted: string): void {
  model.review = null;
  model.latest = null;
  model.isSentBack = true;
  note(model, noted);
}

function note(model: ReferenceModel, noted: string): void {
  model.transcript = [...model.transcript, { noted }];
}

function followReview(model: ReferenceModel, event: Of<'review.decided'>): void {
  const { review } = model;
  const { decision, by } = event;
  if (review === null) return;
  if (decision.type === 'withdraw') model.review = { ...review, approvals: [] };
  else if (decision.type === 'reject') sendBack(model, decision.reason ?? '');
  else {
    const isEdit = decision.text !== undefined;
    const approvals = [...(isEdit ? [] : review.approvals), ...(by === undefined ? [] : [by])];
    const { text = review.text, editDigest: digest = review.digest } = decision;
    const isEnough = isForAnyone(review.duties) || new Set(approvals).size >= (review.duties.quorum ?? 1);
    model.review = isEnough ? null : { ...review, digest, approvals, ...omitUndefined({ text }) };
    if (isEnough && text !== undefined) note(model, text);
  }
}

function followOutcome(
  model: ReferenceModel,
  { items }: Of<'message.received'>,
  { callId, runId }: { callId: string; runId: string },
): void {
  const work = model.background.find(one => one.runId === runId);
  const failed = items.some(item => item.type === 'message' && item.outcomeOf?.isError === true);
  model.background = model.background.filter(one => one !== work);
  if (work !== undefined) countOutcome(model, work.digest, failed);
  model.deeds = model.deeds.map(deed => (deed.callId === callId && failed ? { ...deed, failed } : deed));
}

function expectationOf(event: ChartEvent): Expectation<ChartEvent> {
  return EXPECTED[event.type] as Expectation<ChartEvent>;
}

function reportOf(service: ServiceName) {
  return ({ generation }: { generation: number }, { running }: ReferenceModel): boolean =>
    running[service]?.generation === generation;
}

function reportAbout(...stages: readonly CallStatus[]) {
  const isCurrent = reportOf('toolBatch');
  return (event: { generation: number; callId: string }, model: ReferenceModel): boolean =>
    isCurrent(event, model) && hasStage(model, event.callId, ...stages);
}

function hasStage(model: ReferenceModel, callId: string, ...stages: readonly CallStatus[]): boolean {
  const stage = find(model, callId)?.stage;
  return stage !== undefined && stages.includes(stage);
}

function isResting(value: ChartState['value']): boolean {
  return typeof value === 'object' && 'resting' in value;
}

/** Whether an edit may drop the call: no batch or client has it, and it cannot have happened. */
function isFree({ stage, starts }: ReferenceCall): boolean {
  if (stage === 'asking') return starts === 0;
  return stage === 'ready' || stage === 'gated' || stage === 'settled';
}

function isOwed(stage: CallStatus): boolean {
  return stage === 'queued' || stage === 'running' || stage === 'reconciling';
}

/** Whether the latest turn may be replaced: none of its calls has started, or is with a client or in doubt. */
function isEditable({ latest, calls, final }: ReferenceModel, newCalls: number): boolean {
  if (latest === null || (final && newCalls > 0)) return false;
  if (calls.length === 0) return latest.calls === 0;
  return calls.every(entry => isFree(entry) && entry.starts === 0);
}

function change(model: ReferenceModel, callId: string, by: Partial<ReferenceCall>): void {
  const entry = find(model, callId);
  if (entry !== undefined && entry.stage !== 'settled') Object.assign(entry, by);
}

/** Records the result of a call, unless it is settled. */
function settle(model: ReferenceModel, callId: string, outcome: CallResult): void {
  const { output, isError, shown, blob, receipt } = outcome;
  const entry = find(model, callId);
  const isBegun = entry !== undefined && (entry.starts > 0 || !isUnbegun(entry.stage));
  if (entry?.call.sideEffect === 'once' && entry.stage !== 'settled' && (isBegun || !isError)) {
    const { call, digest } = entry;
    model.deeds = [...model.deeds, { callId, name: call.name, digest, failed: isError, isPast: false }];
  }
  const result = { output, isError, ...omitUndefined({ shown, blob, receipt }) };
  change(model, callId, { stage: 'settled', result });
}

function isUnbegun(stage: CallStatus): boolean {
  return stage === 'gated' || stage === 'ready' || stage === 'queued' || stage === 'asking';
}

/** Once none of its questions is open, the call may run. */
function closeQuestions(
  model: ReferenceModel,
  callId: string,
  isClosed: (question: Question) => boolean,
): void {
  const { asked } = find(model, callId) ?? {};
  if (asked === undefined) return;
  const questions = asked.questions.filter(question => !isClosed(question));
  if (questions.length > 0) return change(model, callId, { asked: { ...asked, questions } });
  change(model, callId, { stage: 'ready', mayStart: true });
}

function takeAnswer(
  model: ReferenceModel,
  { callId, isError, answered }: Of<'tool.settled'> | Of<'result.received'>,
): void {
  const call = find(model, callId)?.call;
  if (call?.answers === undefined || isError) return;
  if (call.answers === 'back') model.taken = 'back';
  else if (answered !== undefined && answered.handedBack !== true) model.taken = call;
}

/** While the conversation is with a sub-agent, a call that no model made hands it the unread messages. */
function followAnswer(model: ReferenceModel, { state: { context } }: Step): void {
  if (model.taken !== null) model.answeredBy = model.taken;
  const { answeredBy, inbox, cancelling, calls, transcript } = model;
  if (answeredBy === null || answeredBy === 'back' || model.review !== null || model.isSentBack) return;
  if (inbox.length === 0 || cancelling || calls.length > 0) return;
  if (inbox.some(isOutcome)) return;
  const callId = context.calls[0]?.callId ?? 'none';
  const { gate: _, by, not, quorum, expiresAt, reason, ...call } = answeredBy;
  const { name, input } = call;
  model.transcript = [
    ...transcript,
    ...inbox,
    { type: 'tool_call', callId, name, arguments: JSON.stringify(input) },
  ];
  model.inbox = [];
  model.calls = [newEntry({ ...call, callId, gate: false })].map(entry => ({ ...entry, stage: 'ready' }));
  model.spending.toolCalls += 1;
  model.answeredBy = null;
  model.latest = null;
  model.continuation = null;
}

function refuseCalls({ calls }: ReferenceModel, which: (call: ReferenceCall) => boolean): void {
  for (const entry of calls.filter(which)) Object.assign(entry, { stage: 'settled', result: null });
}

/** Once every call is settled, moves the results to the transcript in call order and ends the round. */
function closeRound(model: ReferenceModel): void {
  const { calls, transcript, resultsAt, done } = model;
  if (calls.length === 0 || calls.some(({ stage }) => stage !== 'settled')) return;
  const results = calls.map(({ call: { callId }, result }): Expected => {
    return result === null ? { refused: callId } : { type: 'tool_result', callId, ...result };
  });
  model.transcript = transcript.toSpliced(resultsAt ?? transcript.length, 0, ...results);
  model.calls = [];
  model.resultsAt = null;
  model.done = [...done, ...calls];
}

function pause(model: ReferenceModel, steps: number): void {
  model.paused = true;
  model.steps = steps;
}

/** A sticky approval does not cover a tool that its server has redefined since. */
function stickyFor(
  { sticky }: ReferenceModel,
  { name, toolDigest }: QualifiedCall,
): 'approve' | 'reject' | undefined {
  const rule = sticky.find(({ tool }) => tool === name);
  return rule?.decision === 'approve' && rule.as !== toolDigest ? undefined : rule?.decision;
}

function permittedStage({ executedBy }: QualifiedCall): CallStatus {
  return executedBy === 'client' ? 'waiting' : 'ready';
}

function followDecision(model: ReferenceModel, event: Of<'approval.decided'>): void {
  const { callId, decision } = event;
  const call = find(model, callId)?.call;
  if (call === undefined) return;
  if (event.sticky === true && decision.type !== 'answer') {
    const others = model.sticky.filter(({ tool }) => tool !== call.name);
    model.sticky = [...others, { tool: call.name, decision: decision.type, as: call.toolDigest }];
  }
  if (decision.type === 'answer') settle(model, callId, { output: decision.output, isError: false });
  else if (decision.type === 'reject') change(model, callId, { stage: 'settled', result: null });
  else {
    const edited = omitUndefined({ input: decision.input, digest: decision.editDigest });
    const after = { ...call, digest: edited.digest ?? call.digest };
    const isRepetition = after.digest !== find(model, callId)?.digest && repeats(model, after);
    const { by, not, quorum, ...bare } = call;
    const now = decision.input === undefined ? call : { ...bare, ...decision.duties };
    const before = decision.input === undefined ? (find(model, callId)?.approvals ?? []) : [];
    const counts = event.by !== undefined && isFor(now, event, model);
    const approvals = counts && !isForAnyone(now) ? [...before, event.by ?? ''] : before;
    const isEnough = isForAnyone(now) || new Set(approvals).size >= (now.quorum ?? 1);
    if (isRepetition)
      change(model, callId, { call: { ...now, gate: true }, stage: 'gated', approvals: [], ...edited });
    else if (isEnough)
      change(model, callId, { call: now, stage: permittedStage(call), approved: true, approvals, ...edited });
    else change(model, callId, { call: now, approvals, ...edited });
    giveReceipts(model);
  }
}

function followTurn(model: ReferenceModel, event: Of<'turn.completed'>, { state }: Step): void {
  const { config, spending, final } = model;
  const { finishReason, calls, usage, appended = [] } = event;
  followRead(model, event);
  model.judged = model.transcript.length;
  model.transcript = [...model.transcript, ...appended];
  model.latest = { from: model.transcript.length, calls: calls.length };
  model.mayCompact = true;
  model.shown = false;
  model.unfinished = false;
  if (model.closing === 'begun') model.closing = 'over';
  addSpent(model, event);
  spending.turns += 1;
  spending.tokens += countTokens(usage);
  if (usage === null) spending.uncounted += 1;
  spending.cost += costOf(usage, config.models[state.context.turn.model]?.model ?? '', config.prices);
  spending.activeMs += Math.max(0, event.at - event.startedAt);
  const isStopped = finishReason === 'pause' || finishReason === 'content_filter';
  if (isDraft(model, calls) && !isStopped) return;
  model.transcript = [...model.transcript, ...event.items];
  model.continuation = event.continuation?.token ?? null;
  const isCutOff = finishReason === 'length' || finishReason === 'content_filter';
  admit(model, calls, { refusesAll: final || isCutOff });
}

function isDraft({ config, final }: ReferenceModel, calls: readonly QualifiedCall[]): boolean {
  return config.finalAnswer === 'separate' && !final && calls.length === 0;
}

/** Decides which of a turn's calls may run. Calls refused for other reasons do not count as tool calls. */
function admit(model: ReferenceModel, calls: readonly QualifiedCall[], { refusesAll = false } = {}): void {
  const { spending, config } = model;
  model.calls = calls.map((call): ReferenceCall => {
    const known = find(model, call.callId);
    if (known !== undefined) return known;
    const entry = newEntry(call);
    const refused: ReferenceCall = { ...entry, stage: 'settled' };
    if (refusesAll || call.error !== undefined) return refused;
    if (call.answers !== undefined && calls.length > 1) return refused;
    if (call.executedBy === 'engine') {
      const held = model.background.reduce((sum, work) => sum + work.toolCalls, 0);
      if (spending.toolCalls + held >= config.limits.toolCalls) {
        spending.denied += 1;
        return { ...refused, deniedFor: 'toolCalls' };
      }
      spending.toolCalls += 1;
    }
    const isSticky = isForAnyone(call) && saysOf(call, 'ask').length === 0;
    const rule = isSticky ? stickyFor(model, call) : undefined;
    if (call.gate && rule === 'reject') return refused;
    if (repeats(model, call)) return { ...entry, call: { ...call, gate: true }, stage: 'gated' };
    if (call.gate && rule === undefined) return { ...entry, stage: 'gated' };
    return { ...entry, approved: call.gate, stage: permittedStage(call) };
  });
  for (const { digest, error } of calls)
    if (!refusesAll && error !== undefined) countOutcome(model, digest, true);
  if (!refusesAll) for (const call of calls) stop(model, call);
  giveReceipts(model);
}

/** The client has the work of its calls in the background once they are allowed: their results say so. */
function giveReceipts(model: ReferenceModel): void {
  for (const { call, stage } of model.calls)
    if (stage === 'waiting' && call.executedBy === 'client' && call.background === true)
      settle(model, call.callId, { output: { status: 'started' }, isError: false, receipt: 'client' });
}

/** The rules that say this, and not only in the shadow. */
function saysOf({ verdicts = [] }: Pick<QualifiedCall, 'verdicts'>, verdict: string) {
  return verdicts.filter(one => one.verdict === verdict && one.shadow !== true);
}

/** A rule that stops the run leaves no call that has not begun. */
function stop(model: ReferenceModel, judged: Pick<QualifiedCall, 'verdicts'>): void {
  if (saysOf(judged, 'stop').length === 0) return;
  model.isStopped = true;
  refuseCalls(model, ({ stage, starts }) => isUnbegun(stage) && starts === 0);
}

/** Whether the call would repeat what was done before a compaction: a person has to decide. */
function repeats(
  { deeds }: ReferenceModel,
  { digest, sideEffect, repeatable, error }: QualifiedCall,
): boolean {
  if (sideEffect !== 'once' || repeatable === true || error !== undefined) return false;
  return deeds.some(deed => deed.isPast && !deed.failed && deed.digest === digest);
}

/** Whether every call and its result have the same fate. */
function isWhole({ transcript }: ReferenceModel, { upTo, kept }: Of<'transcript.compacted'>): boolean {
  if (upTo > transcript.length || kept.some(place => place >= upTo)) return false;
  if (kept.some((place, index) => index > 0 && place <= (kept[index - 1] ?? 0))) return false;
  const staying = new Set<string>();
  const going = new Set<string>();
  for (const [place, item] of transcript.entries()) {
    const callId = callIdOf(item);
    if (callId !== undefined) (place >= upTo || kept.includes(place) ? staying : going).add(callId);
  }
  return [...going].every(callId => !staying.has(callId));
}

function callIdOf(item: Expected): string | undefined {
  if ('refused' in item) return item.refused;
  return 'type' in item && (item.type === 'tool_call' || item.type === 'tool_result')
    ? item.callId
    : undefined;
}

function followCompaction(model: ReferenceModel, event: Of<'transcript.compacted'>, { state }: Step): void {
  const { transcript, deeds, latest, inbox } = model;
  const { upTo, kept, inherited = [], items, summary, ledger } = event;
  const pinned: Expected[] = [...inherited, ...kept.flatMap(place => transcript[place] ?? [])];
  const told = ledger.deeds.length > 0 || Object.values(ledger.others).some(count => count > 0);
  const head: Expected[] = [
    ...pinned.filter(isInstruction),
    ...(items ?? [{ framed: summary }]),
    ...(told ? [{ framed: '' }] : []),
    ...pinned.filter(item => !isInstruction(item)),
  ];
  model.judged = head.length + Math.max(0, model.judged - upTo);
  model.transcript = [...head, ...transcript.slice(upTo)];
  const present = new Set(model.transcript.map(item => JSON.stringify(item)));
  model.messages = model.messages.filter(item => inbox.includes(item) || present.has(JSON.stringify(item)));
  model.latest =
    latest === null || latest.from < upTo ? null : { ...latest, from: latest.from - upTo + head.length };
  model.continuation = null;
  model.deeds = deeds.map(deed => ({ ...deed, isPast: true }));
  model.mayCompact = false;
  spendOn(model, event, state);
}

function isInstruction(item: Expected): boolean {
  return 'role' in item && (item.role === 'system' || item.role === 'developer');
}

function spendOn(
  { spending, config }: ReferenceModel,
  { at, startedAt, usage, usageUnknown }: Of<'transcript.compacted'> | Of<'compaction.failed'>,
  { context }: ChartState,
): void {
  spending.tokens += countTokens(usage);
  if (usageUnknown === true) spending.uncounted += 1;
  spending.cost += costOf(usage, config.models[context.turn.model]?.model ?? '', config.prices);
  spending.activeMs += Math.max(0, at - startedAt);
}

function newEntry(call: QualifiedCall) {
  const { input, digest } = call;
  return { call, input, digest, approved: false, approvals: [], starts: 0, mayStart: true, result: null };
}

function followEdit(model: ReferenceModel, event: Of<'transcript.edited'>): void {
  const { items, calls, results = [] } = event;
  model.review = null;
  const ids = new Set(calls.map(({ callId }) => callId));
  const place = items.findLastIndex(item => item.type === 'tool_call' && ids.has(item.callId)) + 1;
  const outcomes = new Map(results.map(result => [result.callId, result]));
  const present = new Set(items.map(item => JSON.stringify(item)));
  const messages = model.messages.filter(item => present.has(JSON.stringify(item)));
  const changed = items.findIndex(
    (item, at) => JSON.stringify(item) !== JSON.stringify(model.transcript[at]),
  );
  model.judged = Math.min(model.judged, items.length, changed === -1 ? items.length : changed);
  if (place > 0 && place < items.length) model.judged = Math.min(model.judged, place);
  model.transcript = items;
  model.messages = [...new Set([...messages, ...model.inbox])];
  model.calls = calls.flatMap((call): ReferenceCall[] => {
    const result = outcomes.get(call.callId);
    return result === undefined ? keptOf(model, call) : [{ ...newEntry(call), stage: 'settled', result }];
  });
  model.latest = null;
  model.answeredBy = null;
  model.isSentBack = false;
  model.isStopped = false;
  model.resultsAt = place === 0 || place === items.length ? null : place;
  model.shown = false;
  model.unfinished = false;
  model.continuation = null;
  admit(model, calls);
}

function keptOf(model: ReferenceModel, { callId, digest }: QualifiedCall): ReferenceCall[] {
  const known = find(model, callId);
  return known?.digest === digest ? [known] : [];
}

/** Applies an edit of the latest turn. Calls that it replaces no longer count. */
function followTurnEdit(model: ReferenceModel, { calls, items }: Of<'turn.edited'>): void {
  model.review = null;
  const { latest, spending, transcript } = model;
  if (latest === null) return;
  const kept = calls.flatMap(call => keptOf(model, call));
  spending.toolCalls -= model.calls.filter(
    entry => !kept.includes(entry) && entry.stage !== 'settled' && entry.call.executedBy === 'engine',
  ).length;
  model.judged = Math.min(model.judged, latest.from);
  model.transcript = [...transcript.slice(0, latest.from), ...(isDraft(model, calls) ? [] : items)];
  model.calls = kept;
  model.latest = { ...latest, calls: calls.length };
  model.answeredBy = null;
  model.isStopped = false;
  model.resultsAt = null;
  model.continuation = null;
  admit(model, calls);
}

function followEffects(model: ReferenceModel, effects: readonly Effect[]): void {
  let decided: NextAction | null = null;
  for (const effect of effects) {
    if (effect.type === 'publish') {
      if (effect.notice.type === 'decided') decided = effect.notice.next;
      if (decided?.type === 'pause' && decided.breakpoint !== undefined) {
        model.paused = true;
        model.held = true;
      }
      if (decided?.type === 'finish') checkEnd(model, decided);
    } else if (effect.type === 'start') startService(model, effect, decided);
    else {
      const { [effect.id]: stopped, ...running } = model.running;
      if (stopped === undefined) model.misuse.push(`${effect.id} was stopped and was not running`);
      model.running = running;
    }
  }
}

/** A run whose limit cannot be checked ends as incomplete, also if the model has answered. */
function checkEnd({ overruns, spending, config }: ReferenceModel, { reason }: { reason?: string }): void {
  const unchecked = findUncheckedLimit(spending, config.limits);
  if (unchecked !== null && reason !== 'usage-unknown')
    overruns.push(`the run ended with ${reason ?? 'no reason'} although ${unchecked}`);
}

function startService(
  model: ReferenceModel,
  { id, service, input }: Extract<Effect, { type: 'start' }>,
  decided: NextAction | null,
): void {
  if (id in model.running) model.misuse.push(`${id} was started and was already running`);
  model.running = { ...model.running, [id]: input };
  if (service === 'timer' || decided === null) return;
  model.unheld = findUnheld(model, decided);
  model.breakpoints = model.breakpoints.filter(
    one => !(model.held && one.once === true && matches(one, decided, model)),
  );
  model.held = false;
  switch (service) {
    case 'answerCheck':
      return spendStep(model, 'a check of the answer');
    case 'toolBatch':
      if (model.isStopped && model.calls.every(({ starts }) => starts === 0))
        model.overruns.push('a call was run although a rule stopped the run');
      for (const entry of model.calls) if (entry.stage === 'ready') entry.stage = 'queued';
      model.spending.activeSince = null;
      return spendStep(model, 'a tool batch');
    case 'compaction':
      checkCompaction(model);
      return spendStep(model, 'a compaction');
    case 'modelTurn':
      spendStep(model, 'a model call');
      beginTurn(model, decided);
  }
}

/** None if a person let it past, asked for this step, or it repeats a turn that did not complete. */
function findUnheld(model: ReferenceModel, decided: NextAction): string[] {
  const { breakpoints, continued, paused, steps, unfinished } = model;
  if (continued || (paused && steps > 0)) return [];
  if (unfinished && decided.type !== 'executeTools') return [];
  return breakpoints
    .filter(one => matches(one, decided, model))
    .map(({ id }) => `${decided.type} started at the breakpoint ${id}`);
}

/** Whether a breakpoint on an action and a tool alone matches the action. */
function matches(
  { next, tool, turn, costOver, where }: Breakpoint,
  decided: NextAction,
  { calls }: ReferenceModel,
): boolean {
  if (turn !== undefined || costOver !== undefined || where !== undefined) return false;
  const named = 'calls' in decided ? decided.calls : [];
  const isAbout = calls.some(({ call }) => call.name === tool && named.includes(call.callId));
  return (next === undefined || next === decided.type) && (tool === undefined || isAbout);
}

/** Once a limit is reached, only one model call may start: the closing call. */
function beginTurn(model: ReferenceModel, decided: NextAction): void {
  const { config, spending, closing, unfinished } = model;
  const isFinal = decided.type === 'streamFinal';
  const isClosing = isFinal && decided.limit !== undefined;
  const reached = findSpentLimit(spending, config.limits);
  const unchecked = findUncheckedLimit(spending, config.limits);
  const held = model.background.reduce((sum, { turns }) => sum + turns, 0);
  const isHeld = held > 0 && spending.turns + held >= config.limits.turns;
  if (reached === null && isHeld && !unfinished)
    model.overruns.push(`a model was called although ${held} turns are held for background work`);
  if (model.isStopped) model.overruns.push('a model was called although a rule stopped the run');
  else if (unchecked !== null) model.overruns.push(`a model was called although ${unchecked}`);
  else if (closing === 'over') model.overruns.push('a model was called after the closing call');
  else if (reached !== null && !isClosing) model.overruns.push(`a model was called although ${reached}`);
  else if (reached !== null && config.onLimit === 'stop')
    model.overruns.push(`a closing call was made although ${reached} and onLimit is "stop"`);
  else if (closing === 'begun' && !unfinished) model.overruns.push('a second closing call was started');
  if (model.answeredBy !== null && !model.isSentBack && !model.inbox.some(isOutcome)) model.spokeOver = true;
  model.answeredBy = null;
  model.isSentBack = false;
  model.transcript = [...model.transcript, ...model.inbox];
  model.inbox = [];
  model.shown = false;
  model.latest = null;
  model.final = isFinal;
  if (isClosing) model.closing = 'begun';
}

/** A transcript is compacted between rounds, within the limits, and not twice without a turn between. */
function checkCompaction(model: ReferenceModel): void {
  const { config, spending, closing, calls, mayCompact } = model;
  const reached = findSpentLimit(spending, config.limits);
  const unchecked = findUncheckedLimit(spending, config.limits);
  if (unchecked !== null) model.overruns.push(`the transcript was compacted although ${unchecked}`);
  if (closing !== 'none') model.overruns.push('the transcript was compacted for the closing call');
  if (reached !== null) model.overruns.push(`the transcript was compacted although ${reached}`);
  if (calls.length > 0) model.misuse.push('the transcript was compacted in the middle of a round');
  if (!mayCompact) model.misuse.push('the transcript was compacted again before the next turn');
}

/** A paused run spends one requested step per service. */
function spendStep(model: ReferenceModel, service: string): void {
  if (!model.paused) return;
  if (model.steps > 0) model.steps -= 1;
  else model.unpaid.push(service);
}

function endActivity({ spending }: ReferenceModel, at: number): void {
  if (spending.activeSince === null) return;
  spending.activeMs += Math.max(0, at - spending.activeSince);
  spending.activeSince = at;
}

/** Counts the outcome of a call; a success resets the failures of its digest. */
function countOutcome({ spending }: ReferenceModel, digest: string, failed: boolean): void {
  const { [digest]: before = 0, ...others } = spending.failures;
  spending.failures = failed ? { ...others, [digest]: before + 1 } : others;
}

function addSpent({ spending }: ReferenceModel, { spent }: { spent?: Spent }): void {
  if (spent === undefined) return;
  spending.turns += spent.turns;
  spending.fromElsewhere += spent.turns;
  spending.toolCalls += spent.toolCalls;
  spending.tokens += countTokens(spent.usage);
  if (spent.usageUnknown === true) spending.uncounted += 1;
  spending.cost += spent.cost;
  spending.activeMs += spent.activeMs;
}

function countTokens(usage: Usage | null): number {
  return usage === null ? 0 : usage.inputTokens + usage.outputTokens;
}

/** Describes the limit that is reached, or returns `null`. `toolCalls` is reached once a call was refused for it. */
export function findSpentLimit(spending: Spending, limits: Limits): string | null {
  const used = {
    ...spending,
    toolCalls: spending.denied === 0 ? -1 : spending.toolCalls,
    repeatedFailures: mostFailures(spending),
  };
  const names = ['turns', 'toolCalls', 'tokens', 'cost', 'activeMs', 'repeatedFailures'] as const;
  const reached = names.find(name => used[name] >= (limits[name] ?? Number.POSITIVE_INFINITY));
  return reached === undefined
    ? null
    : `the limit ${reached} was reached (${used[reached]} of ${limits[reached]})`;
}

/** Describes a limit that cannot be checked, because a turn reported no usage; it allows no further call. */
export function findUncheckedLimit({ uncounted }: Spending, { tokens, cost }: Limits): string | null {
  if (uncounted === 0 || (tokens ?? cost) === undefined) return null;
  return `the limit ${tokens === undefined ? 'cost' : 'tokens'} cannot be checked: ${uncounted} turns reported no usage`;
}

export function mostFailures({ failures }: Spending): number {
  return Math.max(0, ...Object.values(failures));
}
