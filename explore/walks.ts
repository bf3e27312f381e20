import type { Call } from '../machines/context.ts';
import { statePath } from '../machines/step.ts';
import { type JsonValue, omitUndefined } from '../protocol/json.ts';
import type { Detail } from './abstract-state.ts';
import type { ExploredAgent } from './describe-agent.ts';
import {
  type CallTemplate,
  type Environment,
  firstCalls,
  invalidCalls,
  listCalls,
  listKinds,
  makeEnvironment,
  type Round,
} from './environment.ts';
import {
  type Breach,
  type Explorer,
  type Steps,
  type StoppedWalk,
  takeSteps,
  type Walk,
  type WalkPlace,
} from './explorer.ts';
import { compacting, makeCallingTurn, receiving, receivingOutcome, startingWork } from './generate-events.ts';
import { answeringQuestions, stamp, starting, type UntimedEvent } from './make-events.ts';
import type { UnfinishedWalks } from './report.ts';

/** The invariant that a complete walk checks at its end. */
export const CAN_END = 'every run can end without being cancelled';

/** What an exploration may spend: states, and the time until which it may walk, `maxMs` from its beginning. */
export type Budget = { maxStates: number; maxMs: number; now(): number; until: number };

/** The end of a share of the remaining time, as `isOver` of a walk. */
export function shareOf({ now, until }: Budget, share: number): () => boolean {
  const end = now() + (until - now()) * share;
  return () => now() >= end;
}

/** One walk: where it starts, what may happen, which states count as equal, and its share of the remaining states. */
type Plan = {
  name: string;
  from?: readonly WalkPlace[];
  environment: Environment;
  detail: Detail;
  share: number;
};

/** Walks that stopped, such as the `earlier` ones of this exploration, continue with the states and the time that the others leave. */
export function walkAll(
  explorer: Explorer,
  agent: ExploredAgent,
  options: WalkAllOptions,
  earlier: readonly NamedWalk[] = [],
): UnfinishedWalks[] {
  return takeSteps(walkPlans(explorer, listPlans(explorer, agent, options), options, earlier));
}

/** A walk that stopped before its end. `isPartial`: people do not all they can, so that it cannot tell whether every run can end. */
export type NamedWalk = { name: string; walk: StoppedWalk; isPartial?: true };

/**
 * Walks only what models, tools and decisions can do, from the start and from right before each limit: no one writes,
 * pauses or edits, and nothing invalid is offered.
 */
export function walkDecisions(
  explorer: Explorer,
  agent: ExploredAgent,
  options: WalkAllOptions,
): Steps<UnfinishedWalks[]> {
  return walkPlans(explorer, listDecisionPlans(explorer, agent, options), options);
}

function* walkPlans(
  explorer: Explorer,
  plans: Generator<Plan>,
  options: WalkAllOptions,
  earlier: readonly NamedWalk[] = [],
): Steps<UnfinishedWalks[]> {
  const remaining = () => options.maxStates - explorer.coverage.states;
  let stopped = [...earlier];
  for (const { name, from = [explorer.start], environment, detail, share } of plans) {
    const mostPlaces = Math.max(1, Math.floor(remaining() * share));
    const isOver = shareOf(options, share);
    const walk = yield* explorer.walkInSteps(from, { environment, detail, mostPlaces, isOver });
    if (walk.isComplete) reportStuckPlace(explorer, walk);
    else stopped.push({ name, walk });
  }
  while (stopped.length > 0 && remaining() > 0 && options.now() < options.until) {
    const open: NamedWalk[] = [];
    for (const [index, one] of stopped.entries()) {
      const share = 1 / (stopped.length - index);
      const mostPlaces = one.walk.places.length + Math.ceil(remaining() * share);
      const walk = yield* one.walk.goOn({ mostPlaces, isOver: shareOf(options, share) });
      if (!walk.isComplete) open.push({ ...one, walk });
      else if (one.isPartial !== true) reportStuckPlace(explorer, walk);
    }
    stopped = open;
  }
  return [...Map.groupBy(stopped, ({ name }) => name)].flatMap(([name, walks]) =>
    listUnfinished(
      name,
      walks.map(({ walk }) => walk),
      options,
      name === BY_HISTORY ? adviseReaders([...explorer.historyReaders]) : '',
    ),
  );
}

