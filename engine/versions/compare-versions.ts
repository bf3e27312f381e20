import type { Call } from '../../machines/context.ts';
import { chartIdentity, compareChart, type StoredState } from '../../machines/snapshot.ts';
import { JOURNAL_FORMAT, type RunStarted } from '../../protocol/event.ts';
import type { Tool } from '../../protocol/tool.ts';
import { digestTools, type ToolDigest } from '../journal/digest.ts';

/**
 * How what a journal was written with stands to the code that opens it.
 *
 * V1 Format and chart decide whether the journal is read at all; nothing of one that is not is folded.
 * V2 The agent's version, models and tools never keep a run from being opened: people must be able to look
 *    at it, cancel it, and decide its calls. Only another agent's run is not opened.
 * V3 What was recorded of a call and what its tool says now: the more careful of both holds.
 */

/**
 * - `same`: nothing differs;
 * - `compatible`: what differs concerns nothing that is under way;
 * - `needs-migration`: written by an older chart or format, or an open call does not fit its tool any more;
 * - `refused`: another agent's, or written by a newer program, or by a chart that was changed without being counted up.
 */
export type VersionVerdict = 'same' | 'compatible' | 'needs-migration' | 'refused';

export type VersionDifference = {
  what: 'format' | 'chart' | 'agent' | 'model' | 'tool';
  /** Of the model or the tool. */
  name?: string;
  /** `null` where there was, or is, none. */
  was: string | null;
  is: string | null;
  /** What comes of it. */
  effect: string;
};

export type VersionReport = {
  runId: string;
  verdict: VersionVerdict;
  /** Whether the run can be opened, looked at and decided with this code. */
  opens: boolean;
  differences: VersionDifference[];
  /** Why it is refused or needs a migration. */
  reason?: string;
  /** What to do about it. */
  advice?: string;
  /** The run it was migrated to. */
  migratedTo?: string;
};

/** What a journal says of the code that wrote it. */
export type WrittenBy = Pick<RunStarted, 'format' | 'chart'>;

/** Format and chart: whether the journal can be read. */
export function compareJournal(runId: string, { format, chart }: WrittenBy): VersionReport {
  if (!Number.isInteger(format) || !Number.isInteger(chart?.version) || typeof chart.hash !== 'string') {
    const reason = 'it does not say which format and chart wrote it';
    return { runId, verdict: 'refused', opens: false, differences: [], reason };
  }
  if (format !== JOURNAL_FORMAT) {
    const difference = { what: 'format', was: String(format), is: String(JOURNAL_FORMAT) } as const;
    return refuseBy(runId, difference, format < JOURNAL_FORMAT ? 'older' : 'newer');
  }
  const relation = compareChart(chart);
  if (relation === 'same') return { runId, verdict: 'same', opens: true, differences: [] };
  const difference = { what: 'chart', was: nameChart(chart), is: nameChart(chartIdentity()) } as const;
  return refuseBy(runId, difference, relation);
}

function refuseBy(
  runId: string,
  difference: Pick<VersionDifference, 'what' | 'was' | 'is'>,
  relation: 'older' | 'newer' | 'changed',
): VersionReport {
  const { what, was, is } = difference;
  const name = what === 'chart' ? 'chart version' : 'journal format';
  const reason =
    relation === 'changed'
      ? `its chart ${was} and this program's ${is} are two under one version`
      : `it has ${name} ${was}, ${relation} than this program's ${is}`;
  return {
    runId,
    verdict: relation === 'older' ? 'needs-migration' : 'refused',
    opens: false,
    differences: [{ ...difference, effect: 'nothing of the journal is read' }],
    reason,
  };
}

function nameChart({ version, hash }: StoredState['chart']): string {
  return `${version} (${hash})`;
}

/** What the present code has, as far as a run depends on it. */
export type PresentAgent = {
  agent: RunStarted['agent'];
  models: RunStarted['config']['models'];
  tools: ReadonlyMap<string, Tool>;
};

/** What a run that can be read depends on. `tools` is missing where its start did not record them. */
export type RecordedAgent = {
  agent: RunStarted['agent'];
  models: RunStarted['config']['models'];
  tools?: readonly ToolDigest[];
  /** The calls without a result. */
  openCalls: readonly Call[];
};

