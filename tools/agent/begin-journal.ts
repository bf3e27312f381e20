import { type AgentDefinition, runConfigOf } from '../../engine/definition.ts';
import type { Host } from '../../engine/driver/host.ts';
import { digestTools } from '../../engine/journal/digest.ts';
import type { Run } from '../../engine/run/run.ts';
import { chartIdentity } from '../../machines/snapshot.ts';
import type { Limits } from '../../protocol/config.ts';
import { EngineError } from '../../protocol/error.ts';
import { JOURNAL_FORMAT, type RunStarted } from '../../protocol/event.ts';
import { type Item, itemSchema } from '../../protocol/item.ts';
import { given, type JsonValue } from '../../protocol/json.ts';
import { userMessage } from '../../protocol/message.ts';
import type { Tool } from '../../protocol/tool.ts';
import { checkLimits, checkPrices } from './agent-options.ts';

export type StartOptions = {
  /** Stream the model's turns. Default true; the journal is the same either way. */
  stream?: boolean;
  /** A run that has ended: the new one's transcript begins with its. */
  continues?: string;
  limits?: Partial<Limits>;
  onLimit?: 'answer' | 'stop';
  /** Begin paused: nothing is spent before `step()` or `unpause()`. */
  paused?: boolean;
  /** While it is paused the run rests before its end too, so that its last turn can be looked at and answered. */
  holdsAtEnd?: boolean;
  /** Cancels the run when aborted. */
  signal?: AbortSignal;
  runId?: string;
  /** What another process needs to make this agent again: the CLI's `--agent` and model. */
  launch?: { module?: string; model?: string; request?: JsonValue };
};

/** Cancels the run when `signal` is aborted, for as long as it has not ended. */
export function cancelOn(signal: AbortSignal | undefined, run: Run): void {
  if (signal === undefined) return;
  const cancel = () => void run.cancel({ reason: 'aborted by the caller' }).catch(() => {});
  if (signal.aborted) return cancel();
  signal.addEventListener('abort', cancel, { once: true });
  run.settled().then(
    ({ status }) => {
      if (status !== 'waiting') signal.removeEventListener('abort', cancel);
    },
    () => {},
  );
}

/** What a run is begun with, all told. `tools` are those that are known by now. */
export type Beginning = StartOptions &
  Pick<RunStarted, 'parent'> & { runId: string; tools: ReadonlyMap<string, Tool> | undefined };

/** The first entry of a run's journal. Throws `model-missing`, `agent-invalid` for limits, `input-invalid`. */
export function beginJournal(
  definition: AgentDefinition,
  host: Host,
  input: string | readonly Item[],
  { tools, ...options }: Beginning,
): RunStarted {
  const { name, version, models, prices } = definition;
  if (models.length === 0) {
    throw new EngineError(
      'model-missing',
      `Agent "${name}" has no model. Give it one, or set AGENTCHART_MODEL, such as openai:gpt-5-mini.`,
    );
  }
  const config = runConfigOf(definition, {
    limits: given(options.limits ?? {}),
    ...given({ onLimit: options.onLimit, holdsAtEnd: options.holdsAtEnd }),
  });
  checkLimits(config.limits);
  checkPrices(config.limits, prices, models);
  return {
    type: 'run.started',
    at: host.now(),
    runId: options.runId,
    format: JOURNAL_FORMAT,
    chart: chartIdentity(),
    agent: { name, ...given({ version }) },
    ...given({ tools: tools && digestTools(tools) }),
    config,
    input: readInput(input, host),
    stream: options.stream ?? true,
    ...(options.paused === true ? { paused: true } : {}),
    ...given({ continues: options.continues, launch: options.launch, parent: options.parent }),
  };
}

function readInput(input: string | readonly Item[], host: Host): Item[] {
  const items = typeof input === 'string' ? [userMessage(input)] : input.map(readItem);
  return items.map(item => (item.id === undefined ? { ...item, id: host.newId('item') } : item));
}

function readItem(item: unknown, index: number): Item {
  const parsed = itemSchema.safeParse(item);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const where = [index, ...(issue?.path ?? [])].join('.');
  throw new EngineError(
    'input-invalid',
    `Item ${where} of the input is not valid: ${issue?.message ?? 'unknown'}`,
  );
}