/** Describes those of the walks that stopped before their end. `cause`: why there may be more states than can be walked. */
function listUnfinished(
  paths: string,
  walks: readonly Walk[],
  { maxStates, maxMs }: Budget,
  cause = '',
): UnfinishedWalks[] {
  const stopped = walks.flatMap(walk => (walk.isComplete ? [] : [walk]));
  if (stopped.length === 0) return [];
  const stoppedBy = stopped.some(walk => walk.stoppedBy === 'maxMs') ? 'maxMs' : 'maxStates';
  const more =
    stoppedBy === 'maxMs'
      ? `Give it more time: maxMs above ${maxMs}.`
      : `Walk more states: maxStates (--max-states) above ${maxStates}.`;
  return [
    {
      paths,
      stoppedBy,
      states: stopped.reduce((sum, { places }) => sum + places.length, 0),
      open: stopped.reduce((sum, { unexpanded }) => sum + unexpanded, 0),
      advice: cause === '' ? more : `${more} ${cause}`,
    },
  ];
}

const DECISIONS = 'everything that tools and approvals can do';
const BY_HISTORY = 'paths that differ by earlier rounds';

function adviseReaders(names: readonly string[]): string {
  const listed = names.map(name => `"${name}"`).join(', ');
  const [reads, it] = names.length === 1 ? ['reads', 'it'] : ['read', 'them'];
  return `${listed} ${reads} the transcript or \`events\`: for ${it}, states also differ by the earlier calls, which can make more than any maximum. An invariant that reads only \`event\`, \`before\` and the rest of \`context\` needs none of these paths.`;
}

type WalkAllOptions = Budget & { hasInvariants: boolean };

/** Yields the walks in order. A generator: the later ones depend on what the invariants read during the earlier ones. */
function* listPlans(
  explorer: Explorer,
  agent: ExploredAgent,
  { hasInvariants }: WalkAllOptions,
): Generator<Plan> {
  const environment = makeEnvironment(agent, { distinguishesTools: hasInvariants });
  const detail = hasInvariants ? 'calls' : 'chart';
  const kinds = listKinds(agent);
  const singles = kinds.map(call => [call]);
  const pairs = kinds.flatMap((call, index) => (index === 0 || call.gate ? [[call, call]] : []));
  const narrow: Environment = {
    ...environment,
    firstRounds: [...singles, ...pairs],
    rounds: [...singles, ...pairs],
    invalidEvents: false,
    sticky: false,
    mostUnread: 2,
  };
  const withEdits: Environment = { ...narrow, firstRounds: singles, rounds: singles, edits: true };
  const withBreakpoints: Environment = { ...withEdits, edits: false, breakpoints: true };
  const withoutClients: Environment = { ...environment, clientEvents: false };

  const near = followDeepPaths(explorer, agent, environment);

  const pastLimits = { name: 'paths past the limits', detail: 'chart', share: 0.4 } as const;
  yield { ...pastLimits, from: near, environment: narrow };
  for (const costly of listCostlyEnvironments(agent, narrow)) yield { ...pastLimits, environment: costly };
  yield { name: 'edits of the transcript', environment: withEdits, detail: 'chart', share: 0.2 };
  yield {
    name: DECISIONS,
    environment: withoutClients,
    detail,
    share: 0.4,
  };
  if (hasInvariants && explorer.historyReaders.size > 0) {
    yield {
      name: BY_HISTORY,
      environment: { ...withoutClients, invalidEvents: false, sticky: false },
      detail: 'history',
      share: 0.5,
    };
  }
  yield { name: 'breakpoints', environment: withBreakpoints, detail: 'chart', share: 0.2 };
  yield { name: 'all choices', environment, detail, share: 1 };
}

function* listDecisionPlans(
  explorer: Explorer,
  agent: ExploredAgent,
  { hasInvariants }: WalkAllOptions,
): Generator<Plan> {
  const environment: Environment = {
    ...makeEnvironment(agent, { distinguishesTools: hasInvariants }),
    clientEvents: false,
    invalidEvents: false,
  };
  const from = [explorer.start, ...followDeepPaths(explorer, agent, environment)];
  const detail = hasInvariants ? 'calls' : 'chart';
  const share = hasInvariants ? 0.5 : 1;
  yield { name: DECISIONS, from, environment, detail, share };
  if (explorer.historyReaders.size > 0)
    yield {
      name: BY_HISTORY,
      from,
      environment: { ...environment, sticky: false },
      detail: 'history',
      share: 1,
    };
}

