/** JSON nested `depth` times, as text: no value that deep has to be written by `JSON.stringify`. */
export function nest(depth: number, open: string, close: string, inner = '1'): string {
  return open.repeat(depth) + inner + close.repeat(depth);
}

/** The arguments of a call whose member `deep` is nested `depth` times. */
export function nestedArguments(depth: number): string {
  return `{"deep":${nest(depth, '[', ']')}}`;
}
