import { toolResults } from '../../machines/tool-results.ts';
import type { ServiceName } from '../../protocol/effect.ts';
import { messageOf } from '../../protocol/error.ts';
import type { Finisher, ToolResult } from '../../protocol/finisher.ts';
import { DEEPEST_JSON, isTooDeep, type JsonValue, omitUndefined, toJson } from '../../protocol/json.ts';
import type { Tool } from '../../protocol/tool.ts';
import type { DriveWatcher } from '../events/watch-drive.ts';
import { LONGEST_NAP_MS, sleep } from '../host/host.ts';
import type { SubAgentRuns } from '../sub-agents/sub-agent-runs.ts';
import { makeCompaction } from './compaction.ts';
import type { AgentDefinition, OutputContract } from './definition.ts';
import { makeModelTurn } from './model-turn.ts';
import type { Service, ServiceScope } from './service.ts';
import { makeToolBatch } from './tool-batch.ts';

/* Services carry out the chart's effects: model turns, tool batches, the timer, and checks of the answer. */

type ServiceParts = {
  connectTools(): Promise<ReadonlyMap<string, Tool>>;
  subAgents: SubAgentRuns;
  watchers?: readonly DriveWatcher[] | undefined;
};

export function makeServices(
  { output, finishers, toolConcurrency: concurrency, ...turn }: AgentDefinition,
  { connectTools, subAgents, watchers }: ServiceParts,
): Readonly<Record<ServiceName, Service>> {
  const format = omitUndefined({ output: output?.format, watchers });
  return {
    compaction: makeCompaction({ ...turn, connectTools }),
    modelTurn: makeModelTurn({ ...turn, ...format, connectTools }),
    toolBatch: makeToolBatch({ connectTools, subAgents, concurrency, retryBaseMs: turn.retry.baseMs }),
    timer,
    finishers: makeFinishers(finishers, output),
  };
}

/** Fires by the wall clock, even if the machine slept; before a retry also by the monotonic one, as the other may be set back. */
const timer: Service = async scope => {
  const { host, until = 0 } = scope;
  const { signal } = scope.stop;
  const isBackOff = scope.context().failure !== null;
  const longest = host.monotonic() + Math.max(0, until - host.now());
  while (host.now() < until && !signal.aborted) {
    const left = isBackOff ? longest - host.monotonic() : until - host.now();
    if (left <= 0) break;
    await sleep(host, Math.min(left, until - host.now(), LONGEST_NAP_MS), signal);
  }
  if (!signal.aborted) scope.report({ type: 'timer.fired' });
};

/** A finisher that throws rejects the answer. An incomplete answer with an invalid format ends the run without an output. */
function makeFinishers(finishers: readonly Finisher[], output: OutputContract | undefined): Service {
  return async scope => {
    await scope.durable();
    const text = await applyFinishers(scope, finishers);
    if (text === undefined) return;
    if (output === undefined) return void scope.report({ type: 'finishers.completed', text });
    const checked = await checkOutput(output, text);
    if (scope.stop.isStopped) return;
    const { next } = scope.context();
    const isIncomplete = next?.type === 'finish' && next.reason !== undefined;
    if ('output' in checked) scope.report({ type: 'finishers.completed', text, output: checked.output });
    else if (isIncomplete) scope.report({ type: 'finishers.completed', text });
    else scope.report({ type: 'finishers.rejected', code: 'output-invalid', feedback: checked.fault });
  };
}

/** Returns the text after all finishers; `undefined` if one rejected it or the run was aborted. */
async function applyFinishers(
  scope: ServiceScope,
  finishers: readonly Finisher[],
): Promise<string | undefined> {
  const context = scope.context();
  const transcript = [...(await scope.inherited()), ...context.transcript];
  const reject = (feedback: string) => void scope.report({ type: 'finishers.rejected', feedback });
  let text = context.answer?.text ?? '';
  for (const finish of finishers) {
    const input = {
      runId: context.runId,
      runContext: context.runContext,
      text,
      results: toolResults(context),
      transcript,
      wholeOutput: async ({ output, blob }: Pick<ToolResult, 'output' | 'blob'>) =>
        blob === undefined || scope.blobs === null ? (output as JsonValue) : await scope.blobs.load(blob),
    };
    try {
      const outcome = await finish(input, { signal: scope.stop.signal });
      if (scope.stop.isStopped) return undefined;
      if (outcome === undefined) continue;
      if ('reject' in outcome) return reject(outcome.reject);
      text = outcome.text ?? text;
    } catch (error) {
      if (scope.stop.isStopped) return undefined;
      return reject(`The answer could not be checked: ${messageOf(error)}`);
    }
  }
  return text;
}

/** Parses the answer as JSON, optionally in a code fence, and validates it. Never rejects. */
export async function checkOutput(
  { validate }: OutputContract,
  text: string,
): Promise<{ output: JsonValue } | { fault: string }> {
  if (isTooDeep(text))
    return { fault: `The answer is nested more than ${DEEPEST_JSON} levels deep. Answer again, with less.` };
  const value = parseAnswer(text);
  if (value === undefined)
    return { fault: 'The answer is not valid JSON. Answer again with the JSON object alone: no other text.' };
  try {
    const validation = await validate(value);
    if (validation.valid) return { output: toJson(validation.value) };
    return { fault: `The answer does not follow the schema: ${validation.message}. Answer again.` };
  } catch (error) {
    return { fault: `The answer could not be checked: ${messageOf(error)}` };
  }
}

const FENCE = '```';
const OPENING = /^```(?:json)?$/i;

function parseAnswer(text: string): JsonValue | undefined {
  try {
    return JSON.parse(withoutFence(text.trim()));
  } catch {
    return undefined;
  }
}

function withoutFence(text: string): string {
  const firstLine = text.indexOf('\n');
  if (firstLine === -1 || !text.endsWith(FENCE) || !OPENING.test(text.slice(0, firstLine).trimEnd()))
    return text;
  return text.slice(firstLine + 1, -FENCE.length);
}