/** The share of `maxStates` for each of the two additional walks of a changed chart. */
const CHANGED_SHARE = 0.3;

/** With finer states: a changed chart could distinguish what the unchanged one cannot. Rarely complete. */
export function walkChangedChart(
  explorer: Explorer,
  agent: ExploredAgent,
  budget: Budget,
): UnfinishedWalks[] {
  const environment = makeEnvironment(agent);
  const kinds = listKinds(agent);
  const gated = kinds.filter(({ gate }) => gate);
  const rounds = [
    ...kinds.map(call => [call]),
    ...gated.flatMap(call => [
      [call, call],
      [call, call, call],
    ]),
  ];
  const wide: Environment = {
    ...environment,
    firstRounds: rounds,
    rounds,
    invalidEvents: false,
    mostUnread: 2,
  };
  const deep: Environment = { ...wide, clientEvents: false, sticky: false, endings: ['stop'], cutOff: [] };
  const walks = [deep, wide].map(variant =>
    explorer.walk([explorer.start], {
      environment: variant,
      detail: 'changed',
      mostPlaces: Math.max(1, Math.floor(budget.maxStates * CHANGED_SHARE)),
      isOver: shareOf(budget, 1 - CHANGED_SHARE),
    }),
  );
  const cause =
    'States of a chart with other actions or guards also differ by counts and earlier outcomes; lower limits of the agent reduce them.';
  return listUnfinished('paths that only a changed chart could distinguish', walks, budget, cause);
}

function listCostlyEnvironments({ config }: ExploredAgent, environment: Environment): Environment[] {
  const { tokens, cost, activeMs } = config.limits;
  const rest = { outputTokens: 0, cachedInputTokens: null, cacheWriteTokens: null, reasoningTokens: null };
  const environments: Environment[] = [];
  if (tokens !== undefined)
    environments.push({ ...environment, usage: { inputTokens: Math.ceil(tokens), ...rest } });
  if (cost !== undefined) {
    const price = config.prices?.[config.models[0]?.model ?? '']?.input ?? 0;
    const inputTokens = price > 0 ? Math.ceil((cost * 1_000_000) / price) : 0;
    environments.push({ ...environment, usage: { inputTokens, ...rest } });
  }
  if (tokens !== undefined || cost !== undefined) environments.push({ ...environment, usage: null });
  if (activeMs !== undefined) environments.push({ ...environment, turnMs: Math.ceil(activeMs) });
  return environments;
}

function reportStuckPlace(explorer: Explorer, walk: Walk): void {
  if (explorer.breaches.size > 0) return;
  const [stuck] = findStuckPlaces(walk).sort((one, other) => one.depth - other.depth);
  if (stuck === undefined) return;
  const { from, depth } = stuck;
  const breach: Breach = {
    invariant: CAN_END,
    message: 'from here only cancelling ends the run',
    before: from?.place ?? stuck,
    event: from?.event ?? null,
    depth,
  };
  explorer.breaches.set(CAN_END, breach);
}

/** The maximum of events of one path; far more than the usual limits allow. */
const MAX_EVENTS = 5_000;

