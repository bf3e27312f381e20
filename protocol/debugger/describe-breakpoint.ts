import type { Breakpoint } from './breakpoint.ts';

/** `before executeTools of refund, where input.cents > 10000, once`. A value left out of a shared run is `…`. */
export function describeBreakpoint({
  next,
  tool,
  turn,
  costOver,
  where,
  once,
}: Omit<Breakpoint, 'id'>): string {
  const spending = tool === undefined && where === undefined ? 'each action that spends' : 'calls';
  const parts = [
    `before ${next ?? spending}${tool === undefined ? '' : ` of ${tool}`}`,
    ...(where === undefined ? [] : [`where ${where.path} ${where.op} ${JSON.stringify(where.value) ?? '…'}`]),
    ...(turn === undefined ? [] : [`in turn ${turn}`]),
    ...(costOver === undefined ? [] : [`if the run has cost more than ${costOver}`]),
    ...(once === true ? ['once'] : []),
  ];
  return parts.join(', ');
}

/** The first of `b1`, `b2`, … that follows all that are taken. */
export function nextBreakpointId(taken: readonly Pick<Breakpoint, 'id'>[]): string {
  const numbers = taken.map(({ id }) => Number(/^b(\d{1,6})$/.exec(id)?.[1] ?? 0));
  return `b${Math.max(0, ...numbers) + 1}`;
}
