import { dutiesOf } from '../machines/duties.ts';
import type { Duties, QualifiedCall } from '../protocol/event.ts';
import { type JsonValue, omitUndefined } from '../protocol/json.ts';
import type { FinishReason, Usage } from '../protocol/turn.ts';
import { isSame } from './built-in-invariants.ts';
import { asksForPeople, type ExploredAgent, type ExploredTool, type GateSample } from './describe-agent.ts';

/** A call that the model may make. Its id, digest and expiry are added when it is made. */
export type CallTemplate = Omit<QualifiedCall, 'callId' | 'digest' | 'expiresAt'> & { expiresInMs?: number };

/** A review that guardrails of the answer may ask for. */
export type ReviewTemplate = { duties?: Duties; expiresInMs?: number };

export type Round = readonly CallTemplate[];

/** What the model, the tools and people may do during an exploration. */
export type Environment = {
  /** The calls of the first turn, and of later turns. */
  firstRounds: readonly Round[];
  rounds: readonly Round[];
  /** Rounds that are checked at the start and not explored further. */
  probes: readonly Round[];
  /** The calls that are combined with a text and every finish reason. */
  cutOff: Round;
  endings: readonly FinishReason[];
  /** Whether the first turn may be the answer. */
  mayAnswerAtOnce: boolean;
  /** Of each turn; `null`: the provider reports none. */
  usage: Usage | null;
  /** The duration of each turn in ms. */
  turnMs: number;
  outputs(tool: string): readonly JsonValue[];
  /** The input that replaces a call's input when a person edits it. */
  editedInput(call: QualifiedCall): JsonValue;
  /** Who has to approve a call once it has the input. Default: who has to approve it now. */
  dutiesOf?(call: QualifiedCall, input: JsonValue): Duties;
  /** The number of attempts of a call, including the first. */
  attempts(tool: string): number;
  /** Whether the outcome of the call may be unknown. */
  doubts(call: QualifiedCall): boolean;
  /**
   * How often the tool of a call may ask people: before the call begins (`prepare`), or after its start (`run`), where a
   * `once` call keeps first how far it has come. Default: it does not ask.
   */
  asks?(call: QualifiedCall): { in: 'prepare' | 'run'; most: number; duties?: Duties } | null;
  /** Whether the call may wait for a sub-agent. */
  suspends(call: QualifiedCall): boolean;
  /** Whether people approve calls. Default: `true`. */
  approvals?: boolean;
  /** Whether events name people: who started the run, who writes in it, and who decides. Default: `false`. */
  people?: boolean;
  /** Whether an approval excludes those who wrote in the run. Default: `false`. */
  excludesSenders?: boolean;
  /** Whether tool servers may need a sign-in. Default: `false`. */
  signIns?: boolean;
  /** Whether guardrails judge what the model reads. Default: `false`. */
  judges?: boolean;
  /** Whether rules judge calls right before they start. Default: `false`. */
  rules?: boolean;
  /** The reviews that the check of the answer may ask for. Default: none. */
  reviews?: readonly ReviewTemplate[];
  /** Whether decisions may also apply to later calls. */
  sticky: boolean;
  /** Whether the transcript (once per turn) and the parameters are edited. */
  edits: boolean;
  /** Whether breakpoints are set and removed. Default: `false`. */
  breakpoints?: boolean;
  /** Whether people send messages, pause, step and cancel, in addition to deciding about calls. */
  clientEvents: boolean;
  /** The maximum of unread messages. Default 1. */
  mostUnread?: number;
  /** Whether events that must be ignored are offered: stale, unknown, already decided, expired. */
  invalidEvents: boolean;
};

/** The finish reasons of a completed turn. An error is not among them: it fails the turn. */
const ENDINGS: readonly FinishReason[] = [
  'stop',
  'tool_calls',
  'length',
  'content_filter',
  'pause',
  'unknown',
];

const FREE: Usage = {
  inputTokens: 0,
  outputTokens: 0,
  cachedInputTokens: null,
  cacheWriteTokens: null,
  reasoningTokens: null,
};

/** With everything that can become of a review. The duties are what a guardrail says, and are not explored. */
const REVIEWS: readonly ReviewTemplate[] = [{ expiresInMs: 60_000 }];

/** Up to this many tools, rounds of two calls combine every tool; above it, one tool of each kind. */
const FEW_TOOLS = 5;