/** Single paths, up to each limit and past it. Returns places from which one more step reaches one. */
function followDeepPaths(explorer: Explorer, agent: ExploredAgent, environment: Environment): WalkPlace[] {
  const take = (place: WalkPlace, event: UntimedEvent): WalkPlace | null =>
    explorer.take(place, stamp(place.state.context, event))?.place ?? null;
  const callIn = (place: WalkPlace, round: Round): WalkPlace | null =>
    isInTurn(place) ? take(place, makeCallingTurn(round, place.state.context, environment)) : null;
  /** Takes every event up to the next turn; of a run that cannot get there, as many as it can. */
  const finishRound = (from: WalkPlace, calls: number): WalkPlace => {
    let place = from;
    const deepest = place.depth + 4 * calls + 20;
    while (place.state.status === 'active' && !isInTurn(place)) {
      const events = listAdvances(place, environment);
      const after = events.map(event => take(place, event)).find(taken => taken !== null);
      if (after === undefined || after.depth > deepest) return place;
      place = after;
    }
    return place;
  };
  const start = finishRound(explorer.start, explorer.start.state.context.calls.length);
  const follow = (count: number, step: (place: WalkPlace, index: number) => WalkPlace | null): WalkPlace => {
    let place = start;
    for (let index = 0; index < count; index += 1) {
      const after = step(place, index);
      if (after === null) return place;
      place = after;
    }
    return place;
  };
  const takeRound = (from: WalkPlace, round: Round): WalkPlace | null => {
    const called = callIn(from, round);
    return called && finishRound(called, round.length);
  };
  const [unknown] = invalidCalls(agent);
  const callUnknown = (count: number, inputOf: (turn: number) => JsonValue): WalkPlace =>
    follow(Math.min(count, MAX_EVENTS), (place, turn) =>
      callIn(place, [{ ...unknown, input: inputOf(turn) }]),
    );
  /** Turns that only call an unknown tool, the cheapest: each with another input, so that no failure repeats. */
  const spendTurns = (count: number) => callUnknown(count, turn => ({ try: turn }));
  const fail = (count: number) => callUnknown(count, () => ({}));

  const { limits } = agent.config;
  const rounds = Math.min(limits.turns, MAX_EVENTS) + 3;
  const calls = firstCalls(agent);
  for (const call of calls) follow(rounds, place => takeRound(place, [call]));
  if (calls.length > 1)
    follow(rounds, (place, index) => takeRound(place, calls.slice(index % calls.length).slice(0, 1)));
  spendTurns(rounds);
  fail(rounds);
  for (const round of environment.probes) callIn(start, round);

  const { turns, toolCalls } = start.reference.spending;
  const places = [spendTurns(limits.turns - 1 - turns)];
  const call = listCalls(agent).find(({ executedBy }) => executedBy === 'engine');
  const left = limits.toolCalls - 1 - toolCalls;
  if (call !== undefined && left > 0 && left < MAX_EVENTS)
    places.push(takeRound(start, new Array<CallTemplate>(left).fill(call)) ?? start);
  if (limits.repeatedFailures !== undefined) places.push(fail(limits.repeatedFailures - 1));
  return [...new Set(places)];
}

function isInTurn({ state }: WalkPlace): boolean {
  return state.status === 'active' && statePath(state).startsWith('turn');
}

/** The events that may advance the run; every call is approved and succeeds. */
function* listAdvances({ state }: WalkPlace, environment: Environment): Generator<UntimedEvent, undefined> {
  const { calls, paused, timer, now, review, background } = state.context;
  for (const call of calls) {
    const event = answerTo(call, environment);
    if (event !== null) yield event;
  }
  if (paused) yield { type: 'run.unpaused' };
  else if (timer !== null) yield { type: 'timer.fired', at: Math.max(timer, now + 1) };
  else if (review !== null) {
    const { id: reviewId, digest } = review;
    yield { type: 'review.decided', reviewId, digest, decision: { type: 'approve' } };
  } else if (statePath(state) === 'finishing') yield { type: 'answer.checked' };
  else if (statePath(state) === 'compacting') yield compacting(state.context);
  else for (const { callId, childRunId } of background) yield receivingOutcome(callId, childRunId);
}

function answerTo(
  { callId, name, digest, status, attempt, childRunId, background, asked }: Call,
  environment: Environment,
): UntimedEvent | null {
  const [output = null] = environment.outputs(name);
  switch (status) {
    case 'gated':
      return { type: 'approval.decided', callId, digest, decision: { type: 'approve' } };
    case 'queued':
      return starting(callId, attempt + 1);
    case 'running':
    case 'reconciling':
      if (background === true) return startingWork(callId);
      return { type: 'tool.settled', callId, output, isError: false };
    case 'asking':
      return asked === undefined ? null : answeringQuestions(callId, asked);
    case 'waiting':
      return { ...receiving(callId, output), ...omitUndefined({ childRunId }) };
    case 'doubted':
      return { type: 'doubt.resolved', callId, resolution: { type: 'happened', output } };
    case 'ready':
    case 'settled':
      return null;
  }
}

export function findStuckPlaces({ places, moves }: Walk): WalkPlace[] {
  const before: number[][] = places.map(() => []);
  for (const [from, to] of moves) before[to]?.push(from);
  const ended = places.flatMap(({ state }, index) => (state.status === 'active' ? [] : [index]));
  const canEnd = new Set(ended);
  const queue = [...ended];
  for (let to = queue.pop(); to !== undefined; to = queue.pop()) {
    for (const from of before[to] ?? []) {
      if (canEnd.has(from)) continue;
      canEnd.add(from);
      queue.push(from);
    }
  }
  return places.filter((_, index) => !canEnd.has(index));
}
