import type { Host } from '../engine/host/host.ts';
import { addItemIds, itemsOf } from '../engine/log/command.ts';
import type { RequestRecord } from '../engine/log/request-ids.ts';
import { refuseNoName } from '../engine/run/known-commands.ts';
import type { Run } from '../engine/run/run.ts';
import { type AgentDefinition, runConfigOf } from '../engine/services/definition.ts';
import { chartIdentity } from '../machines/snapshot.ts';
import { type Limits, limitsSchema, type RunConfig } from '../protocol/config.ts';
import { digestTools } from '../protocol/content/digest.ts';
import { EngineError, invalidInput } from '../protocol/error.ts';
import { type Inheritance, JOURNAL_FORMAT, type RunStarted } from '../protocol/event.ts';
import { type Item, itemSchema } from '../protocol/item.ts';
import { type JsonValue, omitUndefined } from '../protocol/json.ts';
import { type Labels, readLabels, readThreadId, readTitle } from '../protocol/listing/label.ts';
import {
  describeGiven,
  type NamesOf,
  optionNames,
  refuseUnknownOptions,
} from '../protocol/options/refuse-unknown.ts';
import type { SentRequest } from '../protocol/sent.ts';
import type { Tool } from '../protocol/tool.ts';
import { checkLimits, checkPrices, checkUsage } from './agent-options.ts';

/** The options of `agent.start` and `agent.run`. */
export type StartOptions<RunContext = unknown> = {
  /** Whether model turns are streamed. Default: the agent's `stream`. The journal is the same either way. */
  stream?: boolean;
  /**
   * The id of the conversation that the run belongs to, which has exactly the `labels`. `start` continues the latest run of
   * the thread if it has ended. Otherwise it sends the input to that run and returns it: the options for a new run do not
   * count then.
   */
  thread?: string;
  /**
   * The id of an ended run whose transcript the new run starts with. With `thread`: instead of that of the thread's latest
   * run, which must have ended; `null` for none.
   */
  continues?: string | null;
  /**
   * Labels to find the run by, such as `{ user: '7', tenant: 'a' }`: at most 16, with names of up to 64 and values of up
   * to 256 characters. The runs of its sub-agents and its forks have them too. Default: those of the run it continues;
   * with `thread`, none.
   */
  labels?: Labels;
  /** The title of the run in lists, up to 200 characters. Default: the first line of what the user said last in the input. */
  title?: string;
  /** Overrides the agent's limits. */
  limits?: Partial<Limits>;
  /** What the run is about, for an agent with a `runContext` schema, which requires it. */
  runContext?: RunContext;
  /** Overrides the agent's `onLimit`. */
  onLimit?: 'answer' | 'stop';
  /** Whether the run starts paused: it makes no call before `step()` or `unpause()`. */
  paused?: boolean;
  /** Whether a paused run also rests before it finishes, so that its last turn can be inspected and changed. */
  holdsAtEnd?: boolean;
  /**
   * Who starts the run, as the journal and approvals with `not` name them. Without a name, no one may decide a call whose
   * approval excludes who started the run.
   */
  by?: string;
  /** Cancels the run when aborted. */
  signal?: AbortSignal;
  /** The id of the run. Default: a new random one. */
  runId?: string;
  /** How the CLI and servers can create this agent again. Stored in the journal. */
  launch?: { module?: string; model?: string; request?: JsonValue };
  /** The request that starts the run, so that a server recognizes it when it comes again. Stored in the journal. */
  request?: RequestRecord;
  /** @internal The latest request of the run whose transcript begins the input. */
  sent?: SentRequest | null;
  /** @internal The run keeps what belongs to the thread, and has no place in it. */
  placeless?: true;
  /** @internal What that run hands on to compactions. */
  inherits?: Inheritance;
};

/** The arguments of `start` after the input: an agent with a run context requires options that have it. */
export type StartArguments<RunContext> = undefined extends RunContext
  ? [options?: StartOptions<RunContext>]
  : [options: StartOptions<RunContext> & { runContext: RunContext }];

/** The options of `agent.start` for a loop that an actor runs. */
export type LoopStart<RunContext = unknown> = Omit<
  StartOptions<RunContext>,
  'continues' | 'thread' | 'placeless' | 'signal'
>;

const INPUT_NAMES = optionNames<LoopStart>()(
  'stream labels by title limits runContext onLimit paused holdsAtEnd runId launch request sent inherits',
);
const START_NAMES: NamesOf<StartOptions> = {
  ...INPUT_NAMES,
  continues: true,
  thread: true,
  placeless: true,
  signal: true,
};
const LAUNCH_NAMES = optionNames<NonNullable<StartOptions['launch']>>()('module model request');

export function knownStart(options: StartOptions): StartOptions {
  return checkStart('agent.start', options, START_NAMES);
}

/** As `knownStart`, for `agent.input` and `agentInput`. */
export function knownInput(of: string, options: LoopStart): LoopStart {
  return checkStart(of, options, INPUT_NAMES);
}

