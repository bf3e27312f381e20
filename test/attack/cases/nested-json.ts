/** JSON nested `depth` times, as text, since `JSON.stringify` cannot write values that deep. */
export function nest(depth: number, open: string, close: string, inner = '1'): string {
  return open.repeat(depth) + inner + close.repeat(depth);
}

/** The arguments of a call with the member `deep` nested `depth` times. */
export function nestedArguments(depth: number): string {
  return `{"deep":${nest(depth, '[', ']')}}`;
}
