import type { Detail } from './abstract-state.ts';
import type { ExploredAgent } from './describe-agent.ts';
import { Drive } from './environment/drive.ts';
import type { Environment } from './environment/environment.ts';
import { listKinds, makeEnvironment } from './environment/environments.ts';
import type { Explorer, Walk } from './explorer.ts';
import { findStuckPlaces } from './find-stuck-places.ts';
import type { Breach, Place } from './place.ts';
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
  /** Names the walk in the report's notes. */
  name: string;
  from?: readonly Place[];
  environment: Environment;
  detail: Detail;
  share: number;
};

/** Runs all walks. Returns those that stopped before their end. */
export function walkAll(
  explorer: Explorer,
  agent: ExploredAgent,
  options: WalkAllOptions,
): UnfinishedWalks[] {
  const unfinished = new Map<string, Walk[]>();
  for (const { name, from = [explorer.start], environment, detail, share } of listPlans(
    explorer,
    agent,
    options,
  )) {
    const remaining = options.maxStates - explorer.coverage.states;
    const mostPlaces = Math.max(1, Math.floor(remaining * share));
    const isOver = shareOf(options, share);
    const walk = explorer.walk(from, { environment, detail, mostPlaces, isOver });
    if (walk.isComplete) reportStuckPlace(explorer, walk);
    else unfinished.set(name, [...(unfinished.get(name) ?? []), walk]);
  }
  return [...unfinished].flatMap(([name, walks]) =>
    listUnfinished(name, walks, options, name === BY_HISTORY ? adviseReaders(explorer.historyReaders) : ''),
  );
}

/** Describes those of the walks that stopped before their end. `cause`: why there may be more states than can be walked. */
export function listUnfinished(
  paths: string,
  walks: readonly Walk[],
  { maxStates, maxMs }: Budget,
  cause = '',
): UnfinishedWalks[] {
  const stopped = walks.filter(({ isComplete }) => !isComplete);
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

  const drive = new Drive(explorer, agent, environment);
  drive.goDeep();
  drive.tryProbes();
  const near = drive.listPlacesNearLimits();

  const pastLimits = { name: 'paths past the limits', detail: 'chart', share: 0.4 } as const;
  yield { ...pastLimits, from: near, environment: narrow };
  for (const costly of listCostlyEnvironments(agent, narrow)) yield { ...pastLimits, environment: costly };
  yield { name: 'edits of the transcript', environment: withEdits, detail: 'chart', share: 0.2 };
  yield {
    name: 'everything that tools and approvals can do',
    environment: withoutClients,
    detail,
    share: 0.4,
  };
  if (hasInvariants && explorer.historyReaders.length > 0) {
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

/** The share of `maxStates` for each of the two additional walks of a changed chart. */
const CHANGED_SHARE = 0.3;

/**
 * Walks a chart with changed actions or guards again, with finer states: it could distinguish what the
 * unchanged chart cannot. These walks are rarely complete.
 */
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
    'States of a chart with other actions or guards also differ by counts and earlier outcomes; lower limits of the agent make them fewer.';
  return listUnfinished('paths that only a changed chart could distinguish', walks, budget, cause);
}

/** Environments in which one turn reaches the limit of tokens, cost or active time. */
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
