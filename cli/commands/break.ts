import { type Breakpoint, breakpointsSchema } from '../../protocol/debugger/breakpoint.ts';
import { describeBreakpoint, nextBreakpointId } from '../../protocol/debugger/describe-breakpoint.ts';
import { invalidInput } from '../../protocol/error.ts';
import { type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { Action, GivenTo } from '../command-table.ts';
import { EXIT } from '../exit-codes.ts';
import { bold } from '../render/output.ts';
import { readRun, submitCommand } from './change.ts';

export const setBreakpoints: Action<'break'> = options => {
  const added = readBreakpoint(options);
  const { remove = [], clear = false } = options;
  if (added === null && remove.length === 0 && !clear) return listBreakpoints(options);
  return submitCommand(
    options,
    async (run, sender) => {
      const { breakpoints: before } = run.context;
      const unknown = remove.find(name => before.every(one => one.id !== name));
      if (unknown !== undefined) throw invalidInput(explainUnknown(unknown, before));
      const kept = clear ? [] : before.filter(one => !remove.includes(one.id));
      const id = options.id ?? nextBreakpointId(before);
      const breakpoints = added === null ? kept : [...kept.filter(one => one.id !== id), { id, ...added }];
      return await run.setBreakpoints(checkBreakpoints(breakpoints), sender);
    },
    run => `has ${describeAll(run.context.breakpoints)}.`,
  );
};

function listBreakpoints(options: GivenTo<'break'>): Promise<number> {
  return readRun(options, ({ context: { breakpoints } }, output) => {
    for (const one of breakpoints) output.tell(one, bold(one.id), ` ${describeBreakpoint(one)}`);
    if (!output.json && breakpoints.length === 0)
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

function readBreakpoint(options: GivenTo<'break'>): Omit<Breakpoint, 'id'> | null {
  const { before: next, tool, where, turn, costOver, once, id } = options;
  const matched = omitUndefined({
    next,
    tool,
    turn,
    costOver,
    where: where === undefined ? undefined : readCondition(where),
  });
  if (Object.keys(matched).length > 0) return { ...matched, ...(once === true && { once }) };
  if (once !== true && id === undefined) return null;
  throw invalidInput('Say what the breakpoint matches: --before, --tool, --where, --turn or --cost-over.');
}

/** Reads `input.cents>10000`. A value that is not JSON is a text. */
function readCondition(text: string): NonNullable<Breakpoint['where']> {
  const [, path, op, value] =
    /^(input(?:\.[^\s<>=!]+)?)\s*((?:<=|>=|!=|=)(?!=)|[<>](?![<>=!]))(.+)$/s.exec(text.trim()) ?? [];
  if (path === undefined || value === undefined)
    throw invalidInput(
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
  throw invalidInput(`The breakpoint is not valid: ${place ? `${place}: ` : ''}${issue?.message}.`);
}
