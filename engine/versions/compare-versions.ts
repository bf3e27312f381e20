import type { Call } from '../../machines/context.ts';
import { chartIdentity, compareChart, type StoredState } from '../../machines/snapshot.ts';
import { digestTools, serverDigest, type ToolDigest } from '../../protocol/content/digest.ts';
import { JOURNAL_FORMAT, type RunStarted } from '../../protocol/event.ts';
import type { Tool } from '../../protocol/tool.ts';

/**
 * Versions: compares the versions recorded in a journal with the current code. `check-run.ts` reports on a stored run,
 * `migrate-journal.ts` and `migrate-run.ts` migrate runs of earlier versions.
 *
 * V1 Format and chart decide whether a journal is read; an unreadable journal is not folded at all.
 * V2 The agent's version, models and tools never prevent opening a run: people must be able to inspect it, cancel it
 *    and decide its calls. Only a run of another agent is not opened.
 * V3 If a call was recorded with another side effect than its tool has now, the stricter one applies.
 */

/**
 * - `same`: no differences;
 * - `compatible`: the differences do not affect open calls;
 * - `needs-migration`: written by an older chart or format, or an open call no longer fits its tool;
 * - `refused`: of another agent, of a newer program, or of a different chart with the same version.
 */
export type VersionVerdict = 'same' | 'compatible' | 'needs-migration' | 'refused';

/** One difference between a run's versions and the current code. */
export type VersionDifference = {
  what: 'format' | 'chart' | 'agent' | 'model' | 'tool';
  /** The place of the model, the name of the tool, or `name` or `version` of the agent. */
  name?: string;
  /** The recorded value; `null` if there was none. */
  was: string | null;
  /** The current value; `null` if there is none. */
  is: string | null;
  /** The consequence for the run. */
  effect: string;
};

/** The compatibility of a run with the current code. */
export type VersionReport = {
  runId: string;
  verdict: VersionVerdict;
  /** Whether this code can open, inspect and decide the run. */
  opens: boolean;
  differences: VersionDifference[];
  /** Why the run is refused or needs a migration. */
  reason?: string;
  /** What to do about it. */
  advice?: string;
  /** The id of the successor, if the run was migrated. */
  migratedTo?: string;
};

export type WrittenBy = Pick<RunStarted, 'format' | 'chart'>;