/** Every run begins here: without `limits` and `launch`, it only looks names up. */
function checkStart(of: string, options: StartOptions, known: object): StartOptions {
  refuseUnknownOptions(of, options, known, 'input-invalid');
  const { limits, launch, by, signal } = options;
  refuseNoSignal(of, signal);
  if (by !== undefined) refuseNoName(`\`by\` of ${of}`, by);
  if (limits !== undefined)
    refuseUnknownOptions(`limits of ${of}`, limits, limitsSchema.shape, 'input-invalid');
  if (launch !== undefined) refuseUnknownOptions(`launch of ${of}`, launch, LAUNCH_NAMES, 'input-invalid');
  return options;
}

/** Throws unless it is an `AbortSignal`, also of another realm or library, or not given. */
export function refuseNoSignal(of: string, signal: unknown): void {
  if (signal !== undefined && typeof (signal as Partial<AbortSignal> | null)?.addEventListener !== 'function')
    throw invalidInput(`signal of ${of}: expected an AbortSignal, got ${describeGiven(signal)}.`);
}

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

/** What the run of a sub-agent has besides: see `RunStarted`. */
export type ChildStart = Pick<RunStarted, 'parent' | 'continuesAt' | 'handedBy' | 'onlyCall'>;

/** Resolved start options. `tools` are the tools known so far; `undefined` before tool sources are connected. */
export type ResolvedStart = StartOptions &
  ChildStart &
  Pick<RunStarted, 'people' | 'handedTo'> & {
    runId: string;
    /** The labels of the run that it continues, or that calls it. */
    inheritedLabels?: Labels;
    runContext: JsonValue | undefined;
    tools: ReadonlyMap<string, Tool> | undefined;
  };

/** Returns the first event of a run. Throws `model-missing`, `input-invalid` (also for labels and title), or `agent-invalid` for limits. */
export function beginJournal(
  definition: AgentDefinition,
  host: Host,
  input: string | readonly Item[],
  start: ResolvedStart,
): RunStarted {
  const { tools, sent = null, inherits, ...options } = start;
  const { name, version, models, prices } = definition;
  if (models.length === 0) {
    throw new EngineError(
      'model-missing',
      `Agent "${name}" has no model. Set its model option, or AGENTCHART_MODEL for the CLI, such as openai:gpt-5-mini.`,
    );
  }
  const config = runConfigOf(definition, {
    limits: omitUndefined(options.limits ?? {}),
    ...omitUndefined({ onLimit: options.onLimit, holdsAtEnd: options.holdsAtEnd }),
  });
  if (options.limits !== undefined) checkLimits(config.limits);
  checkPrices(config.limits, prices, models);
  checkUsage(config.limits, definition);
  return {
    type: 'run.started',
    at: host.now(),
    runId: options.runId,
    format: JOURNAL_FORMAT,
    chart: chartIdentity(),
    agent: { name, ...omitUndefined({ version }) },
    ...omitUndefined({ tools: tools && digestTools(tools) }),
    config,
    input: readInput(input, host),
    stream: options.stream ?? definition.stream,
    ...options.request,
    ...omitUndefined({
      runContext: options.runContext,
      paused: options.paused === true ? true : undefined,
      labels: labelsOf(options),
      title: options.title === undefined ? undefined : readTitle(options.title),
      thread: options.thread === undefined ? undefined : readThreadId(options.thread),
      continues: options.continues ?? undefined,
      continuesAt: options.continuesAt,
      handedTo: options.handedTo,
      handedBy: options.handedBy,
      // A digest is of all items; else a count is of those of the run, and all that it inherits comes first.
      sent: sent === null ? undefined : { ...sent, items: sent.digest === undefined ? 0 : sent.items },
      inherits: inherits && takenOver(inherits, config),
      launch: options.launch,
      parent: options.parent,
      onlyCall: options.onlyCall,
      by: options.by,
      people: options.people,
    }),
  };
}

/** What a run takes over: what was done only if it may be compacted, or if what it inherits was. */
function takenOver(inherits: Inheritance, { compaction }: RunConfig): Inheritance | undefined {
  const { tokens, ledger, items } = inherits;
  const wasCompacted = items.length > 0 || Object.keys(ledger.counts).length > 0;
  if (wasCompacted || (compaction !== undefined && ledger.fresh.length > 0)) return inherits;
  return tokens > 0 ? { tokens, ledger: { fresh: [], past: {}, counts: {} }, items: [] } : undefined;
}

/** The labels that are given, else the inherited ones. A run without labels has none in its journal either. */
function labelsOf({ labels, inheritedLabels = {} }: Omit<ResolvedStart, 'tools'>): Labels | undefined {
  const all = labels === undefined ? inheritedLabels : readLabels(labels);
  return Object.keys(all).length === 0 ? undefined : { ...all };
}

function readInput(input: string | readonly Item[], host: Host): Item[] {
  const items = itemsOf(input);
  return addItemIds(typeof input === 'string' ? items : items.map(readItem), host);
}

function readItem(item: unknown, index: number): Item {
  const parsed = itemSchema.safeParse(item);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const where = [index, ...(issue?.path ?? [])].join('.');
  throw invalidInput(`Item ${where} of the input is invalid: ${issue?.message ?? 'unknown problem'}`);
}
