import { EngineError, type EngineErrorCode } from '../error.ts';
import { findMeant } from './find-meant.ts';

type NameIn<Options> = Options extends unknown ? keyof Options & string : never;

/** The names of an options type, of each member of a union. The compiler refuses a list that lacks one or has another. */
export type NamesOf<Options> = { readonly [Name in NameIn<Options>]: true };

type Words<Text extends string> = Text extends `${infer First} ${infer Rest}` ? First | Words<Rest> : Text;
type Differing<One, Other> = Exclude<One, Other> | Exclude<Other, One>;

/** Makes a `NamesOf` of the names, separated by spaces: `optionNames<{ by: string }>()('by')`. */
export function optionNames<Options>() {
  return <Text extends string>(
    names: [Differing<NameIn<Options>, Words<Text>>] extends [never]
      ? Text
      : `missing or unknown: ${Differing<NameIn<Options>, Words<Text>>}`,
  ) => Object.fromEntries(names.split(' ').map(name => [name, true])) as NamesOf<Options>;
}

/**
 * Throws unless `given` is an object whose own names are all those of `known`. A name with the value `undefined` counts too: a
 * typo is one whatever its value. Symbols are no options. Allocates nothing unless it throws.
 */
export function refuseUnknownOptions(
  of: string,
  given: unknown,
  known: object,
  code: EngineErrorCode = 'agent-invalid',
): void {
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw new EngineError(code, `expected the options of ${of} to be an object, got ${kindOf(given)}.`);
  for (const name in given)
    if (!Object.hasOwn(known, name) && Object.hasOwn(given, name))
      throw new EngineError(code, asSentence(describeUnknown('option', name, Object.keys(known), of)));
}

function kindOf(value: unknown): string {
  if (Array.isArray(value)) return 'a list';
  return value === null || value === undefined ? String(value) : `a ${typeof value}`;
}

/** Ends a text with a full stop, unless it ends with a question mark. */
export function asSentence(text: string): string {
  return text.endsWith('?') ? text : `${text}.`;
}

/** The longest name that is compared with others, and that messages show in full. */
const LONGEST_NAME = 64;

/** The words for an unknown `what` (an option, a field): its name, and the known name that was meant, or else all known ones. */
export function describeUnknown(what: string, name: string, known: readonly string[], of?: string): string {
  const shown = name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME)}…` : name;
  const unknown = `unknown ${what} ${JSON.stringify(shown)}${of === undefined ? '' : ` of ${of}`}`;
  const meant = name.length > LONGEST_NAME ? undefined : findMeant(name, known);
  if (meant !== undefined) return `${unknown}; did you mean ${JSON.stringify(meant)}?`;
  return `${unknown}; expected one of ${known.join(', ')}`;
}

/** How many unknown fields of an object an error names. */
const MOST_NAMED = 3;

/** The parameters of a strict zod object of this shape, whose error names its unknown fields and what was meant. */
export function unknownFields(shape: object) {
  const known = Object.keys(shape);
  return {
    error: ({ code, keys = [] }: { code?: string; keys?: readonly string[] }): string | undefined =>
      code === 'unrecognized_keys'
        ? keys
            .slice(0, MOST_NAMED)
            .map(key => describeUnknown('field', key, known))
            .join(' ')
        : undefined,
  };
}
