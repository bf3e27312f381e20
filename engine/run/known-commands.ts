import { paramLimitsSchema, runParamsSchema } from '../../protocol/config.ts';
import { type Breakpoint, breakpointSchema } from '../../protocol/debugger/breakpoint.ts';
import { EngineError, invalidInput } from '../../protocol/error.ts';
import {
  asSentence,
  describeGiven,
  describeUnknown,
  optionNames,
  refuseUnknownOptions,
} from '../../protocol/options/refuse-unknown.ts';
import {
  COMMAND_MEMBERS,
  type CommandOptions,
  type EditTurnOptions,
  type Person,
  type RetryOptions,
  type RunCommand,
  type YieldOptions,
} from '../../protocol/run-command.ts';
import type { OpenCall, OpenQuestion, OpenReview } from '../../protocol/run-view.ts';
import { settingsSchema } from '../../protocol/turn.ts';
import type { BatchOptions, StoryBatchOptions, StoryReadOptions } from '../events/read-events.ts';
import type { ForkOptions } from './forks/fork-run.ts';

const OTHERS = {
  events: optionNames<Pick<BatchOptions, 'after' | 'follow'>>()('after follow'),
  eventBatches: optionNames<BatchOptions>()('after follow room textFirst'),
  story: optionNames<StoryReadOptions>()('after follow settle subAgents'),
  storyBatches: optionNames<StoryBatchOptions>()('after follow until subAgents'),
  yield: optionNames<YieldOptions>()('graceMs'),
  editTranscript: optionNames<CommandOptions>()('by as requestId'),
  retry: optionNames<RetryOptions>()('by as requestId force'),
  fork: optionNames<{ at: number } & ForkOptions>()(
    'at runId by as message commands paused replayTools inThread model request',
  ),
};

const EDITED_CALL = optionNames<NonNullable<EditTurnOptions['calls']>[number]>()('callId name input');
const PERSON = optionNames<Person>()('name groups known');
const WHERE = optionNames<NonNullable<Breakpoint['where']>>()('path op value');

/** The method of `Run` for each type whose name differs. */
const METHODS: Readonly<Record<string, string>> = {
  'set-params': 'setParams',
  breakpoints: 'setBreakpoints',
  'edit-turn': 'editTurn',
  'edit-call': 'editCall',
  'sign-in': 'signedIn',
};

/** Returns the command of a method: what it took first, and its options. Throws for an unknown option. */
export function commandOf<Lead extends { type: RunCommand['type'] }, Options extends object>(
  lead: Lead,
  options: Options,
): Lead & Options {
  const { type } = lead;
  const known = Object.entries(COMMAND_MEMBERS[type]).filter(([name]) => !(name in lead));
  refuse(`run.${METHODS[type] ?? type}`, options, Object.fromEntries(known));
  const command = { ...lead, ...options };
  refuseUnknownBelow(command);
  return command;
}

/** Returns the options of a method that submits no command. Throws for an unknown one. */
export function knownOptions<Options>(method: keyof typeof OTHERS, options: Options): Options {
  refuse(`run.${method}`, options, OTHERS[method]);
  return options;
}

/** Returns the commands of `run.submit`. Throws for what is no list of commands, and an unknown type or member of one. */
export function knownCommands(commands: readonly RunCommand[]): readonly RunCommand[] {
  refuseNoList('run.submit', commands);
  for (const command of commands) {
    if (typeof command !== 'object' || command === null)
      throw invalidInput(
        `run.submit: expected a command, such as { type: 'pause' }, got ${describeGiven(command)}.`,
      );
    const { type } = command;
    if (!Object.hasOwn(COMMAND_MEMBERS, type)) {
      const unknown = describeUnknown('command', String(type), Object.keys(COMMAND_MEMBERS), 'run.submit');
      throw new EngineError('input-invalid', asSentence(unknown));
    }
    refuse(`the command ${type}`, command, { type: true, ...COMMAND_MEMBERS[type] });
    refuseUnknownBelow(command);
  }
  return commands;
}

function refuseUnknownBelow(command: object): void {
  if ('params' in command) refuseUnknownParams(command.params);
  if ('calls' in command && command.calls !== undefined) {
    refuseNoList('calls of an edited turn', command.calls);
    for (const call of command.calls) refuse('a call of an edited turn', call, EDITED_CALL);
  }
  if ('breakpoints' in command) {
    refuseNoList('breakpoints', command.breakpoints);
    for (const breakpoint of command.breakpoints as { where?: unknown }[]) {
      refuse('a breakpoint', breakpoint, breakpointSchema.shape);
      if (breakpoint.where !== undefined) refuse('where of a breakpoint', breakpoint.where, WHERE);
    }
  }
}

function refuseUnknownParams(params: unknown): void {
  refuse('the parameters', params, runParamsSchema.shape);
  const { settings, limits } = params as { settings?: unknown; limits?: unknown };
  if (settings !== undefined) refuse('settings of the parameters', settings, settingsSchema.shape);
  if (limits !== undefined) refuse('limits of the parameters', limits, paramLimitsSchema.shape);
}

function refuse(of: string, given: unknown, known: object): void {
  refuseUnknownOptions(of, given, known, 'input-invalid');
  const { as, by } = given as { as?: unknown; by?: unknown };
  if (by !== undefined) refuseNoName(`\`by\` of ${of}`, by);
  if (as !== undefined && 'as' in known) refusePerson(`\`as\` of ${of}`, as);
}

/** Who has no name is nobody: an empty one is no person who could count for or against a decision. */
export function refuseNoName(of: string, name: unknown): void {
  if (typeof name !== 'string' || name === '')
    throw invalidInput(`${of}: expected the name of a person, got ${JSON.stringify(name)}.`);
}

export function refuseNoList(of: string, given: unknown): asserts given is readonly unknown[] {
  if (!Array.isArray(given)) throw invalidInput(`${of}: expected a list, got ${describeGiven(given)}.`);
}

function refusePerson(of: string, given: unknown): void {
  refuseUnknownOptions(of, given, PERSON, 'input-invalid');
  const { name, groups = [] } = given as { name?: unknown; groups?: unknown };
  refuseNoName(of, name);
  if (!Array.isArray(groups))
    throw invalidInput(`${of}: expected \`groups\` to be a list of names, got a ${typeof groups}.`);
}

/**
 * The call, questions or review that a decision is about: its id, or itself, as in `settled.open`. With a call, the types of `input` and `output`
 * are those of its tool, or of its tools if it can be of several, and the decision names the run and digest.
 */
export type CallReference = string | OpenCall | OpenQuestion | OpenReview;

export type InputOf<Call extends CallReference> = Call extends OpenReview | OpenQuestion
  ? never
  : Call extends OpenCall<string, infer Input>
    ? Input
    : unknown;

export type AnswerOf<Call extends CallReference> =
  Call extends OpenCall<string, unknown, infer Answer> ? Answer : unknown;

/** Returns the members of a command that name its call. Throws `input-invalid` for what names no call. */
export function referTo(call: CallReference): { callId: string; runId?: string; digest?: string } {
  if (typeof call === 'string') return { callId: call };
  if (typeof call !== 'object' || call === null || typeof call.callId !== 'string')
    throw new EngineError(
      'input-invalid',
      `Expected an open call or review, or its id, got ${JSON.stringify(call)}. Those of a run are in settled.open.`,
    );
  const { callId, runId, digest } = call;
  return { callId, runId, digest };
}
