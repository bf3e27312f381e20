import { EngineError, type EngineErrorCode } from '../error.ts';

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

/** Throws unless all own names of `given` are `known`, for any values. Allocates nothing else. */
export function refuseUnknownOptions(
  of: string,
  given: unknown,
  known: object,
  code: EngineErrorCode = 'agent-invalid',
): void {
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw new EngineError(
      code,
      `expected the options of ${of} to be an object, got ${describeGiven(given)}.`,
    );
  for (const name in given)
    if (!Object.hasOwn(known, name) && Object.hasOwn(given, name))
      throw new EngineError(code, asSentence(describeUnknown('option', name, Object.keys(known), of)));
}

/** The words for what a value is, such as `a list` or `null`. */
export function describeGiven(value: unknown): string {
  if (Array.isArray(value)) return 'a list';
  if (value === null || value === undefined) return String(value);
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
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
  const meant = findMeant(name, known);
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
            .reduce((before, next) => `${asSentence(before)} ${next}`)
        : undefined,
  };
}

/**
 * What the AI SDK, the OpenAI Agents SDK and LangGraph call an option, by the words for it here. The first that begins
 * with a known name is the hint. Upper case and `_` do not matter: `recursion_limit` is `recursionLimit`.
 */
const NAMES_ELSEWHERE: Readonly<Record<string, string>> = {
  approval: 'needsApproval requireApproval',
  continues: 'previousResponseId',
  description: 'handoffDescription toolDescription',
  guardrails: 'inputGuardrails onFinish outputGuardrails toolInputGuardrails toolOutputGuardrails',
  instructions: 'prompt system systemMessage systemPrompt',
  input: 'inputSchema messages parameters prompt schema',
  labels: 'metadata tags',
  model: 'modelId modelName',
  name: 'toolName',
  output: 'experimental_output outputSchema outputType responseFormat',
  text: 'responseFormat',
  prepareTurn: 'prepareStep',
  reason: 'rejectionMessage',
  run: 'execute func handler',
  runContext: 'context contextSchema experimental_context',
  signal: 'abortSignal',
  sticky: 'alwaysApprove alwaysReject',
  store: 'checkpointer',
  thread: 'configurable conversationId session sessionId threadId',
  timeoutMs: 'timeout',
  title: 'runName',
  toolConcurrency: 'maxConcurrency',
  tools: 'activeTools',
  'tools: [mcp({ … })]': 'mcpServers',
  turns: 'maxIterations maxSteps maxTurns recursionLimit stopWhen',
  maxTurns: 'maxSteps recursionLimit stopWhen',
  'limits: { turns }': 'maxIterations maxSteps maxTurns recursionLimit stopWhen',
  toolCalls: 'maxToolCalls',
  'limits: { toolCalls }': 'maxToolCalls',
  attempts: 'maxRetries',
  'retry: { attempts }': 'maxRetries',
  retries: 'maxRetries',
  max_output_tokens: 'maxTokens',
  maxOutputTokens: 'maxCompletionTokens maxTokens',
  settings: 'modelSettings',
  'settings: { maxOutputTokens }': 'maxCompletionTokens maxOutputTokens maxTokens',
  'settings: { parallelToolCalls }': 'parallelToolCalls',
  'settings: { reasoningEffort }': 'reasoningEffort',
  'settings: { temperature }': 'temperature',
  'settings: { topP }': 'topP',
  'providerOptions: { … }': 'frequencyPenalty presencePenalty',
};

/** What another library's name is called here, else the nearest known name; `undefined` if none is near. */
export function findMeant(name: string, known: readonly string[]): string | undefined {
  if (name.length > LONGEST_NAME) return undefined;
  const folded = fold(name);
  const hints = Object.entries(NAMES_ELSEWHERE).filter(([, names]) =>
    names.split(' ').map(fold).includes(folded),
  );
  const hint = hints.find(([here]) => known.includes(here.split(':', 1)[0] ?? ''));
  return hint?.[0] ?? findNearest(folded, known);
}

/** The known name with the fewest edits, if they are at most a third of the letters. */
function findNearest(folded: string, known: readonly string[]): string | undefined {
  let nearest: string | undefined;
  let fewest = Math.max(1, Math.floor(folded.length / 3)) + 1;
  for (const name of known) {
    const other = fold(name);
    const edits = countEdits(folded, other);
    if (edits < fewest && edits < Math.max(folded.length, other.length)) [nearest, fewest] = [name, edits];
  }
  return nearest;
}

function fold(name: string): string {
  return name.replaceAll(/[_-]/g, '').toLowerCase();
}

/** The fewest insertions, deletions, replacements and swaps of neighbours that turn one text into the other. */
function countEdits(one: string, other: string): number {
  let before: number[] = [];
  let last = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let i = 1; i <= one.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= other.length; j += 1) {
      const [left = 0, above = 0, corner = 0] = [row[j - 1], last[j], last[j - 1]];
      const edits = Math.min(left + 1, above + 1, corner + (one[i - 1] === other[j - 1] ? 0 : 1));
      const isSwap = i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1];
      row.push(isSwap ? Math.min(edits, (before[j - 2] ?? 0) + 1) : edits);
    }
    [before, last] = [last, row];
  }
  return last[other.length] ?? 0;
}
