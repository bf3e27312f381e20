import { isJsonObject, type JsonObject, type JsonValue } from '../../../protocol/json.ts';

/** In blocks: how far before a mark an earlier one is found. */
const LOOKBACK = 20;
const MOST_MARKS = 4;

/**
 * The prompt cache of Anthropic's API, as it is documented: a mark writes the beginning of the prompt up to its block, in
 * the order tools, system, messages (one of the body marks its last block); and it reads the longest beginning that was written at most 20 blocks before it. See
 * https://platform.claude.com/docs/en/build-with-claude/prompt-caching.
 */
export class MarkedCache {
  readonly #written = new Set<string>();

  /** In tokens, of which there are four characters each. Throws for marks that the API refuses. */
  use(body: JsonObject): { input: number; cached: number; written: number } {
    const blocks = blocksOf(body);
    const isWhole = isJsonObject(body.cache_control);
    const marks = blocks.flatMap(({ isMarked }, at) =>
      isMarked || (isWhole && at === blocks.length - 1) ? [at] : [],
    );
    if (marks.length > MOST_MARKS) throw new Error(`The request has ${marks.length} marks.`);
    const beginnings: string[] = [];
    for (const { text } of blocks) beginnings.push(`${beginnings.at(-1) ?? ''}${text}\n`);
    const tokensTo = (at: number) => Math.ceil((beginnings[at]?.length ?? 0) / 4);
    const found = marks.map(mark => {
      for (let at = mark; at >= Math.max(0, mark - LOOKBACK); at -= 1)
        if (this.#written.has(beginnings[at] ?? '')) return tokensTo(at);
      return 0;
    });
    const cached = Math.max(0, ...found);
    for (const mark of marks) this.#written.add(beginnings[mark] ?? '');
    const last = marks.at(-1);
    const written = last === undefined ? 0 : Math.max(0, tokensTo(last) - cached);
    return { input: tokensTo(blocks.length - 1), cached, written };
  }
}

type Block = { text: string; isMarked: boolean };

function blocksOf({ tools = [], system = [], messages = [] }: JsonObject): Block[] {
  const said = listOf(messages).flatMap(message => {
    if (!isJsonObject(message)) throw new Error('A message is no object.');
    return listOf(message.content).map(block => blockOf(block, message.role));
  });
  const declared = listOf(tools).filter(tool => !isJsonObject(tool) || tool.defer_loading !== true);
  return [...declared.map(tool => blockOf(tool)), ...listOf(system).map(part => blockOf(part)), ...said];
}

function listOf(value: JsonValue | undefined): JsonValue[] {
  if (Array.isArray(value)) return value;
  return value === undefined ? [] : [value];
}

function blockOf(block: JsonValue, role: JsonValue = ''): Block {
  if (!isJsonObject(block)) return { text: JSON.stringify([role, block]), isMarked: false };
  const { cache_control, ...rest } = block;
  return { text: JSON.stringify([role, rest]), isMarked: cache_control !== undefined };
}