/** Agent, models and tools; what happens to the open calls decides. The journal itself is taken as readable. */
export async function compareAgents(
  runId: string,
  recorded: RecordedAgent,
  present: PresentAgent,
): Promise<VersionReport> {
  const troubles = (
    await Promise.all(recorded.openCalls.map(call => findTrouble(call, present.tools.get(call.name))))
  ).filter(trouble => trouble !== null);
  const differences = [
    ...compareNames(recorded.agent, present.agent),
    ...compareModels(recorded.models, present.models),
    ...compareTools(recorded, digestTools(present.tools)),
    ...troubles,
  ];
  if (recorded.agent.name !== present.agent.name) {
    const reason = `it belongs to agent "${recorded.agent.name}", and this is agent "${present.agent.name}"`;
    return { runId, verdict: 'refused', opens: false, differences, reason };
  }
  if (troubles.length === 0) {
    const verdict = differences.length === 0 ? 'same' : 'compatible';
    return { runId, verdict, opens: true, differences };
  }
  const names = [...new Set(troubles.map(({ name }) => name))].join(', ');
  return {
    ...{ runId, verdict: 'needs-migration', opens: true, differences },
    reason: `open calls of ${names} do not fit their tools any more`,
  };
}

function compareNames(was: RunStarted['agent'], is: RunStarted['agent']): VersionDifference[] {
  const differences: VersionDifference[] = [];
  if (was.name !== is.name) {
    const effect = 'this is another agent: it does not open the run';
    differences.push({ what: 'agent', name: 'name', was: was.name, is: is.name, effect });
  }
  if (was.version !== is.version) {
    const effect = 'the run goes on with the present version';
    differences.push({
      what: 'agent',
      name: 'version',
      was: was.version ?? null,
      is: is.version ?? null,
      effect,
    });
  }
  return differences;
}

/** The run goes on with the agent's models, by their places; an agent without any is given one when it goes on. */
function compareModels(was: RunStarted['config']['models'], is: RunStarted['config']['models']) {
  if (is.length === 0) return [];
  const places = Array.from({ length: Math.max(was.length, is.length) }, (_, place) => place);
  return places.flatMap((place): VersionDifference[] => {
    const [before, after] = [nameModel(was[place]), nameModel(is[place])];
    if (before === after) return [];
    const effect = after === null ? 'the run has one model less to fall back to' : `turns go to ${after}`;
    return [{ what: 'model', name: String(place + 1), was: before, is: after, effect }];
  });
}

function nameModel(model: { provider: string; model: string } | undefined): string | null {
  return model === undefined ? null : `${model.provider}:${model.model}`;
}

function compareTools({ tools, openCalls }: RecordedAgent, present: readonly ToolDigest[]) {
  if (tools === undefined) return [];
  const was = new Map(tools.map(({ name, digest }) => [name, digest]));
  const is = new Map(present.map(({ name, digest }) => [name, digest]));
  const open = new Set(openCalls.map(({ name }) => name));
  return [...new Set([...was.keys(), ...is.keys()])].sort().flatMap((name): VersionDifference[] => {
    const [before, after] = [was.get(name) ?? null, is.get(name) ?? null];
    if (before === after) return [];
    const effect =
      after === null
        ? 'later calls of it are answered with an error'
        : before === null
          ? 'later turns may call it'
          : `later turns see it as it is now${open.has(name) ? '; it has open calls' : ''}`;
    return [{ what: 'tool', name, was: before, is: after, effect }];
  });
}

/** What keeps an open call from going on as it was qualified; only calls the engine runs need their tool. */
async function findTrouble(call: Call, tool: Tool | undefined): Promise<VersionDifference | null> {
  const { callId, name, input, sideEffect, executedBy } = call;
  if (executedBy === 'client') return null;
  const trouble = (was: string, is: string | null, effect: string): VersionDifference => ({
    ...{ what: 'tool', name, was, is },
    effect: `call ${callId}: ${effect}`,
  });
  if (tool === undefined) return trouble('a tool', null, 'it cannot run, and the model is told so');
  if (tool.run === undefined)
    return trouble('run by the agent', 'run by the client', 'it cannot run, and the model is told so');
  if (tool.sideEffect !== sideEffect)
    return trouble(sideEffect, tool.sideEffect, 'the more careful of both holds for it');
  const validation = await tool.validate(input);
  if (validation.valid) return null;
  return trouble(
    'takes its input',
    validation.message,
    'its input is not valid any more: it does not run, and the model is told so',
  );
}
