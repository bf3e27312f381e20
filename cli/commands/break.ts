import { type Breakpoint, breakpointsSchema, HELD_ACTIONS } from '../../protocol/debugger/breakpoint.ts';
import { describeBreakpoint, nextBreakpointId } from '../../protocol/debugger/describe-breakpoint.ts';
import { EngineError } from '../../protocol/error.ts';
import { type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { readRun, submitCommands } from '../change-run.ts';
import { EXIT } from '../exit-codes.ts';
import { readNumber, readOneOf, type ShowOptions } from '../options.ts';
import { bold } from '../render/output.ts';

type BreakOptions = ShowOptions & {
  by?: string;
  id?: string;
  before?: string;
  tool?: string;
  where?: string;
  turn?: string;
  costOver?: string;
  once?: boolean;
  remove?: string[];
  clear?: boolean;
};

/** Implements `agentchart break`: lists the breakpoints of a run, or adds or removes some. */
export async function setBreakpoints(id: string, options: BreakOptions): Promise<number> {
  const added = readBreakpoint(options);
  const { remove = [], clear } = options;
  if (added === null && remove.length === 0 && clear !== true) return await listBreakpoints(id, options);
  return await submitCommands(
    id,
    options,
    async (run, by) => {
      const { breakpoints: before } = run.context;
      const unknown = remove.find(name => before.every(one => one.id !== name));
      if (unknown !== undefined) throw new EngineError('input-invalid', explainUnknown(unknown, before));
      const kept = clear === true ? [] : before.filter(one => !remove.includes(one.id));
      const name = options.id ?? nextBreakpointId(before);
      const others = kept.filter(one => one.id !== name || added === null);
      const breakpoints = added === null ? others : [...others, { id: name, ...added }];
      return await run.setBreakpoints(checkBreakpoints(breakpoints), { by });
    },
    run => `has ${describeAll(run.context.breakpoints)}.`,
  );
}

async function listBreakpoints(id: string, options: ShowOptions): Promise<number> {
  return await readRun(id, options, ({ context }, output) => {
    for (const one of context.breakpoints) {
      if (output.json) output.data(one);
      else output.line(bold(one.id), ` ${describeBreakpoint(one)}`);
    }
    if (!output.json && context.breakpoints.length === 0)
      output.line('The run has no breakpoints. To set one: break RUN --before executeTools --tool NAME');
    return EXIT.done;
  });
}

function describeAll(breakpoints: readonly Breakpoint[]): string {
  if (breakpoints.length === 0) return 'no breakpoints';
  const list = breakpoints.map(one => `${one.id} ${describeBreakpoint(one)}`).join('; ');
  return `${breakpoints.length === 1 ? 'a breakpoint' : `${breakpoints.length} breakpoints`}: ${list}`;
}

function explainUnknown(name: string, breakpoints: readonly Breakpoint[]): string {
  const ids = breakpoints.map(({ id }) => id).join(', ') || 'none';
  return `The run has no breakpoint ${JSON.stringify(name)}. It has: ${ids}.`;
}

/** The breakpoint of the options; `null` without one. Throws `input-invalid`, which names the option. */
function readBreakpoint(options: BreakOptions): Omit<Breakpoint, 'id'> | null {
  const { before, tool, where, turn, costOver, once } = options;
  const read = omitUndefined({
    next: readOneOf('--before', HELD_ACTIONS, before),
    tool,
    turn: turn === undefined ? undefined : readNumber('--turn', turn),
    costOver: costOver === undefined ? undefined : readNumber('--cost-over', costOver),
    where: where === undefined ? undefined : readCondition(where),
  });
  const isEmpty = Object.keys(read).length === 0;
  if (isEmpty && (once === true || options.id !== undefined))
    throw new EngineError(
      'input-invalid',
      'Say what the breakpoint matches: --before, --tool, --where, --turn or --cost-over.',
    );
  return isEmpty ? null : { ...read, ...(once === true && { once }) };
}

/** Reads `input.cents>10000`. A value that is not JSON is a text. */
function readCondition(text: string): NonNullable<Breakpoint['where']> {
  const [, path, op, value] =
    /^(input(?:\.[^\s<>=!]+)?)\s*((?:<=|>=|!=|=)(?!=)|[<>](?![<>=!]))(.+)$/s.exec(text.trim()) ?? [];
  if (path === undefined || value === undefined)
    throw new EngineError(
      'input-invalid',
      `--where must be a path, an operator (=, !=, <, <=, >, >=) and a value, such as 'input.cents>10000', got ${JSON.stringify(text)}.`,
    );
  return { path, op: op as NonNullable<Breakpoint['where']>['op'], value: readScalar(value.trim()) };
}

function readScalar(text: string): string | number | boolean | null {
  try {
    const value: JsonValue = JSON.parse(text);
    return typeof value === 'object' && value !== null ? text : value;
  } catch {
    return text;
  }
}

function checkBreakpoints(breakpoints: Breakpoint[]): Breakpoint[] {
  const checked = breakpointsSchema.safeParse(breakpoints);
  if (checked.success) return breakpoints;
  const [issue] = checked.error.issues;
  const place = issue?.path.slice(1).join('.');
  throw new EngineError(
    'input-invalid',
    `The breakpoint is not valid: ${place ? `${place}: ` : ''}${issue?.message}.`,
  );
}
