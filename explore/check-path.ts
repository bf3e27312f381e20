import { type Agent, isAgent } from '../agent/agent.ts';
import { EngineError, invalidInput } from '../protocol/error.ts';
import { type ChartEvent, callsOf, type QualifiedCall, type RunStarted } from '../protocol/event.ts';
import { omitUndefined } from '../protocol/json.ts';
import { optionNames } from '../protocol/options/refuse-unknown.ts';
import { isSame } from './built-in-invariants.ts';
import { describeAgent, type ExploredTool, type ToolSamples } from './describe-agent.ts';
import { beginExploration, type ExploreOptions, refuseUnknownExploreOptions } from './explore.ts';

import { type BreachReport, reportBreach } from './report.ts';

/** A path that broke an invariant or a rule: `past` begins with `run.started` and is only followed; `path` is checked. */
export type CheckedPath = {
  readonly past: readonly [RunStarted, ...ChartEvent[]];
  readonly path: readonly ChartEvent[];
};

type Known = 'machine' | 'invariants' | 'samples' | 'runContext' | 'tools' | 'never';

/** `undefined` means no option, so the optional exports of a module can be passed on as they are. */
export type CheckPathOptions = { readonly [Name in Known]?: ExploreOptions[Name] | undefined };

const NAMES = optionNames<CheckPathOptions>()('machine invariants samples runContext tools never');

/**
 * Checks the invariants and rules on one path that `explore` found, with the agent as it is now: its limits, and what its tools
 * need an approval for. Returns the breaches; none if an event of the path is no longer possible. Executes nothing.
 * Throws like `explore`.
 *
 * @example
 * expect(checkPath(agent, found, { invariants })).toEqual([]);
 */
export function checkPath(
  agent: Agent,
  { past, path }: CheckedPath,
  options: CheckPathOptions = {},
): BreachReport[] {
  refuseUnknownExploreOptions('checkPath', options, NAMES);
  if (!isAgent(agent)) throw invalidInput('Expected an agent created by createAgent.');
  const [started, ...followed] = past;
  const passed = omitUndefined(options);
  const { tools: connected } = passed;
  const given = omitUndefined({ connected, runContext: passed.runContext, stored: started });
  const names = describeAgent(agent, given).tools.map(({ name }) => name);
  const samples = withInputs(passed.samples, [...followed, ...path].flatMap(callsOf), names);
  const { config, tools } = describeAgent(agent, { ...given, samples });
  const qualify = (event: ChartEvent): ChartEvent => requalify(event, tools);
  try {
    const { explorer } = beginExploration(
      agent,
      { ...passed, samples },
      { started: { ...started, config }, past: followed.map(qualify) },
    );
    let place = explorer.start;
    for (const event of path) {
      const taken = explorer.take(place, qualify(event));
      if (taken === null) break;
      place = taken.place;
    }
    return [...explorer.breaches.values(), ...explorer.broken.values()].map(breach =>
      reportBreach(breach, explorer),
    );
  } catch (error) {
    if (error instanceof EngineError && error.code === 'journal-damaged') return [];
    throw error;
  }
}

function withInputs(
  samples: ExploreOptions['samples'] = {},
  calls: readonly QualifiedCall[],
  names: readonly string[],
): Record<string, ToolSamples> {
  const all: Record<string, ToolSamples> = { ...samples };
  for (const { name, input, error } of calls) {
    if (!names.includes(name) || error !== undefined) continue;
    const { calls: known = [], ...rest } = all[name] ?? {};
    if (known.some(one => isSame(one.input, input))) continue;
    all[name] = { ...rest, calls: [...known, { input }] };
  }
  return all;
}

function requalify(event: ChartEvent, tools: readonly ExploredTool[]): ChartEvent {
  const qualify = (call: QualifiedCall): QualifiedCall => qualifyCall(call, event.at, tools);
  switch (event.type) {
    case 'turn.completed':
    case 'turn.edited':
    case 'transcript.edited':
      return { ...event, calls: event.calls.map(qualify) };
    case 'call.edited':
      return { ...event, call: qualify(event.call) };
    default:
      return event;
  }
}

/** The rules as they are now judge the call again. */
function withoutVerdicts(call: QualifiedCall, tools: readonly ExploredTool[]): QualifiedCall {
  if (call.verdicts === undefined) return call;
  const { verdicts, error, by, not, quorum, gate, reason, ...bare } = call;
  const calls = tools.find(({ name }) => name === call.name)?.calls ?? [];
  const gates = calls.find(({ input }) => isSame(input, call.input))?.gates ?? [];
  return { ...bare, gate: gates.every(one => one.gate) && gates.length > 0 };
}

function qualifyCall(made: QualifiedCall, at: number, tools: readonly ExploredTool[]): QualifiedCall {
  const call = withoutVerdicts(made, tools);
  if (call.error !== undefined) return call;
  const tool = tools.find(({ name }) => name === call.name);
  if (tool === undefined) return { ...call, gate: false, error: `Not run: There is no tool "${call.name}".` };
  const { sideEffect, reconcilable, executedBy } = tool;
  const gates = tool.calls.find(({ input }) => isSame(input, call.input))?.gates ?? [];
  const kept = { ...call, sideEffect, reconcilable, executedBy };
  const [answer] = gates;
  if (answer === undefined || gates.some(({ gate }) => gate === call.gate)) return kept;
  const { expiresInMs, ...gate } = answer;
  return {
    ...kept,
    ...gate,
    ...omitUndefined({ expiresAt: expiresInMs === undefined ? undefined : at + expiresInMs }),
  };
}
