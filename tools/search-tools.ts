import { isJsonObject, type JsonObject, type JsonValue } from '../protocol/json.ts';
import { oncePer } from '../protocol/once-per.ts';
import { type Tool, toolDefinition } from '../protocol/tool.ts';

/** The name of the search for deferred tools; no other tool of an agent that has it may have this name. */
export const SEARCH_TOOL = 'search_tools';

/**
 * The results of one search, the characters of each description, and those of their definitions together, which are in
 * every later request.
 */
const MOST_FOUND = 8;
const LONGEST_DESCRIPTION = 160;
const MOST_DEFINED = 6_000;

/** What is read of a query, and of each tool: in characters, in words, and in parameters. */
const LONGEST_READ = 2_000;
const MOST_WORDS = 24;
const MOST_PARAMETERS = 100;

/** In its description. */
const MOST_SERVERS = 10;
const LONGEST_LABEL = 40;

const INPUT: JsonObject = {
  type: 'object',
  properties: {
    query: { type: 'string', description: 'Words for what the tool should do, or its name.' },
  },
  required: ['query'],
  additionalProperties: false,
};

/**
 * The tool with which a model finds the deferred ones, where its provider has no search. A result has the names and the
 * first words of the descriptions of the tools that fit best; the engine offers them from the next turn on.
 */
export function searchTool(deferred: readonly Tool[]): Tool {
  return {
    name: SEARCH_TOOL,
    description: describe(deferred),
    inputSchema: INPUT,
    sideEffect: 'none',
    retries: 0,
    fixedApproval: false,
    approval: () => false,
    validate: value =>
      isJsonObject(value) && typeof value.query === 'string'
        ? { valid: true, value }
        : { valid: false, message: 'expected an object with the text "query"' },
    run: input => search(deferred, isJsonObject(input) ? input.query : undefined),
    finds: namesIn,
  };
}

function namesIn(output: JsonValue): string[] {
  const tools = isJsonObject(output) ? output.tools : undefined;
  if (!Array.isArray(tools)) return [];
  return tools.flatMap(tool => (isJsonObject(tool) && typeof tool.name === 'string' ? tool.name : []));
}

function describe(deferred: readonly Tool[]): string {
  const counts = new Map<string, number>();
  for (const { origin } of deferred) {
    const owner = origin?.label.slice(0, LONGEST_LABEL) ?? 'this application';
    counts.set(owner, (counts.get(owner) ?? 0) + 1);
  }
  const owners = [...counts].slice(0, MOST_SERVERS).map(([owner, count]) => `${count} of ${owner}`);
  const more = counts.size > MOST_SERVERS ? ` and of ${counts.size - MOST_SERVERS} other servers` : '';
  return `Finds tools by what they do. Besides the tools listed here there are ${deferred.length} more: ${owners.join(', ')}${more}. Search before you say that you cannot do something. You can call a found tool from your next turn on.`;
}

/** Tools by how well they fit, then in the order of the agent. A word counts more, the fewer tools have it. */
function search(tools: readonly Tool[], query: JsonValue | undefined): JsonObject {
  const words = [...new Set(wordsOf(String(query).slice(0, LONGEST_READ)))].slice(0, MOST_WORDS);
  const scores = tools.map(() => 0);
  for (const word of words) {
    const fits = tools.map(tool => fitOf(word, tool));
    const having = fits.filter(fit => fit > 0).length;
    if (having === 0) continue;
    for (const [at, fit] of fits.entries())
      scores[at] = (scores[at] ?? 0) + fit * Math.log(1 + tools.length / having);
  }
  const fitting = tools
    .map((tool, at) => ({ tool, score: scores[at] ?? 0 }))
    .filter(({ score }) => score > 0)
    .toSorted((one, other) => other.score - one.score)
    .slice(0, MOST_FOUND)
    .map(({ tool }) => tool);
  if (fitting.length === 0) return { tools: [], note: 'No tool fits. Search with other words.' };
  const best = thatFitIn(MOST_DEFINED, fitting);
  return { tools: best.map(({ name, description }) => ({ name, description: shorten(description) })) };
}

/** The first tool, and those after it whose definitions fit together with it. */
function thatFitIn(characters: number, tools: readonly Tool[]): Tool[] {
  let left = characters;
  return tools.filter((tool, at) => {
    const { length } = JSON.stringify(toolDefinition(tool));
    if (at > 0 && length > left) return false;
    left -= length;
    return true;
  });
}

function fitOf(word: string, tool: Tool): number {
  const { name, text } = indexOf(tool);
  return Math.max(3 * matchOf(word, name), matchOf(word, text));
}

function matchOf(word: string, words: ReadonlySet<string>): number {
  if (words.has(word)) return 2;
  return [...words].some(other => isPrefix(word, other) || isPrefix(other, word)) ? 1 : 0;
}

function isPrefix(word: string, other: string): boolean {
  return word.length >= 3 && other.startsWith(word);
}

const indexOf = oncePer(({ name, description, origin, inputSchema }: Tool) => {
  const parameters = Object.keys(objectIn(inputSchema.properties)).slice(0, MOST_PARAMETERS);
  return {
    name: new Set(wordsOf(`${origin?.label ?? ''} ${name}`.slice(0, LONGEST_READ))),
    text: new Set(wordsOf(`${parameters.join(' ')} ${description}`.slice(0, LONGEST_READ))),
  };
});

function objectIn(value: JsonValue | undefined): JsonObject {
  return isJsonObject(value) ? value : {};
}

/** `createPullRequest` and `create_pull_request` have three words. */
function wordsOf(text: string): string[] {
  const apart = text.replaceAll(/(\p{Ll}|\d)(?=\p{Lu})/gu, '$1 ');
  return apart.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
}

function shorten(description: string): string {
  const line = description.trim().split('\n')[0] ?? '';
  return line.length > LONGEST_DESCRIPTION ? `${line.slice(0, LONGEST_DESCRIPTION)}…` : line;
}
