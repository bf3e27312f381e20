import type { Retry } from '../engine/services/definition.ts';
import type { JournalMigration, JournalVersion } from '../engine/versions/migrate-journal.ts';
import { LIMIT_NAMES, PRICE_NAMES, SETTING_NAMES } from '../protocol/config.ts';
import { type NamesOf, namesOf, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { AgentOptions, OutputSchema } from './agent-options.ts';
import type { StartOptions } from './begin-journal.ts';

/* The names of the options of agents and runs, and the checks that refuse others. */

/** The options of `createAgent` without what only a store needs. */
type StorelessOptions = Omit<AgentOptions, 'store' | 'durability' | 'migrations'>;

const LOOP_NAMES = namesOf<StorelessOptions>()(
  'name description model forkModels instructions runContext tools toolChoice settings providerOptions limits onLimit prices finalAnswer onMessage textFilters maxResultBytes capture toolConcurrency prepareTurn finishers output retry version host watchers makeSupervisor',
);
const AGENT_NAMES: NamesOf<AgentOptions> = { ...LOOP_NAMES, store: true, durability: true, migrations: true };
const RETRY_NAMES = namesOf<Retry>()('attempts baseMs maxMs');
const OUTPUT_NAMES = namesOf<Exclude<OutputSchema, { '~standard': unknown }>>()(
  'schema name jsonSchema strict',
);
const MIGRATION_NAMES = namesOf<JournalMigration>()('from to migrate');
const VERSION_NAMES = namesOf<JournalVersion>()('format chart agent');
const CHOICE_NAMES = namesOf<{ name: string }>()('name');

/** Returns the options of `createAgent`. Throws `agent-invalid` for an unknown name, at any depth. */
export function knownAgentOptions(options: AgentOptions): AgentOptions {
  refuseUnknownOptions('createAgent', options, AGENT_NAMES);
  refuseUnknownBelow('createAgent', options);
  return options;
}

/** Returns the options of `agentServices` and `agentInput`. Throws like `knownAgentOptions`. */
export function knownLoopOptions<Options extends Partial<StorelessOptions>>(
  of: string,
  options: Options,
): Options {
  refuseUnknownOptions(of, options, LOOP_NAMES);
  refuseUnknownBelow(of, options);
  return options;
}

function refuseUnknownBelow(of: string, options: Partial<AgentOptions>): void {
  const { limits, retry, settings, toolChoice, output, prices = {}, migrations = [] } = options;
  const refuse = (name: string, given: unknown, known: Readonly<Record<string, true>>) => {
    if (given !== undefined) refuseUnknownOptions(`${name} of ${of}`, given, known);
  };
  refuse('limits', limits, LIMIT_NAMES);
  refuse('retry', retry, RETRY_NAMES);
  refuse('settings', settings, SETTING_NAMES);
  if (typeof toolChoice === 'object') refuse('toolChoice', toolChoice, CHOICE_NAMES);
  if (output !== undefined && typeof output === 'object' && !('~standard' in output))
    refuse('output', output, OUTPUT_NAMES);
  for (const [model, price] of Object.entries(prices)) refuse(`prices["${model}"]`, price, PRICE_NAMES);
  for (const [index, step] of migrations.entries()) {
    refuse(`migrations[${index}]`, step, MIGRATION_NAMES);
    refuse(`migrations[${index}].from`, step.from, VERSION_NAMES);
    refuse(`migrations[${index}].to`, step.to, VERSION_NAMES);
  }
}

type InputOptions = Omit<StartOptions, 'continues' | 'signal'>;

const INPUT_NAMES = namesOf<InputOptions>()(
  'stream chat labels title limits runContext onLimit paused holdsAtEnd runId launch request',
);
const START_NAMES: NamesOf<StartOptions> = { ...INPUT_NAMES, continues: true, signal: true };
const LAUNCH_NAMES = namesOf<NonNullable<StartOptions['launch']>>()('module model request');

/** Returns the options of `agent.start` and `agent.run`. Throws `input-invalid` for an unknown name, at any depth. */
export function knownStart(options: StartOptions): StartOptions {
  return checkStart('agent.start', options, START_NAMES);
}

/** Returns the options of `agent.input` and `agentInput`. Throws like `knownStart`. */
export function knownInput(of: string, options: InputOptions): InputOptions {
  return checkStart(of, options, INPUT_NAMES);
}

/** Every run begins here: without `limits` and `launch`, it only looks names up. */
function checkStart(of: string, options: StartOptions, known: Readonly<Record<string, true>>): StartOptions {
  refuseUnknownOptions(of, options, known, 'input-invalid');
  const { limits, launch } = options;
  if (limits !== undefined) refuseUnknownOptions(`limits of ${of}`, limits, LIMIT_NAMES, 'input-invalid');
  if (launch !== undefined) refuseUnknownOptions(`launch of ${of}`, launch, LAUNCH_NAMES, 'input-invalid');
  return options;
}