/** Returns the full environment of an agent: every call of every tool, pairs of calls, people, invalid events. */
export function makeEnvironment(agent: ExploredAgent, { distinguishesTools = false } = {}): Environment {
  const { config } = agent;
  const singles = listCalls(agent).map(call => [call]);
  const broken = invalidCalls(agent).map(call => [call]);
  const noTools = config.toolChoice === 'none';
  const rounds: Round[] = noTools ? [] : [...singles, ...broken, ...listPairs(agent, distinguishesTools)];
  const firstRounds = rounds.filter(round => isForced(round, agent));
  const [cutOff = []] = [...singles, ...broken];
  const tools = new Map(agent.tools.map(tool => [tool.name, tool]));
  return {
    firstRounds: firstRounds.length === 0 ? rounds : firstRounds,
    rounds,
    probes: listProbes(agent),
    cutOff: noTools ? [] : cutOff,
    endings: ENDINGS,
    mayAnswerAtOnce: config.toolChoice === 'auto' || noTools || agent.tools.length === 0,
    usage: FREE,
    turnMs: 1,
    outputs: name => tools.get(name)?.outputs ?? ['done'],
    editedInput: ({ name, input }) => {
      const others = tools.get(name)?.calls.map(call => call.input) ?? [];
      return others.find(other => JSON.stringify(other) !== JSON.stringify(input)) ?? input;
    },
    dutiesOf: (call, input) => {
      const gates = tools.get(call.name)?.calls.find(one => isSame(one.input, input))?.gates ?? [];
      const gated = gates.filter(({ gate }) => gate);
      const isKept = gated.length === 0 || gated.some(one => isSame(dutiesOf(one), dutiesOf(call)));
      return dutiesOf(isKept ? call : (gated[0] ?? call));
    },
    attempts: name => tools.get(name)?.attempts ?? 1,
    doubts: ({ sideEffect, background }) => sideEffect === 'once' && background !== true,
    asks: ({ name }) => (tools.get(name)?.prepares === true ? { in: 'prepare', most: 1 } : null),
    suspends: ({ name }) => tools.get(name)?.isSubAgent ?? false,
    sticky: agent.tools.some(({ calls }) => calls.some(({ gates }) => gates.some(({ gate }) => gate))),
    people: asksForPeople(agent),
    excludesSenders: agent.tools.some(({ calls }) =>
      calls.some(({ gates }) => gates.some(({ not }) => not === 'sender')),
    ),
    judges: agent.judges === true,
    signIns: agent.signsIn === true,
    reviews: agent.asks === true ? REVIEWS : [],
    edits: false,
    clientEvents: true,
    invalidEvents: true,
  };
}

/** Returns every call of every tool: each input with each answer about its approval. */
export function listCalls({ tools }: ExploredAgent): CallTemplate[] {
  return tools.flatMap(tool =>
    tool.calls.flatMap(({ input, gates }) => gates.map(gate => makeTemplate(tool, input, gate))),
  );
}

/** Returns the first call of each tool. */
export function firstCalls(agent: ExploredAgent): CallTemplate[] {
  return agent.tools.flatMap(tool => listCalls({ ...agent, tools: [tool] }).slice(0, 1));
}

/** Returns one call of each kind that the chart distinguishes. */
export function listKinds(agent: ExploredAgent): CallTemplate[] {
  const kinds = new Map<string, CallTemplate>();
  for (const call of listCalls(agent)) {
    const { sideEffect, reconcilable, executedBy, gate, expiresInMs, by, not, quorum, answers } = call;
    const tool = agent.tools.find(({ name }) => name === call.name);
    const kind = JSON.stringify([
      ...[sideEffect === 'once' && reconcilable, sideEffect === 'once', executedBy],
      ...[gate, gate && expiresInMs !== undefined, tool?.isSubAgent, (tool?.attempts ?? 1) > 1],
      ...[by, not, quorum, answers, call.background, tool?.prepares, agent.monitor?.symbolOf(call)],
    ]);
    if (!kinds.has(kind)) kinds.set(kind, call);
  }
  return [...kinds.values()];
}

function listPairs(agent: ExploredAgent, distinguishesTools: boolean): Round[] {
  const kinds = listKinds(agent);
  const all =
    distinguishesTools && agent.tools.length <= FEW_TOOLS ? [...kinds, ...firstCalls(agent)] : kinds;
  const texts = all.map(call => JSON.stringify(call));
  const calls = all.filter((_, index) => texts.indexOf(texts[index] ?? '') === index);
  const [first] = calls;
  const broken = invalidCalls(agent).slice(0, 1);
  const pairs = calls.flatMap((call, index) => calls.slice(index).map(other => [call, other]));
  return first === undefined ? [] : [...pairs, ...broken.map(call => [call, first])];
}

/** Returns a call of an unknown tool, and a call with invalid arguments. */
export function invalidCalls({ tools }: ExploredAgent): [CallTemplate, ...CallTemplate[]] {
  const refused = {
    sideEffect: 'none',
    reconcilable: false,
    executedBy: 'engine',
    gate: false,
  } as const;
  const names = tools.map(({ name }) => name).join(', ');
  const unknown = `Not run: There is no tool "no_such_tool". The tools are: ${names || 'none'}.`;
  return [
    { name: 'no_such_tool', input: {}, ...refused, error: unknown },
    ...tools.slice(0, 1).map(({ name }) => ({
      name,
      input: { no: 'such property' },
      ...refused,
      error: 'Not run: The arguments are not valid: expected what the schema says',
    })),
  ];
}

function listProbes(agent: ExploredAgent): Round[] {
  const { toolCalls } = agent.config.limits;
  const call = listCalls(agent).find(({ executedBy }) => executedBy === 'engine');
  return call === undefined || toolCalls > MAX_CALLS
    ? []
    : [Array.from({ length: toolCalls + 1 }, () => call)];
}

const MAX_CALLS = 1_000;

function isForced(round: Round, { config, tools }: ExploredAgent): boolean {
  const { toolChoice } = config;
  if (typeof toolChoice !== 'object' || tools.every(({ name }) => name !== toolChoice.name)) return true;
  return round.every(({ name }) => name === toolChoice.name);
}

function makeTemplate(tool: ExploredTool, input: CallTemplate['input'], gate: GateSample): CallTemplate {
  const { name, sideEffect, reconcilable, executedBy, answers, background } = tool;
  const result = omitUndefined({ answers, background });
  return { name, input, sideEffect, reconcilable, executedBy, ...gate, ...result };
}
