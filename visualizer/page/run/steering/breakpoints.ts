import type { Context } from '../../../../machines/context.ts';
import { chooseAction } from '../../../../machines/decide-next-action.ts';
import type { Breakpoint } from '../../../../protocol/debugger/breakpoint.ts';
import { describeBreakpoint, nextBreakpointId } from '../../../../protocol/debugger/describe-breakpoint.ts';
import type { NextAction } from '../../../../protocol/effect.ts';
import type { Desk } from '../desk.ts';

export type BreakAction = NonNullable<Breakpoint['next']>;

export type Chosen = Omit<Breakpoint, 'id'>;

const STATES: Readonly<Record<BreakAction, string>> = {
  callModel: 'turn.planning',
  streamFinal: 'turn.finalStreaming',
  compact: 'compacting',
  executeTools: 'executingTools',
  interruptForApproval: 'resting.awaitingApproval',
  awaitReview: 'resting.awaitingReview',
  awaitAnswers: 'resting.awaitingAnswers',
  awaitSignIn: 'resting.awaitingSignIn',
  awaitResults: 'resting.awaitingResults',
  resolveDoubt: 'resting.inDoubt',
  backOff: 'backingOff',
  finish: 'finished',
  fail: 'failed',
};

export const BREAK_ACTIONS = Object.keys(STATES) as BreakAction[];

const SPENDING = [STATES.callModel, STATES.streamFinal, STATES.compact, STATES.executeTools, 'finishing'];

/** The action that leads to a state of the chart; `undefined` for states that no action leads to. */
export function actionTo(state: string): BreakAction | undefined {
  if (state === 'turn') return 'callModel';
  if (state === 'finishing') return 'finish';
  return BREAK_ACTIONS.find(action => STATES[action] === state);
}

export function brokenStates(breakpoints: readonly Breakpoint[]): ReadonlySet<string> {
  return new Set(
    breakpoints.flatMap(({ next, tool, where }) => {
      if (next !== undefined) return next === 'finish' ? ['finishing', 'finished'] : [STATES[next]];
      return tool === undefined && where === undefined ? SPENDING : [STATES.executeTools];
    }),
  );
}

export function breakpointBeforeNext({ model }: Desk): Chosen | undefined {
  const { context } = model.shown.value;
  if (context?.next == null) return undefined;
  const next = context.next.type === 'pause' ? chooseAction(context) : context.next;
  if (next.type === 'pause') return undefined;
  const [call] = 'calls' in next ? next.calls : [];
  return { next: next.type, ...(call === undefined ? {} : { tool: model.story.nameOf(call) }) };
}

export function breakpointsOf({ model }: Desk): readonly Breakpoint[] {
  return (!model.ended.value && model.fold.context?.breakpoints) || [];
}

/** A run that rests before an action: the action, the breakpoint that holds it, and a key of what would run. */
export type Held = { next: NextAction; by: Breakpoint | undefined; context: Context; key: string };

/** How the run is held at its end, by a breakpoint or a pause; `null` if it is not. */
export function heldAt({ model }: Desk): Held | null {
  const { context } = model.fold;
  if (model.ended.value || context?.next?.type !== 'pause' || context.cancelling !== null) return null;
  if (model.fold.path !== 'resting.paused') return null;
  const { breakpoint } = context.next;
  const next = chooseAction(context);
  const digests = context.calls.map(({ digest }) => digest);
  const key = [context.turn.number, next.type, context.transcript.at(-1)?.id, ...digests].join(' ');
  return { next, by: context.breakpoints.find(({ id }) => id === breakpoint), context, key };
}

export async function addBreakpoint(desk: Desk, chosen: Chosen): Promise<string | null> {
  return await desk.act('breakpoints', { breakpoints: withOne(breakpointsOf(desk), chosen) });
}

export async function keepBreakpoints(desk: Desk, keeps: (id: string) => boolean): Promise<void> {
  await desk.act('breakpoints', { breakpoints: breakpointsOf(desk).filter(({ id }) => keeps(id)) });
}

/** Continues a held run, then breaks, in one append: so it does not match the held action, and a used one is gone. */
export async function runTo(desk: Desk, chosen: Chosen): Promise<string | null> {
  const held = heldAt(desk)?.by;
  const kept = breakpointsOf(desk).filter(one => one.once !== true || one !== held);
  const breakpoints = withOne(kept, { ...chosen, once: true });
  return await desk.act('commands', [{ type: 'unpause' }, { type: 'breakpoints', breakpoints }]);
}

function withOne(all: readonly Breakpoint[], chosen: Chosen): Breakpoint[] {
  const text = describeBreakpoint(chosen);
  const others = all.filter(one => describeBreakpoint(one) !== text);
  return [...others, { id: nextBreakpointId(all), ...chosen }];
}

export function toolNames({ model }: Desk): readonly string[] {
  const started = model.entry(1);
  return started?.type === 'run.started' ? (started.tools ?? []).map(({ name }) => name) : [];
}