export function compareJournal(runId: string, { format, chart }: WrittenBy): VersionReport {
  if (!Number.isInteger(format) || !Number.isInteger(chart?.version) || typeof chart.hash !== 'string') {
    const reason = 'it has no valid format and chart version';
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
      ? `its chart ${was} and this program's chart ${is} differ but have the same version`
      : `it has ${name} ${was}, ${relation} than this program's ${is}`;
  return {
    runId,
    verdict: relation === 'older' ? 'needs-migration' : 'refused',
    opens: false,
    differences: [{ ...difference, effect: 'the journal is not read' }],
    reason,
  };
}

function nameChart({ version, hash }: StoredState['chart']): string {
  return `${version} (${hash})`;
}

export type PresentAgent = {
  agent: RunStarted['agent'];
  models: RunStarted['config']['models'];
  tools: ReadonlyMap<string, Tool>;
};

/** The recorded parts of an agent on which a run depends. `tools` is missing if its start did not record them. */
type RecordedAgent = {
  agent: RunStarted['agent'];
  models: RunStarted['config']['models'];
  tools?: readonly ToolDigest[];
  openCalls: readonly Call[];
};

/** Compares agent, models and tools of a readable journal. The verdict depends on the open calls. */
export async function compareAgents(
  runId: string,
  recorded: RecordedAgent,
  present: PresentAgent,
): Promise<VersionReport> {
  const conflicts = (
    await Promise.all(recorded.openCalls.map(call => findConflict(call, present.tools.get(call.name))))
  ).filter(conflict => conflict !== null);
  const differences = [
    ...compareNames(recorded.agent, present.agent),
    ...compareModels(recorded.models, present.models),
    ...compareTools(recorded, digestTools(present.tools)),
    ...conflicts,
  ];
  if (recorded.agent.name !== present.agent.name) {
    const reason = `it belongs to agent "${recorded.agent.name}", but this is agent "${present.agent.name}"`;
    return { runId, verdict: 'refused', opens: false, differences, reason };
  }
  const found = { runId, opens: true, differences };
  if (conflicts.length === 0) return { ...found, verdict: differences.length === 0 ? 'same' : 'compatible' };
  const names = [...new Set(conflicts.map(({ name }) => name))].join(', ');
  return { ...found, verdict: 'needs-migration', reason: `open calls of ${names} no longer fit their tools` };
}

function compareNames(was: RunStarted['agent'], is: RunStarted['agent']): VersionDifference[] {
  const effects = {
    name: 'another agent does not open the run',
    version: 'the run continues with the current version',
  };
  const changed = (['name', 'version'] as const).filter(name => was[name] !== is[name]);
  return changed.map(name => {
    return { what: 'agent', name, was: was[name] ?? null, is: is[name] ?? null, effect: effects[name] };
  });
}

/** The run continues with the agent's models, by their places. An agent without models gets one when it resumes. */
function compareModels(was: RunStarted['config']['models'], is: RunStarted['config']['models']) {
  if (is.length === 0) return [];
  const places = Array.from({ length: Math.max(was.length, is.length) }, (_, place) => place);
  return places.flatMap((place): VersionDifference[] => {
    const [before, after] = [nameModel(was[place]), nameModel(is[place])];
    if (before === after) return [];
    const effect = after === null ? 'the run has one fallback model less' : `turns use ${after}`;
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
    const effect = describeToolChange(before, after, open.has(name));
    return [{ what: 'tool', name, was: before, is: after, effect }];
  });
}

function describeToolChange(before: string | null, after: string | null, hasOpenCalls: boolean): string {
  if (after === null) return 'later calls of it get an error as their result';
  if (before === null) return 'later turns may call it';
  return `later turns use its current definition${hasOpenCalls ? '; it has open calls' : ''}`;
}

/** Returns why an open call cannot continue as qualified; otherwise `null`. Client tools never conflict. */
async function findConflict(call: Call, tool: Tool | undefined): Promise<VersionDifference | null> {
  const { callId, name, sideEffect, executedBy } = call;
  const conflict = (was: string, is: string | null, effect: string): VersionDifference => {
    return { what: 'tool', name, was, is, effect: `call ${callId}: ${effect}` };
  };
  if (executedBy === 'client') return null;
  const obstacle = await findObstacle(call, tool);
  switch (obstacle?.type) {
    case 'gone':
      return conflict('a tool', null, 'it cannot run and gets an error as its result');
    case 'client':
      return conflict(
        'run by the agent',
        'run by the client',
        'it cannot run and gets an error as its result',
      );
    case 'input':
      return conflict(
        'accepts its input',
        obstacle.message,
        'its input is no longer valid: it does not run and gets an error as its result',
      );
    case 'changed':
      return conflict(
        obstacle.was,
        obstacle.is ?? null,
        'its server has changed its definition: it does not run and gets an error as its result',
      );
    case undefined:
      if (tool === undefined || tool.sideEffect === sideEffect) return null;
      return conflict(sideEffect, tool.sideEffect, 'the stricter of both applies to it');
  }
}

/**
 * Why a call cannot run: the agent has no such tool, its client runs it, its server defines it otherwise than when the call
 * was made, or it refuses the input.
 */
export type CallObstacle =
  | { type: 'gone' }
  | { type: 'client' }
  | { type: 'changed'; was: string; is: string | undefined }
  | { type: 'input'; message: string };

/** Returns why an open call that the agent is to run can no longer run; otherwise `null`. */
export async function findObstacle(
  { input, toolDigest: was }: Pick<Call, 'input' | 'toolDigest'>,
  tool: Tool | undefined,
): Promise<CallObstacle | null> {
  if (tool === undefined) return { type: 'gone' };
  if (tool.run === undefined) return { type: 'client' };
  const is = serverDigest(tool);
  if (was !== undefined && is !== was) return { type: 'changed', was, is };
  const validation = await tool.validate(input);
  return validation.valid ? null : { type: 'input', message: validation.message };
}
